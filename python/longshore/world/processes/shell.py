"""Runs the programs of a workload manager: bounded in time, with nothing of what they said thrown away."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a program said and how it ended.

    Attributes
    ----------
    argv
        Its words.
    status
        Its exit status; negative for a signal, ``None`` where it was ended for taking too long or never began.
    out, err
        Its output and its error output.
    seconds
        How long it took.
    """

    argv: tuple[str, ...]
    status: int | None
    out: str = ""
    err: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it ended well."""
        return self.status == 0

    @property
    def why(self) -> str:
        """What went wrong, in the program's own words where it has any."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        said = "; ".join(lines[-3:])
        if self.status is None:
            return said or f"'{self.argv[0]}' did not answer within {self.seconds:.0f} s"
        return said or f"'{self.argv[0]}' ended with status {self.status}"


class Shell(Protocol):
    """The one door to other programs, so that a test can stand behind it."""

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> Answer:
        """Run a program to its end and return what it said; never raises for what the program does."""
        ...


class SystemShell:
    """Runs real programs."""

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> Answer:
        """Run a program in a process group of its own, which is ended as a whole when its time is over."""
        began = time.monotonic()
        words = tuple(argv)
        try:
            done = subprocess.run(
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
            return Answer(
                argv=words,
                status=None,
                out=_text(error.stdout),
                err=_text(error.stderr),
                seconds=time.monotonic() - began,
            )
        except OSError as error:
            return Answer(argv=words, status=None, err=f"'{words[0]}' cannot be run: {error.strerror}")
        return Answer(
            argv=words, status=done.returncode, out=done.stdout, err=done.stderr, seconds=time.monotonic() - began
        )


def _text(output: bytes | str | None) -> str:
    return output.decode("utf-8", "replace") if isinstance(output, bytes) else output or ""
