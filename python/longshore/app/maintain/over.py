"""Whether a run is over, so that its files can be removed or archived."""

from __future__ import annotations

from typing import Final

from longshore.app.maintain.lock_user import describe_lock_user
from longshore.app.report.brief_report import status_run
from longshore.app.runs.open_run import OpenRun
from longshore.errors import SubmissionRefusedError
from longshore.model.run.states import JobState
from longshore.world.runs.archived_runs import archive_of
from longshore.world.runs.mirrors import read_mirror

_ARCHIVE: Final = "it is an archive"
_ENDED: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED})


def why_not_over(opened: OpenRun) -> tuple[str, float]:
    """Return why a run may still change, or is none of its own, empty if neither; and when it ended."""
    if archive_of(opened.run) is not None:
        return _ARCHIVE, 0.0
    if read_mirror(opened.run) is not None:
        return "another tool made its directory", 0.0
    if not opened.card.submissions:
        return "it was not submitted yet", 0.0
    report = status_run(opened)
    if report.state not in _ENDED or report.finished_at is None:
        if opened.survey.damages:
            damage = "its journal is damaged, so its end is not known"
            return f"{damage} (to see the damage: longshore verify {opened.reference})", 0.0
        return "it is not over", 0.0
    if opened.is_alive() is not False:
        live = "it is in progress, or the workload manager does not answer"
        return describe_lock_user(opened.run.engine_lock, otherwise=live), 0.0
    return "", report.finished_at


def require_over(opened: OpenRun) -> None:
    """Raise `SubmissionRefusedError` for a run that is not over, or none of its own."""
    reason, _ = why_not_over(opened)
    if reason:
        hint = f"Its state, and how to continue or end it: longshore report {opened.reference}"
        if reason == _ARCHIVE:
            hint = "Copy it as it is, or move it and let its id lead to the new place: longshore adopt NEW_PLACE"
        raise SubmissionRefusedError(f"run '{opened.card.id}' cannot be archived: {reason}", hint=hint)
