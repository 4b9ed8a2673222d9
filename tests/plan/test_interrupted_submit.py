"""An interruption at any moment of a submission leaves nothing, or a run that is listed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import msgspec
import pytest
from tests.progress_notes import ProgressNotes

from longshore.config.layers import Overrides
from longshore.contract.service import RunPaths
from longshore.model.submission import RunIdentity, Submission
from longshore.plan.submission import submit
from longshore.rundir.registry import read_entries
from longshore.services.local.service import LocalService

MODULES = ("plan/stages.py", "plan/submission.py", "plan/submit_once.py", "plan/write_run.py")
"""Modules in which the interruption comes; what they call is one moment."""


class Accepting(LocalService):
    """Takes every run, and starts nothing."""

    name: ClassVar[str] = "local"

    def submit(self, run: RunPaths) -> Submission:
        """Say yes."""
        card = msgspec.json.decode(run.card.read_bytes(), type=RunIdentity)
        return Submission(id=card.id, by="submit", at=time.time(), user="me", host="here")


class InterruptedAtLine:
    """Interrupts the program at one of the lines that run after a run directory has its name."""

    def __init__(self, count: int, root: Path) -> None:
        self.lines_left = count
        self._card = root / "run.json"

    def __call__(self, frame: FrameType, _event: str, _value: object) -> Callable[..., Any] | None:
        return self._line if frame.f_code.co_filename.endswith(MODULES) else None

    def _line(self, _frame: FrameType, event: str, _value: object) -> Callable[..., Any] | None:
        if event == "line" and self.lines_left and self._card.exists():
            self.lines_left -= 1
            if not self.lines_left:
                raise KeyboardInterrupt
        return self._line


def interrupt_submit(path: Path, line: int) -> str | None:
    """Interrupt a submission at a line after its directory has its name; ``None`` if it ended before."""
    overrides = Overrides({"wmsServiceClass": f"{__name__}.Accepting", "submitPath": f"run{line}"})
    tracer, before = InterruptedAtLine(line, Path(f"run{line}")), sys.gettrace()
    sys.settrace(tracer)
    try:
        submit(path, overrides, progress=ProgressNotes())
    except KeyboardInterrupt as interrupt:
        return str(interrupt)
    finally:
        sys.settrace(before)
    assert tracer.lines_left
    return None


def test_an_interrupt_leaves_no_run_that_is_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text("pipeline: {tasks: {one: {command: 'true'}}}\n", "utf-8")
    texts: list[str] = []
    while (text := interrupt_submit(Path("run.yaml"), len(texts) + 1)) is not None:
        root = tmp_path / f"run{len(texts) + 1}"
        listed = any(entry.path == str(root) for entry in read_entries())
        assert root.exists() is listed, f"after line {len(texts) + 1}: {text!r}"
        assert ("longshore cancel" if listed else "nothing was submitted") in text
        texts.append(text)
    assert len(texts) > 20
    assert len({text == "nothing was submitted" for text in texts}) == 2
