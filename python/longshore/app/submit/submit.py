"""Prepares a run and submits it (`longshore submit`)."""

from __future__ import annotations

from pathlib import Path

from longshore.app.configure.layers import NO_OVERRIDES, Overrides
from longshore.app.configure.resolved_run import resolve_run
from longshore.app.progress import Progress, RecordingProgress
from longshore.app.submit.pipeline import advance_run, reserved_id
from longshore.app.submit.submit_once import PreparedRun, SubmittedRun


def submit(path: Path, overrides: Overrides = NO_OVERRIDES, *, progress: Progress) -> SubmittedRun:
    """Prepare a run and hand it to its service; `path` is the user's file.

    Raises `LongshoreError` if the run cannot be prepared or is refused; nothing is left behind.
    """
    recording = RecordingProgress(progress)
    with reserved_id() as (run_id, now):
        run = resolve_run(path, overrides, now=now, progress=recording, run_id=run_id)
        prepared = advance_run(run, PreparedRun, recording)
    return advance_run(prepared, SubmittedRun, recording)
