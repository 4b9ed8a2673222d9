"""Decides whether a restart takes what changed since its run was made."""

from __future__ import annotations

from longshore.app.changes.compare import RunComparison
from longshore.app.runs.open_run import OpenRun
from longshore.errors import SubmissionRefusedError


def takes_changes(opened: OpenRun, comparison: RunComparison, *, is_wanted: bool) -> bool:
    """Return whether a restart takes the changes of a comparison; `is_wanted` tells whether the user asks for them.

    Changes that the user does not ask for are taken only if they all come from ``--set`` of the same command.

    Raises
    ------
    SubmissionRefusedError
        The user asks for changes, and nothing could be compared.
    LongshoreError
        The user asks for changes, and the run could not be prepared now.
    """
    is_asked = is_wanted or bool(comparison.sets)
    if comparison.note and is_asked:
        raise SubmissionRefusedError(
            f"run '{opened.card.id}' cannot take changes: {comparison.note}",
            hint="Run it as it was with --as-it-was, or submit its configuration as a new run.",
        )
    if comparison.error is not None and is_asked:
        raise comparison.error
    if not comparison.differs:
        return is_wanted and bool(comparison.lost_outputs)
    return is_wanted or comparison.asked_only
