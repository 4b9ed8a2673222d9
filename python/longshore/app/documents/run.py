"""Documents of commands that hand runs over, change them, or ask for their state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from longshore.app.documents.document import Count, DatedDocument, DocumentEntry, Ordinal, Seconds
from longshore.contract.context import RunPaths
from longshore.engine.state.restart_selection import RestartReason
from longshore.model.run.moment import format_timestamp
from longshore.model.run.report import RunReport
from longshore.model.run.state import STATE_EXIT_STATUS, JobState
from longshore.model.run.submission import RunIdentity

if TYPE_CHECKING:
    from longshore.app.control.restart import RestartPlan
    from longshore.app.runs.open_run import OpenRun
    from longshore.app.submit.stage_results import StageResult
    from longshore.contract.intervention import Intervention

ExitStatus: TypeAlias = Literal[0, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20]


class CountsEntry(DocumentEntry, frozen=True):
    """Number of jobs in each state; every state is there."""

    UNKNOWN: Count = 0
    MISFIT: Count = 0
    UNREADY: Count = 0
    READY: Count = 0
    PENDING: Count = 0
    RUNNING: Count = 0
    DELETED: Count = 0
    HELD: Count = 0
    SUCCEEDED: Count = 0
    FAILED: Count = 0
    PRUNED: Count = 0


class _StateDocument(DatedDocument, frozen=True, kw_only=True):
    id: str
    """Id of the run as users give it: Longshore's own, or the workload manager's."""
    name: str
    """Name of the run."""
    state: JobState
    """State of the run."""
    exit_status: ExitStatus
    """Exit status that stands for the state; the numbers of BPS."""
    counts: CountsEntry
    """Number of jobs in each state. They add up to `expected`, or `state` is UNKNOWN and `notes` says why."""
    expected: Count
    """Number of jobs of the run, the final one included."""
    notes: Sequence[str]
    """What a reader must know, a sentence each."""


class StatusDocument(_StateDocument, frozen=True, kw_only=True):
    """State of one run, in short: `longshore status --json`."""

    kind: Literal["status"] = "status"


class SteerDocument(_StateDocument, frozen=True, kw_only=True):
    """State of a run after an intervention: `longshore pause`, `unpause`, `throttle`, `hold`, `release` or `set`."""

    kind: Literal["steer"] = "steer"
    act: Literal["pause", "unpause", "throttle", "hold", "release", "set"]
    """The intervention."""
    jobs: Sequence[str]
    """Names of the jobs selected; with no job and no label, the whole run is."""
    labels: Sequence[str]
    """Labels selected."""
    set: Mapping[str, str]
    """What was set: `max` of a throttle, `why` of a pause, or keys and values."""


class RunStatusEntry(DocumentEntry, frozen=True):
    """State of one of several runs."""

    id: str
    """Id of the run as users give it: Longshore's own, or the workload manager's."""
    name: str
    """Name of the run."""
    state: JobState
    """State of the run."""
    exit_status: ExitStatus
    """Exit status that stands for the state; the numbers of BPS."""
    counts: CountsEntry
    """Number of jobs in each state. They add up to `expected`, or `state` is UNKNOWN and `notes` says why."""
    expected: Count
    """Number of jobs of the run, the final one included."""
    notes: Sequence[str]
    """What a reader must know, a sentence each."""


class CancelDocument(DatedDocument, frozen=True, kw_only=True):
    """State of runs after they were cancelled: `longshore cancel --json`."""

    kind: Literal["cancel"] = "cancel"
    runs: Sequence[RunStatusEntry]
    """The runs, oldest first."""


class _RunDocument(DatedDocument, frozen=True, kw_only=True):
    id: str
    """Id of the run as users give it: Longshore's own, or the workload manager's."""
    name: str
    """Name of the run."""
    submit_dir: str
    """Path of the run directory."""


class SubmitDocument(_RunDocument, frozen=True, kw_only=True):
    """A run that was handed over: `longshore submit --json`. And one that was only written, by a dry run."""

    kind: Literal["submit"] = "submit"
    service: str
    """Name of the service that runs it, such as `local`."""
    site: str
    """Compute site; empty if none is named."""
    jobs: Count
    """Number of jobs of the run, the final one included."""
    notes: Sequence[str]
    """What a reader must know, a sentence each."""
    state: JobState | UnsetType = UNSET
    """State of the run at its end; only with `--wait`."""
    exit_status: ExitStatus | UnsetType = UNSET
    """Exit status that stands for the state; only with `--wait`."""


class ResumeDocument(_RunDocument, frozen=True, kw_only=True):
    """A run whose engine died and that has another one now: `longshore resume --json`."""

    kind: Literal["resume"] = "resume"
    notes: Sequence[str]
    """What a reader must know, a sentence each."""


class ResumeAllDocument(DatedDocument, frozen=True, kw_only=True):
    """All runs that lost their engine, each resumed or with a note why not: `longshore resume --all --json`."""

    kind: Literal["resume_all"] = "resume_all"
    runs: Sequence[ResumeDocument]
    """The runs, oldest first."""


class SelectionEntry(DocumentEntry, frozen=True):
    """Names of jobs and labels; all jobs where none is named."""

    jobs: Sequence[str]
    """Names of jobs."""
    labels: Sequence[str]
    """Names of labels."""


class RestartDocument(_RunDocument, frozen=True, kw_only=True, rename={"from_labels": "from"}):
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


class StageEntry(DocumentEntry, frozen=True):
    """A stage that is over."""

    stage: Literal["acquire", "cluster", "transform", "prepare"]
    """Name of the stage."""
    made: str
    """What it made, in words."""
    counts: Mapping[str, Count]
    """Numbers of what it made: tasks, edges, files, clusters, jobs."""
    labels: Mapping[str, Count]
    """Number of tasks, clusters or jobs per label."""
    seconds: Seconds
    """Wall time, in seconds."""
    peak_memory_b: Count
    """Peak memory of the process up to the end of the stage, in bytes."""


class StagesDocument(DatedDocument, frozen=True, kw_only=True):
    """Results of each stage: `longshore acquire`, `cluster`, `transform` and `prepare` with `--json`."""

    kind: Literal["stages"] = "stages"
    stages: Sequence[StageEntry]
    """The stages that ran, in order."""
    submit_dir: str | None
    """Path of the run directory; null if none was written."""


def status_document(report: RunReport, *, as_of: float) -> StatusDocument:
    """Return the state of one run as ``status --json`` prints it."""
    return StatusDocument.from_record(report, **_state(report), as_of=as_of)


def steer_document(report: RunReport, intervention: Intervention, *, as_of: float) -> SteerDocument:
    """Return the state of a run after an intervention, as ``pause --json`` and the like print it."""
    selection = {"jobs": intervention.selection.jobs, "labels": intervention.selection.labels}
    return SteerDocument.from_record(
        report, **_state(report), **selection, act=intervention.act, set=intervention.set, as_of=as_of
    )


def cancel_document(reports: Iterable[RunReport], *, as_of: float) -> CancelDocument:
    """Return the state of cancelled runs as ``cancel --json`` prints it."""
    runs = [RunStatusEntry.from_record(report, **_state(report)) for report in reports]
    return CancelDocument(runs=runs, as_of=format_timestamp(as_of, exact=True))


def submit_document(
    run: RunPaths, card: RunIdentity, *, site: str, notes: Sequence[str], state: JobState | None = None, as_of: float
) -> SubmitDocument:
    """Return a run that was handed over as ``submit --json`` prints it.

    Parameters
    ----------
    state
        State of the run at its end, if the command waited for it.
    """
    return SubmitDocument.from_record(
        card,
        id=card.shown_id,
        submit_dir=str(run.root),
        site=site,
        jobs=card.expected,
        notes=notes,
        state=UNSET if state is None else state,
        exit_status=UNSET if state is None else STATE_EXIT_STATUS[state],
        as_of=as_of,
    )


def resume_document(opened: OpenRun, notes: Sequence[str], *, as_of: float) -> ResumeDocument:
    """Return a resumed run as ``resume --json`` prints it."""
    return ResumeDocument.from_record(opened.card, submit_dir=str(opened.run.root), notes=notes, as_of=as_of)


def resume_all_document(runs: Sequence[ResumeDocument], *, as_of: float) -> ResumeAllDocument:
    """Return all resumed runs as ``resume --all --json`` prints them."""
    return ResumeAllDocument(runs=runs, as_of=format_timestamp(as_of, exact=True))


def restart_document(
    opened: OpenRun, again: RestartPlan, *, submitted: bool, notes: Sequence[str], as_of: float
) -> RestartDocument:
    """Return what a restart runs as ``restart --json`` prints it."""
    changes = again.changes
    return RestartDocument.from_record(
        again,
        id=opened.card.id,
        name=opened.card.name,
        submit_dir=str(opened.run.root),
        submitted=submitted,
        again=again.labels,
        from_labels=changes.from_labels,
        set=changes.set,
        set_for=SelectionEntry.from_record(changes.selection),
        set_of=again.changed,
        notes=notes,
        as_of=as_of,
    )


def stages_document(stages: Iterable[StageResult], submit_dir: Path | None, *, as_of: float) -> StagesDocument:
    """Return what stages made as ``prepare --json`` and the like print it."""
    return StagesDocument(
        stages=[StageEntry.from_record(result, seconds=round(result.seconds, 6)) for result in stages],
        submit_dir=str(submit_dir) if submit_dir else None,
        as_of=format_timestamp(as_of, exact=True),
    )


def _state(report: RunReport) -> dict[str, Any]:
    return {"exit_status": STATE_EXIT_STATUS[report.state], "counts": counts_entry(report.counts)}


def counts_entry(counts: Mapping[JobState, int]) -> CountsEntry:
    """Return counts with every state, so that a reader need not ask whether it is there."""
    return CountsEntry(**{state.value: count for state, count in counts.items()})
