"""Documents of ``status`` and of commands that submit, resume, cancel or steer runs, and of stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from longshore.contract.service import RunPaths
from longshore.model.report import Damage, RunReport
from longshore.model.states import STATE_EXIT_STATUS, JobState
from longshore.model.submission import RunIdentity
from longshore.model.wording import format_timestamp
from longshore.reports.documents.document import Count, DatedDocument, DocumentEntry, Seconds

if TYPE_CHECKING:
    from longshore.contract.service import Intervention
    from longshore.plan.stages import StageResult
    from longshore.runstate.open_run import OpenRun

ExitStatus: TypeAlias = Literal[0, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20]
WaitStatus: TypeAlias = Literal[0, 10, 11, 12, 13, 14, 15, 16, 17, 19, 20, 21]
"""Exit status of a command that waits, which a pause may end."""


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
    paused: bool
    """Whether no more jobs start until the run is unpaused."""
    notes: Sequence[str]
    """What a reader must know, a sentence each."""
    damage: Sequence[Damage]
    """Files and lines of the run directory that are not as they were written; empty if it is intact."""


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
    paused: bool
    """Whether no more jobs start until the run is unpaused."""
    notes: Sequence[str]
    """What a reader must know, a sentence each."""


class CancelDocument(DatedDocument, frozen=True, kw_only=True):
    """State of runs after they were cancelled: `longshore cancel --json`."""

    kind: Literal["cancel"] = "cancel"
    runs: Sequence[RunStatusEntry]
    """The runs, oldest first."""


class SubmissionDocument(DatedDocument, frozen=True, kw_only=True):
    """A run that a command submitted."""

    id: str
    """Id of the run as users give it: Longshore's own, or the workload manager's."""
    name: str
    """Name of the run."""
    submit_dir: str
    """Path of the run directory."""


class SubmitDocument(SubmissionDocument, frozen=True, kw_only=True):
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
    exit_status: WaitStatus | UnsetType = UNSET
    """Exit status that stands for the state, or for a pause that ended the wait; only with `--wait`."""


class ResumeDocument(SubmissionDocument, frozen=True, kw_only=True):
    """A run whose engine died and that has another one now: `longshore resume --json`."""

    kind: Literal["resume"] = "resume"
    notes: Sequence[str]
    """What a reader must know, a sentence each."""


class ResumeAllDocument(DatedDocument, frozen=True, kw_only=True):
    """All runs that lost their engine, each resumed or with a note why not: `longshore resume --all --json`."""

    kind: Literal["resume_all"] = "resume_all"
    runs: Sequence[ResumeDocument]
    """The runs, oldest first."""


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
    return StatusDocument.from_record(report, **_state_members(report), as_of=as_of)


def steer_document(report: RunReport, intervention: Intervention, *, as_of: float) -> SteerDocument:
    """Return the state of a run after an intervention, as ``pause --json`` and the like print it."""
    selection = {"jobs": intervention.selection.jobs, "labels": intervention.selection.labels}
    return SteerDocument.from_record(
        report, **_state_members(report), **selection, act=intervention.act, set=intervention.set, as_of=as_of
    )


def cancel_document(reports: Iterable[RunReport], *, as_of: float) -> CancelDocument:
    """Return the state of cancelled runs as ``cancel --json`` prints it."""
    runs = [RunStatusEntry.from_record(report, **_state_members(report)) for report in reports]
    return CancelDocument(runs=runs, as_of=format_timestamp(as_of, exact=True))


def submit_document(
    run: RunPaths, card: RunIdentity, *, site: str, notes: Sequence[str], end: RunReport | None = None, as_of: float
) -> SubmitDocument:
    """Return a submitted run as ``submit --json`` prints it; `end` is what a command that waited ended with."""
    return SubmitDocument.from_record(
        card,
        id=card.shown_id,
        submit_dir=str(run.root),
        site=site,
        jobs=card.expected,
        notes=notes,
        state=end.state if end else UNSET,
        exit_status=end.wait_status if end else UNSET,
        as_of=as_of,
    )


def resume_document(opened: OpenRun, notes: Sequence[str], *, as_of: float) -> ResumeDocument:
    """Return a resumed run as ``resume --json`` prints it."""
    return ResumeDocument.from_record(opened.card, submit_dir=str(opened.directory), notes=notes, as_of=as_of)


def resume_all_document(runs: Sequence[ResumeDocument], *, as_of: float) -> ResumeAllDocument:
    """Return all resumed runs as ``resume --all --json`` prints them."""
    return ResumeAllDocument(runs=runs, as_of=format_timestamp(as_of, exact=True))


def stages_document(stages: Iterable[StageResult], submit_dir: Path | None, *, as_of: float) -> StagesDocument:
    """Return what stages made as ``prepare --json`` and the like print it."""
    return StagesDocument(
        stages=[StageEntry.from_record(result, seconds=round(result.seconds, 6)) for result in stages],
        submit_dir=str(submit_dir) if submit_dir else None,
        as_of=format_timestamp(as_of, exact=True),
    )


def _state_members(report: RunReport) -> dict[str, object]:
    return {"exit_status": STATE_EXIT_STATUS[report.state], "counts": counts_entry(report.counts)}


def counts_entry(counts: Mapping[JobState, int]) -> CountsEntry:
    """Return counts with every state; one that is missing is 0."""
    return CountsEntry(**{state.value: count for state, count in counts.items()})
