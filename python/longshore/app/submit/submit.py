"""Submission of a run (`longshore submit`), from a configuration or from a directory that was prepared."""

from __future__ import annotations

import os
from pathlib import Path

from longshore.app.configure.layers import Overrides
from longshore.app.configure.resolved_run import resolve_run
from longshore.app.progress import Progress, RecordingProgress
from longshore.app.submit.stages import advance_run, reserved_id
from longshore.app.submit.submit_once import PreparedRun, SubmittedRun
from longshore.app.submit.submit_prepared import submit_prepared
from longshore.errors import UsageError


def submit(path: Path, overrides: Overrides | None = None, *, force: bool = False, progress: Progress) -> SubmittedRun:
    """Submit a run; `path` is a configuration file or a prepared run directory."""
    # `os.path`, unlike `Path`, returns false for names that are too long and for unreadable directories.
    if os.path.isdir(path):  # noqa: PTH112
        if overrides:
            keys = [*overrides.options, *(pair.partition("=")[0] for pair in overrides.sets)]
            names = ", ".join(f"'{key}'" for key in keys)
            raise UsageError(
                f"'{path}' is prepared already, and {names} would have no effect",
                hint="Prepare the run again with these options, or leave them out.",
            )
        return submit_prepared(path, force=force, progress=progress)
    if force:
        raise UsageError("'--force' is for a directory that was prepared", hint="Leave it out.")
    recording = RecordingProgress(progress)
    with reserved_id() as (run_id, now):
        run = resolve_run(path, overrides, now=now, progress=recording, run_id=run_id)
        prepared = advance_run(run, PreparedRun, recording)
    return advance_run(prepared, SubmittedRun, recording)
