"""Background call: runs one slow function at a time in a thread while the caller continues."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")


class BackgroundCall(Generic[_Answer]):
    """One function call at a time in a background thread, and its result once it is ready."""

    def __init__(self) -> None:
        self._answers: SimpleQueue[_Answer | BaseException] = SimpleQueue()
        self.is_busy = False
        """Whether a call was started whose result has not been taken."""

    def start(self, question: Callable[[], _Answer]) -> None:
        """Start a call; ignored while another is pending."""
        if self.is_busy:
            raise RuntimeError("one question at a time")
        self.is_busy = True

        def answer() -> None:
            try:
                self._answers.put(question())
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is taken
                self._answers.put(error)

        # A daemon thread: this process does not wait for a hanging program when it exits.
        threading.Thread(target=answer, name="aside", daemon=True).start()

    def take_result(self, *, timeout_s: float = 0.0) -> list[_Answer]:
        """Return the result if it is ready within `timeout_s`, else an empty list; raises the call's exception."""
        if not self.is_busy:
            return []
        try:
            answer = self._answers.get(timeout=timeout_s) if timeout_s else self._answers.get_nowait()
        except Empty:
            return []
        self.is_busy = False
        if isinstance(answer, BaseException):
            raise answer
        return [answer]
