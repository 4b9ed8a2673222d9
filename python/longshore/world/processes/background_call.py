"""Background call: runs one slow function at a time in a thread while the caller continues."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

_Result = TypeVar("_Result")


class BackgroundCall(Generic[_Result]):
    """One function call at a time in a background thread, and its result once it is ready."""

    def __init__(self) -> None:
        self._results: SimpleQueue[_Result | BaseException] = SimpleQueue()
        self.is_busy = False
        """Whether a call was started whose result has not been taken."""

    def start(self, function: Callable[[], _Result]) -> None:
        """Start a call; raises `RuntimeError` while the result of another has not been taken."""
        if self.is_busy:
            raise RuntimeError("another call is under way")
        self.is_busy = True

        def run() -> None:
            try:
                self._results.put(function())
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is taken
                self._results.put(error)

        # A daemon thread: this process does not wait for a hanging program when it exits.
        threading.Thread(target=run, name="background call", daemon=True).start()

    def take_result(self, *, timeout_s: float = 0.0) -> list[_Result]:
        """Return the result if it is ready within `timeout_s`, else an empty list; raises the call's exception."""
        if not self.is_busy:
            return []
        try:
            result = self._results.get(timeout=timeout_s) if timeout_s else self._results.get_nowait()
        except Empty:
            return []
        self.is_busy = False
        if isinstance(result, BaseException):
            raise result
        return [result]
