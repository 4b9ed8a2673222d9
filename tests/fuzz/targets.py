"""What is done with a case, in this process and within limits: no error but Longshore's own may come out."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tests.app.progress_notes import ProgressNotes
from tests.fuzz.cases import Files

from longshore.app import api
from longshore.app.configure.lint import lint_file
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


def run_case(kind: str, files: Files, folder: Path, runs: Path | None = None) -> Finding | None:
    """Run a case in a folder, which is removed afterwards; return what is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _run_case(kind, files, folder, runs)
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)


def _run_case(kind: str, files: Files, folder: Path, runs: Path | None) -> Finding | None:
    if kind == "journal":
        assert runs is not None
        name = next(iter(files)).partition("/")[0]
        shutil.copytree(runs / name, folder / name, symlinks=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    os.chdir(folder)
    calls = _looks(folder / next(iter(files)).partition("/")[0]) if kind == "journal" else _stages()
    output = io.StringIO()
    for call in calls:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            if finding := _call(call):
                return finding
    return None


def _stages() -> Iterator[Callable[[], object]]:
    path = Path("run.yaml")
    yield lambda: lint_file(path, now=0.0)
    yield lambda: api.run_stages(path, "transform", progress=ProgressNotes())


def _looks(run: Path) -> Iterator[Callable[[], object]]:
    yield lambda: api.status(api.open_run(str(run)))
    yield lambda: api.report(api.open_run(str(run)), details=True)
    yield lambda: list(api.events(api.open_run(str(run))))
    yield lambda: api.logs(api.open_run(str(run)), failed=True)
    for job in ("0", "1"):
        yield lambda job=job: api.explain(api.open_run(str(run)), job)  # type: ignore[misc]
        yield lambda job=job: api.show_job(api.open_run(str(run)), job)  # type: ignore[misc]


def _call(call: Callable[[], object]) -> Finding | None:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    began = time.monotonic()
    try:
        call()
    except LongshoreError as error:
        return None if str(error) else Finding(signature="an error without words", text=repr(error))
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
