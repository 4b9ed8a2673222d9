"""Document of ``restart``: the jobs that run again, counted per label, state and reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from longshore.app.documents.document import Count, DatedDocument, DocumentEntry, Ordinal
from longshore.app.documents.run import SubmissionDocument, WaitStatus
from longshore.engine.state.restart_selection import RestartReason
from longshore.model.run.states import JobState
from longshore.plan.workflow_match import MatchReason, WorkflowMatch

if TYPE_CHECKING:
    from longshore.app.changes.compare import RunComparison
    from longshore.app.changes.reuse import ReusePlan
    from longshore.app.control.restart import RestartPlan
    from longshore.app.runs.open_run import OpenRun
    from longshore.model.run.report import RunReport


class SelectionEntry(DocumentEntry, frozen=True):
    """Names of jobs and labels; all jobs where none is named."""

    jobs: Sequence[str]
    """Names of jobs."""
    labels: Sequence[str]
    """Names of labels."""


class JobVerdictEntry(DocumentEntry, frozen=True):
    """What becomes of a job with the changes."""

    name: str
    """Name of the job."""
    runs: bool
    """Whether it runs; else its result is kept."""
    reason: MatchReason
    """kept, new, unfinished (it did not succeed), command (it changed), inputs (files or parents changed), outputs
    (what it made is gone, or was written since by something else), reads (it waits for a job that runs) or final (the
    final job)."""
    because: str
    """The reason for people."""


def verdict_entries(names: Sequence[str], match: WorkflowMatch | None) -> list[JobVerdictEntry]:
    """Return what becomes of each job."""
    if match is None:
        return []
    return [
        JobVerdictEntry(name=name, runs=not each.is_kept, reason=each.reason, because=each.detail)
        for name, each in zip(names, match.jobs, strict=True)
    ]


class ReuseDocument(DatedDocument, frozen=True, kw_only=True):
    """What a new run would keep of an earlier one: `longshore submit --reuse RUN --dry-run --json`."""

    kind: Literal["reuse"] = "reuse"
    earlier: str
    """Id of the earlier run."""
    earlier_dir: str
    """Its directory."""
    jobs: Sequence[JobVerdictEntry]
    """What becomes of each job of the new run."""
    gone: Sequence[str]
    """Names of jobs that only the earlier run has."""


def reuse_document(plan: ReusePlan, *, as_of: float) -> ReuseDocument:
    """Return what a new run would keep as ``submit --reuse --dry-run --json`` prints it."""
    return ReuseDocument.from_record(
        plan,
        earlier=plan.earlier.card.id,
        earlier_dir=str(plan.earlier.run.root),
        jobs=verdict_entries(plan.names, plan.match),
        as_of=as_of,
    )


class RestartDocument(SubmissionDocument, frozen=True, kw_only=True, rename={"from_labels": "from"}):
    """Jobs that a restart runs again: `longshore restart --json`."""

    kind: Literal["restart"] = "restart"
    submitted: bool
    """Whether the run was handed over: not with `--dry-run`, and not if there is nothing to do."""
    again: Mapping[str, Mapping[JobState, Ordinal]]
    """Number of jobs that run again, per label and per state they are in: FAILED, DELETED (cancelled), PRUNED (waited
    for one of these) or SUCCEEDED (with --from, and the final job)."""
    reasons: Mapping[str, Mapping[RestartReason, Ordinal]]
    """Number of the same jobs per label and reason: failed, cancelled, pruned (waited for one of these), named (it
    succeeded, and its label is in `from`), descends (it succeeded, and descends from one that is named), final (the
    final job, which gathers what the others make), changed (its command or its files changed, or it waits for such a
    job) or new (with --with-changes)."""
    unfinished: Count
    """Number of jobs that were never over because the engine died; they go on in any case."""
    from_labels: Sequence[str]
    """Labels that run again with all their descendants, even those that succeeded."""
    set: Mapping[str, str]
    """What is set for jobs that run again or go on, a text per key."""
    set_for: SelectionEntry
    """The jobs and labels for which it is set."""
    set_of: Count
    """Number of jobs for which it is set."""
    with_changes: bool
    """Whether the run takes what changed since it was made."""
    changes: Sequence[str]
    """What changed since the run was made, a sentence each; empty if that changes no job, or was not compared."""
    jobs: Sequence[JobVerdictEntry]
    """What becomes of each job, with --dry-run and changes; else empty."""
    gone: Sequence[str]
    """Names of jobs that the changed workflow lacks."""
    notes: Sequence[str]
    """What a reader must know, a sentence each."""
    state: JobState | UnsetType = UNSET
    """State of the run at its end; only with `--wait`."""
    exit_status: WaitStatus | UnsetType = UNSET
    """Exit status that stands for the state, or for a pause that ended the wait; only with `--wait`."""


def restart_document(
    opened: OpenRun,
    plan: RestartPlan,
    *,
    submitted: bool,
    comparison: RunComparison | None = None,
    change_lines: Sequence[str] = (),
    notes: Sequence[str],
    as_of: float,
) -> RestartDocument:
    """Return what a restart runs as ``restart --json`` prints it; a comparison is given if it differs."""
    changes = plan.changes
    return RestartDocument.from_record(
        plan,
        id=opened.card.id,
        name=opened.card.name,
        submit_dir=str(opened.directory),
        submitted=submitted,
        again=plan.labels,
        from_labels=changes.from_labels,
        set=changes.set,
        set_for=SelectionEntry.from_record(changes.selection),
        set_of=plan.changed,
        with_changes=plan.comparison is not None,
        changes=change_lines,
        jobs=verdict_entries(comparison.names, comparison.match) if comparison and not submitted else [],
        gone=comparison.gone if comparison else (),
        notes=notes,
        as_of=as_of,
    )


def add_end(document: RestartDocument, report: RunReport) -> RestartDocument:
    """Return the document with the state of the run when the command no longer waited."""
    return replace(document, state=report.state, exit_status=report.wait_status)
