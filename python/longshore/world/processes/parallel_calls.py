"""Calls of one function for many items side by side, within a limit in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def call_in_parallel(
    function: Callable[[_Item], _Result], items: Iterable[_Item], *, threads: int, limit_s: float
) -> tuple[list[_Result], bool]:
    """Call a function for each item in some threads; return the results in the order of items, and whether all ended.

    What takes longer than `limit_s` is left behind: its threads do not keep the process alive. An exception of a call
    is raised.
    """
    numbered = enumerate(items)
    lock = threading.Lock()
    stopped = threading.Event()
    answers: SimpleQueue[tuple[int, _Result] | BaseException | None] = SimpleQueue()

    def work() -> None:
        try:
            while not stopped.is_set():
                with lock:
                    number, item = next(numbered, (-1, None))
                if item is None:
                    break
                answers.put((number, function(item)))
        except BaseException as error:  # noqa: BLE001 - it is raised in the caller's thread
            answers.put(error)
        finally:
            answers.put(None)

    for number in range(threads):
        threading.Thread(target=work, name=f"parallel call {number}", daemon=True).start()
    try:
        return _collect(answers, threads, time.monotonic() + limit_s)
    finally:
        stopped.set()


def _collect(
    answers: SimpleQueue[tuple[int, _Result] | BaseException | None], busy: int, deadline: float
) -> tuple[list[_Result], bool]:
    results: dict[int, _Result] = {}
    while busy:
        try:
            answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            break
        if answer is None:
            busy -= 1
        elif isinstance(answer, BaseException):
            raise answer
        else:
            results[answer[0]] = answer[1]
    return [result for _, result in sorted(results.items(), key=lambda each: each[0])], not busy
