"""Puts a question that may take long in a thread of its own, so that whoever asks can go on meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")


class Aside(Generic[_Answer]):
    """One question at a time, and its answer when it is there."""

    def __init__(self) -> None:
        self._answers: SimpleQueue[_Answer | BaseException] = SimpleQueue()
        self.busy = False
        """Whether a question was put whose answer nobody has taken."""

    def ask(self, question: Callable[[], _Answer]) -> None:
        """Put a question; while one is open, no other."""
        if self.busy:
            raise RuntimeError("one question at a time")
        self.busy = True

        def answer() -> None:
            try:
                self._answers.put(question())
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is taken
                self._answers.put(error)

        # Whoever ends does not wait for a program that hangs.
        threading.Thread(target=answer, name="aside", daemon=True).start()

    def take(self, *, timeout_s: float = 0.0) -> list[_Answer]:
        """The answer, if it is there within a time; an error of the question is raised here."""
        if not self.busy:
            return []
        try:
            answer = self._answers.get(timeout=timeout_s) if timeout_s else self._answers.get_nowait()
        except Empty:
            return []
        self.busy = False
        if isinstance(answer, BaseException):
            raise answer
        return [answer]
