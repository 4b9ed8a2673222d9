"""What is done with a case, in this process and within limits: no error but Longshore's own may come out."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tests.fuzz.kind import Files, Kind, NotReadError, Step

from longshore.errors import LongshoreError

LONGEST_S = 5.0
"""Processor time of a case."""


class TooSlowError(BaseException):
    """A case takes too long."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A case that failed: `signature` is the same for equal causes."""

    signature: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of a case: whether it got past the parser, whether no step refused it, and what is wrong."""

    is_read: bool
    is_accepted: bool
    finding: Finding | None = None


def run_case(kind: Kind, files: Files, folder: Path) -> Outcome:
    """Run a case in a folder, which is removed afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        os.chdir(folder)
        passed = []
        for step in kind.steps(files):
            output = io.StringIO()
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                result = _call(step)
            passed.append(result is None)
            if isinstance(result, Finding):
                return Outcome(is_read=passed[0], is_accepted=False, finding=result)
        return Outcome(is_read=passed[0], is_accepted=all(passed))
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)


def _call(step: Step) -> Finding | Exception | None:
    """Call a step; return what is wrong, or the error by which it refuses the case."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    began = time.monotonic()
    try:
        step()
    except (LongshoreError, NotReadError) as error:
        words = str(error) or isinstance(error, NotReadError)
        return error if words else Finding(signature="an error without words", text=repr(error))
    except (Exception, TooSlowError) as error:  # noqa: BLE001 - which one it is, is the result
        return Finding(
            signature=_signature(error), text=f"{time.monotonic() - began:.1f} s\n{traceback.format_exc(limit=-6)}"
        )
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    return None


def _signature(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/longshore/" in frame.filename]
    if not frames:
        return type(error).__name__
    # Where time or the stack ran out is chance; the module that began it is not.
    frame = (
        frames[min(3, len(frames) - 1)]
        if isinstance(error, TooSlowError | RecursionError | MemoryError)
        else frames[-1]
    )
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.name}"
