"""Runner of a workload manager's programs, with timeouts and complete output."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

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
