"""Counts the jobs of a changed workflow that a restart would run, per label, state and reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

import msgspec

from longshore.app.changes.compare import RunComparison
from longshore.app.changes.match_run import read_state
from longshore.app.runs.open_run import OpenRun, first_names
from longshore.contract.service import RestartChanges
from longshore.engine.state.job_codes import ACTIVE, JOB_STATES, OVER, JobCode
from longshore.engine.state.restart_selection import RestartReason
from longshore.errors import RunNotFoundError, SubmissionRefusedError
from longshore.model.states import JobState
from longshore.model.wording import did_you_mean
from longshore.plan.workflow_match import JobMatch, MatchReason

_BAD_ENDS: Final = {
    JobCode.FAILED: RestartReason.FAILED,
    JobCode.DELETED: RestartReason.CANCELLED,
    JobCode.PRUNED: RestartReason.PRUNED,
}
_REASONS: Final = {MatchReason.NEW: RestartReason.NEW, MatchReason.FINAL: RestartReason.FINAL}


class ChangedJobCounts(msgspec.Struct):
    """Jobs that run, per label and state, and per label and reason; `set_for` counts those with values of ``--set``."""

    labels: dict[str, Counter[JobState]] = msgspec.field(default_factory=dict)
    reasons: dict[str, Counter[RestartReason]] = msgspec.field(default_factory=dict)
    unfinished: int = 0
    set_for: int = 0


def count_changed_jobs(opened: OpenRun, changes: RestartChanges, comparison: RunComparison) -> ChangedJobCounts:
    """Count the jobs of the changed workflow that a restart would run.

    Raises `SubmissionRefusedError` if jobs were active when the engine died, `RunNotFoundError` for an unknown name.
    """
    plan, match = comparison.plan, comparison.match
    assert plan is not None
    assert match is not None
    jobs, state = read_state(opened)
    if active := [job for job, code in enumerate(state.code) if code in {*ACTIVE, JobCode.UNDECIDED}]:
        names = first_names([jobs.names[job] for job in active])
        raise SubmissionRefusedError(
            f"jobs of run '{opened.card.id}' were active when its engine died: {names}",
            hint=f"Let them end first: longshore resume {opened.reference}",
        )
    labels = plan.workflow.counts()
    _require_names(opened, "label", (*changes.from_labels, *changes.selection.labels), labels)
    _require_names(opened, "job", changes.selection.jobs, frozenset(comparison.names))
    counts = ChangedJobCounts()
    named = _named_jobs(comparison, changes.from_labels)
    for job, each, reason in zip(plan.workflow, match.jobs, named, strict=True):
        code = JobCode.READY if each.earlier is None else JobCode(state.code[each.earlier])
        if why := _reason(each, code) or reason:
            counts.labels.setdefault(job.label, Counter())[JOB_STATES[code]] += 1
            counts.reasons.setdefault(job.label, Counter())[why] += 1
        elif each.is_kept:
            continue
        else:
            counts.unfinished += code != JobCode.HELD
        selection = changes.selection
        is_selected = selection.everything or job.name in selection.jobs or job.label in selection.labels
        counts.set_for += bool(changes.set) and is_selected
    return counts


def _named_jobs(comparison: RunComparison, from_labels: Collection[str]) -> Iterator[RestartReason | None]:
    """Yield per job whether its label, or that of an ancestor, is to run again."""
    assert comparison.plan is not None
    below: list[bool] = []
    for job, parents in zip(comparison.plan.workflow, comparison.plan.workflow.links(), strict=True):
        is_named = job.label in from_labels
        below.append(is_named or any(below[parent] for parent in parents))
        yield RestartReason.NAMED if is_named else RestartReason.DESCENDS if below[-1] else None


def _reason(each: JobMatch, code: JobCode) -> RestartReason | None:
    if each.is_changed:
        return _REASONS.get(each.reason, RestartReason.CHANGED)
    return _BAD_ENDS.get(code) if code in OVER else None


def _require_names(opened: OpenRun, kind: str, names: Collection[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise RunNotFoundError(
                f"run '{opened.card.id}' has no {kind} '{name}' with its changes", hint=did_you_mean(name, known) or ""
            )
