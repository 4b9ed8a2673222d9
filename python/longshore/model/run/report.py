"""The report of a run: state, counts per label, jobs, failures and summary, as input of all output formats."""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from longshore.model.run.damage import Damage
from longshore.model.run.event import StagedFiles
from longshore.model.run.states import PAUSED_EXIT_STATUS, STATE_EXIT_STATUS, Cause, JobState
from longshore.model.wording import count_noun

PAYLOAD_CODES = frozenset({1, 2})
"""Exit codes that BPS counts as errors of the payload."""


class TextPrinter(Protocol):
    """What IPython gives to `_repr_pretty_`, which notebooks show instead of the representation."""

    def text(self, text: str) -> object:
        """Add a text."""


class JobReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The state of one job; times are seconds since the epoch (UTC), ``None`` if unknown or still to come."""

    name: str
    label: str
    state: JobState
    cause: Cause | None = None
    reason: str | None = None
    attempts: int = 0
    exit_code: int | None = None
    signal: int | None = None
    host: str | None = None
    started_at: float | None = None
    finished_at: float | None = None
    run_s: float | None = None
    cpu_s: float | None = None
    peak_memory_b: int | None = None
    log: str | None = None
    """Path of the newest attempt's log."""
    not_retried: str | None = None
    """Why a failed job was not tried again."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A group of similar failures, and one of its jobs as an example.

    Attributes
    ----------
    label, cause, exit_code, signal
        What they have in common; ``None`` if unknown.
    message
        Last message of their logs, with numbers, paths and times removed; empty if unknown.
    error
        The line of the example's log that tells of the error; empty if there is none.
    count
        Jobs that are known to belong here.
    unread
        More jobs of that label, cause, exit code and signal, whose logs were too many to read; other failures of the
        same kind count them too.
    job, host, attempt, reason
        The example: its name, the host of its newest attempt, that attempt's number, and a text for the cause.
    log
        Absolute path of its log, for an archived run the archive and then the path in the run; ``None`` without one.
    tail
        The last lines of that log.
    by_hand
        The command that runs the job again by hand; ``None`` without one.
    not_retried
        Why the example was not tried again; ``None`` if unknown.
    """

    label: str
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    error: str = ""
    count: int
    unread: int = 0
    job: str
    host: str | None = None
    attempt: int = 0
    reason: str | None = None
    log: str | None = None
    tail: tuple[str, ...] = ()
    by_hand: str | None = None
    not_retried: str | None = None


def count_failed_jobs(failures: Iterable[Failure]) -> int:
    """Return the number of jobs in failure groups; groups of one kind share the jobs whose logs were not read."""
    known = 0
    unread: dict[tuple[object, ...], int] = {}
    for failure in failures:
        known += failure.count
        unread[failure.label, failure.cause, failure.exit_code, failure.signal] = failure.unread
    return known + sum(unread.values())


class Badput(msgspec.Struct, frozen=True, kw_only=True):
    """Number of failed attempts, and the seconds they ran."""

    attempts: int
    seconds: float
    exit_codes: Mapping[int, int] = msgspec.field(default_factory=dict)
    """Number of those that ended with an exit code, per code."""
    signals: Mapping[int, int] = msgspec.field(default_factory=dict)
    """Number of those that a signal ended, per signal."""


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """A running job."""

    name: str
    label: str
    host: str | None = None
    started_at: float | None = None


class JobFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job that failed, by the newest attempt that ended.

    `message` is the last line of its log that tells of an error, and empty if there is none.
    """

    name: str
    label: str
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    ended_at: float | None = None
    attempt: int = 0
    message: str = ""


class Retries(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Jobs whose newest attempt to end failed, and that are retried: their number, and those that failed last."""

    jobs: int = 0
    newest: tuple[JobFailure, ...] = ()


class RemovedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a person removed from the workload manager; `reason` is what the manager says of it."""

    name: str
    label: str
    reason: str


class Removals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Jobs that a person removed from the workload manager: their number, and those that were removed last."""

    jobs: int = 0
    newest: tuple[RemovedJob, ...] = ()


class ExitCodes(msgspec.Struct, frozen=True, kw_only=True):
    """Exit codes of a label's jobs that failed or are held by the workload manager.

    Number of jobs per exit code (or signal, or hold reason), and number of jobs without a known one.
    """

    codes: Mapping[int, int] = msgspec.field(default_factory=dict)
    unknown: int = 0


class LabelSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Run times, memory and transfers of one label's jobs; ``None`` where unknown.

    Attributes
    ----------
    median_s, p95_s
        Median and 95th percentile of the run times of successful attempts.
    peak_memory_b
        Largest memory that an attempt used.
    requested_memory_b
        Largest memory that an attempt requested.
    staged
        Sum of the transfers of all attempts; ``None`` if none was staged.
    """

    median_s: float | None = None
    p95_s: float | None = None
    peak_memory_b: int | None = None
    requested_memory_b: int | None = None
    staged: StagedFiles | None = None


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Summary of one run: times, running jobs, waits, failures, and badput.

    Attributes
    ----------
    elapsed_s
        Seconds it has run, or ran, without the time between an end and a restart; ``None`` before its first start.
    left_s
        Lower and upper estimate of the seconds left; ``None`` if unknown.
    hopeless_jobs
        Jobs of a live run that the workload manager can never start as they are: while there are any, it has no end.
    running
        The longest-running jobs, the longest first.
    waits
        Why jobs wait, a sentence each.
    failures
        Groups of failures, the largest first, and that of the final job last.
    badput
        Failed attempts per cause, those of jobs that finally succeeded included.
    exit_codes
        Exit codes of failed jobs, per label.
    last_failures
        The jobs that failed last, the newest first.
    retries
        Jobs of a live run whose newest attempt failed, and that are retried.
    removals
        Jobs that a person removed from the workload manager.
    labels
        Run times and memory, per label.
    """

    elapsed_s: float | None = None
    left_s: tuple[float, float] | None = None
    hopeless_jobs: int = 0
    running: tuple[RunningJob, ...] = ()
    waits: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    badput: Mapping[Cause, Badput] = msgspec.field(default_factory=dict)
    exit_codes: Mapping[str, ExitCodes] = msgspec.field(default_factory=dict)
    last_failures: tuple[JobFailure, ...] = ()
    retries: Retries = Retries()
    removals: Removals = Removals()
    labels: Mapping[str, LabelSummary] = msgspec.field(default_factory=dict)


class RunReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one run."""

    id: str
    name: str
    path: str
    service: str
    state: JobState
    expected: int
    counts: Mapping[JobState, int]
    """Number of jobs per state; adds up to `expected`, or the state is UNKNOWN and `notes` says why."""
    labels: Mapping[str, Mapping[JobState, int]]
    """Number of jobs per state and label, in the order of the pipeline."""
    expected_labels: Mapping[str, int] | None = None
    """Total number of jobs per label, in the order of the pipeline; ``None`` if unknown."""
    global_id: str = ""
    """Globally unique id, across users and machines."""
    specifics: tuple[str, ...] = ()
    """Lines specific to its service."""
    operator: str = ""
    project: str = ""
    campaign: str = ""
    payload: str = ""
    site: str = ""
    user: str = ""
    submitted_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    idle_s: float = 0.0
    """Seconds between an end of the run and its restart."""
    paused: bool = False
    """Whether no more jobs start until a user unpauses the run."""
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as that the engine is not running."""
    damage: tuple[Damage, ...] = ()
    """Damages of the run directory that were met; `notes` has a sentence about each."""
    jobs: Sequence[JobReport] | None = None
    """Every job, where details were requested."""
    summary: RunSummary | None = None
    """Summary, where the run was requested by itself."""

    def __repr__(self) -> str:
        """Return id, name, state and number of jobs: a list of runs shows a line for each."""
        return f"<RunReport {self.id} {self.name} {self.state_word}: {count_noun(self.expected, 'job')}>"

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(repr(self))

    @property
    def state_word(self) -> str:
        """State for people, which is PAUSED for a run that is paused while it runs."""
        return "PAUSED" if self.paused and self.state is JobState.RUNNING else self.state.value

    @property
    def wait_status(self) -> int:
        """Exit status of a command that waited for the run and ends with this report."""
        return PAUSED_EXIT_STATUS if self.state_word == "PAUSED" else STATE_EXIT_STATUS[self.state]

    @property
    def percent_succeeded(self) -> int | None:
        """Whole percent of jobs that succeeded, rounded down as BPS does; ``None`` for a run without jobs."""
        return 100 * self.counts.get(JobState.SUCCEEDED, 0) // self.expected if self.expected else None

    @property
    def wall_s(self) -> float | None:
        """Seconds from the first start of a job to the end of the run, without idle time; ``None`` if unknown."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(self.finished_at - self.started_at - self.idle_s, 0.0)
