"""The state of a run, summed up once, for every way of showing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from longshore.model.run.state import Cause, JobState

PAYLOAD_CODES = frozenset({1, 2})
"""Exit codes that BPS takes for errors of the payload."""


class JobReport(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one job; times are seconds since the epoch (UTC), ``None`` is unknown or not yet."""

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


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Jobs that failed alike, and one of them as an example.

    Attributes
    ----------
    label, cause, exit_code, signal
        What they have in common; ``None`` is not known.
    message
        What they said last, with numbers, paths and times taken out; empty where nothing is known of it.
    count
        Jobs that are known to belong here.
    unread
        More jobs of that label, cause, exit code and signal whose logs were not read, there being too many; other
        failures of the same kind name them too.
    job, host, attempt, reason
        The example: its name, where its newest attempt ran, that one's number, and the cause in words.
    log
        Whole path of its log; ``None`` where there is none.
    tail
        The last lines of that log.
    by_hand
        The command that runs the job again by hand; ``None`` where there is none.
    """

    label: str
    cause: Cause | None = None
    exit_code: int | None = None
    signal: int | None = None
    message: str = ""
    count: int
    unread: int = 0
    job: str
    host: str | None = None
    attempt: int = 0
    reason: str | None = None
    log: str | None = None
    tail: tuple[str, ...] = ()
    by_hand: str | None = None


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts that ended badly, and the seconds they ran."""

    attempts: int
    seconds: float


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs."""

    name: str
    label: str
    host: str | None = None
    started_at: float | None = None


class ExitCodes(msgspec.Struct, frozen=True, kw_only=True):
    """How the jobs of a label ended that failed or are held by the workload manager.

    How many per exit code (or signal, or reason of a hold), and of how many that is not known.
    """

    codes: Mapping[int, int] = msgspec.field(default_factory=dict)
    unknown: int = 0


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What a report of one run says beside its counts.

    Attributes
    ----------
    elapsed_s
        How long it has run, or ran; ``None`` before its first start.
    left_s
        The least and the most it is likely to need from now on; ``None`` when that is not known.
    running
        The jobs that run longest, the longest first.
    waits
        Why things wait, a sentence each.
    failures
        What failed, the largest group first.
    badput
        Attempts that ended badly, per cause, those of jobs that succeeded in the end among them.
    exit_codes
        How failed jobs ended, per label.
    """

    elapsed_s: float | None = None
    left_s: tuple[float, float] | None = None
    running: tuple[Running, ...] = ()
    waits: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    badput: Mapping[Cause, Spent] = msgspec.field(default_factory=dict)
    exit_codes: Mapping[str, ExitCodes] = msgspec.field(default_factory=dict)


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
    """The same per label, in the order of the pipeline."""
    expected_labels: Mapping[str, int] | None = None
    """Number of jobs each label should have, in the order of the pipeline; ``None`` where nobody knows."""
    global_id: str = ""
    """What tells the run from all others, those of other users and machines too."""
    specifics: tuple[str, ...] = ()
    """What its service has to say of it, a line each."""
    operator: str = ""
    project: str = ""
    campaign: str = ""
    payload: str = ""
    site: str = ""
    user: str = ""
    submitted_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    notes: tuple[str, ...] = ()
    """What a reader must know, such as that the engine is not running."""
    jobs: Sequence[JobReport] | None = None
    """Every job, where details were asked for."""
    summary: RunSummary | None = None
    """More about a run that was asked for by itself."""

    @property
    def percent_succeeded(self) -> int | None:
        """Whole percent of jobs that succeeded, rounded down as BPS does; ``None`` for a run without jobs."""
        return 100 * self.counts.get(JobState.SUCCEEDED, 0) // self.expected if self.expected else None

    @property
    def wall_s(self) -> float | None:
        """Seconds from the first start of a job to the end of the run; ``None`` until both are known."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(self.finished_at - self.started_at, 0.0)
