"""Document of ``restart``: the jobs that run again, counted per label, state and reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from longshore.app.documents.document import Count, DocumentEntry, Ordinal
from longshore.app.documents.run import SubmissionDocument
from longshore.engine.state.restart_selection import RestartReason
from longshore.model.run.states import JobState

if TYPE_CHECKING:
    from longshore.app.control.restart import RestartPlan
    from longshore.app.runs.open_run import OpenRun


class SelectionEntry(DocumentEntry, frozen=True):
    """Names of jobs and labels; all jobs where none is named."""

    jobs: Sequence[str]
    """Names of jobs."""
    labels: Sequence[str]
    """Names of labels."""


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
    succeeded, and its label is in `from`), descends (it succeeded, and descends from one that is named) or final (the
    final job, which gathers what the others make)."""
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
    notes: Sequence[str]
    """What a reader must know, a sentence each."""


def restart_document(
    opened: OpenRun, plan: RestartPlan, *, submitted: bool, notes: Sequence[str], as_of: float
) -> RestartDocument:
    """Return what a restart runs as ``restart --json`` prints it."""
    changes = plan.changes
    return RestartDocument.from_record(
        plan,
        id=opened.card.id,
        name=opened.card.name,
        submit_dir=str(opened.run.root),
        submitted=submitted,
        again=plan.labels,
        from_labels=changes.from_labels,
        set=changes.set,
        set_for=SelectionEntry.from_record(changes.selection),
        set_of=plan.changed,
        notes=notes,
        as_of=as_of,
    )
