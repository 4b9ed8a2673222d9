"""Calls of programs and slow functions, within limits in time: alone, side by side, or in the background."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from longshore.system.atomic import open_to_append

# Background call: runs one slow function at a time in a thread while the caller continues.


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


# Calls of one function for many items side by side, within a limit in time.


_Item = TypeVar("_Item")


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


# Runner of a long program with its output in a file; an interrupt of Longshore ends the program too.


_GRACE_S: Final = 10.0
"""Seconds from the request to end (SIGTERM) until the program is killed."""
_POLL_S: Final = 0.05


def run_to_file(words: Sequence[str], output: Path, *, env: Mapping[str, str]) -> int:
    """Run a program and append its output and errors to a file; return its exit status.

    No shell interprets the words; the program is looked up on the PATH in `env`. The status is as a shell gives it:
    128 plus the number of the signal that ended the program. Raises `OSError` when the program cannot be started, or
    the file cannot be written.
    """
    from concurrent.futures import ThreadPoolExecutor  # few commands run a long program

    started: list[subprocess.Popen[bytes]] = []
    with open_to_append(output) as log, ThreadPoolExecutor(1) as starter:

        def start() -> None:
            # In a session of its own: an interrupt reaches only us, and `_end_group` ends the program's children too.
            started.append(
                subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
                )
            )

        # An interrupt while the thread itself starts would hide the thread from `shutdown`: it starts without work.
        starter.submit(int).result()
        try:
            # Python interrupts its first thread only. If the program were started there, an interrupt between its start
            # and Popen's return would leave it running unknown to us.
            starter.submit(start).result()
            status = started[0].wait()
        except BaseException:
            with suppress(KeyboardInterrupt):
                starter.shutdown()
            starter.shutdown()
            for process in started:
                _end_group(process)
            raise
    return 128 - status if status < 0 else status


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program and its process group: SIGTERM, then SIGKILL after a grace period or at another interrupt."""
    with suppress(KeyboardInterrupt):
        # The next interrupt may come at once, in answer to SIGTERM.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline and (process.poll() is None or _group_exists(process.pid)):
            time.sleep(_POLL_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _group_exists(group: int) -> bool:
    """Whether any process is left in a process group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


# Runner of a workload manager's programs, with timeouts and complete output.


_STATUSES_OF_NO_PROGRAM: Final = frozenset({126, 127})
_STATUSES_OF_SIGNALS: Final = range(129, 193)
"""Statuses of a shell whose command a signal ended."""


class ProgramResult(msgspec.Struct, frozen=True, kw_only=True):
    """Output, exit status and duration of a program.

    `status` is negative for a signal, and ``None`` when the program timed out or could not be started.
    `never_ran` tells these two apart.
    """

    argv: tuple[str, ...]
    status: int | None
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    never_ran: bool = False

    @property
    def ok(self) -> bool:
        """Whether the program exited with status 0."""
        return self.status == 0

    @property
    def is_missing(self) -> bool:
        """Whether there was no program to run; statuses 126 and 127 are a shell's (POSIX, 2.8.2)."""
        return self.never_ran or self.status in _STATUSES_OF_NO_PROGRAM

    @property
    def has_answered(self) -> bool:
        """Whether the program ran and ended by itself: it was not missing, did not crash, and did not hang."""
        crashed = self.status is not None and (self.status < 0 or self.status in _STATUSES_OF_SIGNALS)
        return not (self.is_missing or crashed or self.status is None)

    @property
    def why(self) -> str:
        """The reason of a failure, from the program's own output where it has any."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        output = "; ".join(lines[-3:])
        if self.status is None:
            return output or f"'{self.argv[0]}' did not answer within {self.seconds:.0f} s"
        return output or f"'{self.argv[0]}' ended with status {self.status}"


class Shell(Protocol):
    """Interface to external programs, which tests can replace."""

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        """Run a program to its end and return its output; never raises for a failure of the program."""
        ...


class SystemShell:
    """Runs real programs."""

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        """Run a program in its own process group, which is killed as a whole at the timeout."""
        began_at_s = time.monotonic()
        words = tuple(argv)
        try:
            process = subprocess.run(
                words,
                input=stdin,
                env=dict(env),
                capture_output=True,
                timeout=timeout_s,
                encoding="utf-8",
                errors="replace",
                check=False,
                start_new_session=True,
            )
        except subprocess.TimeoutExpired as error:
            return ProgramResult(
                argv=words,
                status=None,
                out=_text(error.stdout),
                err=_text(error.stderr),
                seconds=time.monotonic() - began_at_s,
            )
        except OSError as error:
            why = f"'{words[0]}' cannot be run: {error.strerror}"
            # Only a failure to start the program names a file; others may come while it runs.
            return ProgramResult(argv=words, status=None, err=why, never_ran=error.filename is not None)
        return ProgramResult(
            argv=words,
            status=process.returncode,
            out=process.stdout,
            err=process.stderr,
            seconds=time.monotonic() - began_at_s,
        )


def _text(output: bytes | str | None) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""
