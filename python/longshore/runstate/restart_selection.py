"""Chooses the jobs that run again in a restart; apart because engines and previews choose alike; pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from longshore.runstate.run_state import ACTIVE, OVER, JobCode, RunState


class RestartReason(StrEnum):
    """Reason why a job runs again."""

    FAILED = "failed"
    CANCELLED = "cancelled"
    PRUNED = "pruned"
    NAMED = "named"
    """It succeeded, and its label was named."""
    DESCENDS = "descends"
    """It succeeded, and descends from a job whose label was named."""
    FINAL = "final"
    """It is the final job, which gathers what the others make."""
    CHANGED = "changed"
    """Its command, its inputs or outputs changed, or it waits for a job that changed or is new."""
    NEW = "new"
    """It is in no earlier workflow of the run."""


_BAD_ENDS: Final[Mapping[int, RestartReason]] = {
    JobCode.FAILED: RestartReason.FAILED,
    JobCode.DELETED: RestartReason.CANCELLED,
    JobCode.PRUNED: RestartReason.PRUNED,
}
_UNFINISHED: Final = (*ACTIVE, JobCode.UNDECIDED)


class RestartSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that a restart runs."""

    jobs: Mapping[int, RestartReason]
    """Jobs that are over and run again, in order, each with the reason."""
    restarted_jobs: Sequence[int]
    """Jobs that begin with their first task, because their inputs are made anew or they had succeeded."""
    active_jobs: Sequence[int]
    """Jobs that would have to run again, but are active or undecided."""


def select_for_restart(state: RunState, labels: Container[int] = ()) -> RestartSelection:
    """Select all jobs that did not succeed, and all that have or descend from the labels, given by index."""
    selected: dict[int, RestartReason] = {}
    restarted_jobs: list[int] = []
    active_jobs: list[int] = []
    below = bytearray(state.size)
    for job, code in enumerate(state.code):
        if job == state.final:
            continue
        is_named = state.labels[job] in labels
        # Its parents come before it, and so are marked by now.
        below[job] = is_named or any(below[parent] for parent in state.parents[job])
        if below[job]:
            (active_jobs if code in _UNFINISHED else restarted_jobs).append(job)
        if reason := _BAD_ENDS.get(code):
            selected[job] = reason
        elif below[job] and code == JobCode.SUCCEEDED:
            selected[job] = RestartReason.NAMED if is_named else RestartReason.DESCENDS
    if state.final >= 0:
        _select_final(state, selected, restarted_jobs, is_named=state.labels[state.final] in labels)
    return RestartSelection(jobs=selected, restarted_jobs=restarted_jobs, active_jobs=active_jobs)


def _select_final(
    state: RunState, selected: dict[int, RestartReason], restarted_jobs: list[int], *, is_named: bool
) -> None:
    final = state.final
    code = state.code[final]
    if reason := _BAD_ENDS.get(code):
        selected[final] = reason
    elif code in OVER and (selected or is_named):
        # It must also gather the new outputs of the jobs that run again.
        selected[final] = RestartReason.NAMED if is_named else RestartReason.FINAL
        restarted_jobs.append(final)
