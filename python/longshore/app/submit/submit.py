"""Submission of a run (`longshore submit`), from a configuration or from a directory that was prepared."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from longshore.app.configure.layers import Overrides
from longshore.app.configure.probe import refuse_by_probe
from longshore.app.configure.resolved_run import ResolvedRun
from longshore.app.progress import HeldNotes, Progress, RecordingProgress
from longshore.app.site_choice.resolve import releasing_site, resolve_at_chosen_site
from longshore.app.submit.shared_outputs import note_shared_outputs
from longshore.app.submit.stages import advance_run, noting_kept_graph, reserved_id, submit_plan
from longshore.app.submit.submission_checks import SubmissionChecks
from longshore.app.submit.submit_once import SubmittedRun
from longshore.app.submit.submit_prepared import submit_prepared
from longshore.app.submit.transform import RunPlan
from longshore.errors import ErrorDetail, SubmissionRefusedError, UsageError

_HINT: Final = "Mend what it says, or submit without '--strict'."


def submit(
    path: Path,
    overrides: Overrides | None = None,
    *,
    force: bool = False,
    checks: SubmissionChecks | None = None,
    progress: Progress,
) -> SubmittedRun:
    """Submit a run; `path` is a configuration file or a prepared run directory.

    `checks` may refuse a configuration before anything is written.
    """
    # `os.path`, unlike `Path`, returns false for names that are too long and for unreadable directories.
    if os.path.isdir(path):  # noqa: PTH112
        if overrides:
            keys = [*overrides.options, *(pair.partition("=")[0] for pair in overrides.sets)]
            names = ", ".join(f"'{key}'" for key in keys)
            raise UsageError(
                f"'{path}' is prepared already, and {names} would have no effect",
                hint="Prepare the run again with these options, or leave them out.",
            )
        if checks and checks.strict:
            raise UsageError(
                f"'{path}' is prepared already, and '--strict' would have no effect",
                hint="Submit its configuration with '--strict'.",
            )
        with_probe = checks is None or checks.with_probe
        return submit_prepared(path, force=force, with_probe=with_probe, progress=progress)
    if force:
        raise UsageError("'--force' is for a directory that was prepared", hint="Leave it out.")
    with reserved_id() as (run_id, now):
        plan, recording = plan_new_run(
            path, overrides, run_id=run_id, now=now, checks=checks or SubmissionChecks(), progress=progress
        )
    return submit_plan(plan, recording)


def plan_new_run(
    path: Path,
    overrides: Overrides | None,
    *,
    run_id: str,
    now: float,
    checks: SubmissionChecks,
    progress: Progress,
    check: Callable[[ResolvedRun], None] = lambda _run: None,
) -> tuple[RunPlan, RecordingProgress]:
    """Plan a run of a configuration; also return the progress of its further stages.

    `check` may refuse the run before its payload is read.
    """
    held = HeldNotes(progress)
    if not checks.strict:
        held.release()
    recording = RecordingProgress(held)
    try:
        run = resolve_at_chosen_site(
            path, overrides, now=now, progress=recording, run_id=run_id, with_probe=checks.with_probe
        )
        with releasing_site(run):
            refuse_by_probe(run.service, run.context.probe)
            check(run)
            plan = advance_run(run, RunPlan, recording)
            note_shared_outputs(plan, recording)
    except BaseException:
        # The notes may explain the error.
        held.release()
        raise
    if checks.strict:
        with releasing_site(run), noting_kept_graph(plan, held):
            _refuse_warnings(recording.warnings)
        held.release()
    return plan, recording


def _refuse_warnings(warnings: Sequence[str]) -> None:
    """Refuse a run with warnings, and list them all."""
    if not warnings:
        return
    error = SubmissionRefusedError(
        f"'--strict' refuses a run with {'a warning' if len(warnings) == 1 else 'warnings'}: {warnings[0]}", hint=_HINT
    )
    if warnings[1:]:
        error.details = tuple(
            ErrorDetail(code=SubmissionRefusedError.code, message=f"'--strict' refuses this: {warning}", hint=_HINT)
            for warning in warnings
        )
    raise error
