"""The report of a run, as a record and as text: states, counts, failures, damage, snapshot, durations and sizes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, Protocol, Self

import msgspec

from longshore.errors import RunUnreadableError
from longshore.model.event import MOST_LIVES, StagedFiles
from longshore.model.states import PAUSED_EXIT_STATUS, STATE_EXIT_STATUS, Cause, JobState
from longshore.model.wording import count_noun, signal_name

# Damage of a run directory: the changed file and line, and the facts that are unknown as a result.


class Damage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file, or a line of it, that is not as it was written."""

    path: str
    """The file."""
    line: int | None = None
    """Number of the line, from 1; null for the whole file."""
    what: str
    """What is wrong with it: "it is missing"."""
    unknown: str = ""
    """What is not known because of it."""

    def __str__(self) -> str:
        place = f"'{self.path}'" if self.line is None else f"'{self.path}', line {self.line}"
        return f"{place}: {self.what}" + (f"; {self.unknown}" if self.unknown else "")


class DamagedError(RunUnreadableError):
    """A file of a run directory is damaged; what precedes the damage was read."""

    damage: Damage

    @classmethod
    def of(cls, damage: Damage) -> Self:
        """Return the error that tells a damage."""
        error = cls(str(damage))
        error.damage = damage
        return error


FINAL_LABEL: Final = "finalJob"
"""Label of the job that runs after all others."""


# The report of a run: state, counts per label, jobs, failures and summary, as input of all output formats.


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


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


# The snapshot ``status.json``: the state of a run when its engine last wrote it.


# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest state that an engine wrote; only the journal is authoritative.

    Attributes
    ----------
    life, n
        The last event it includes: life of the engine, and number in that life.
    at
        Seconds since the epoch (UTC) on the engine's clock.
    pid, host, boot
        The engine's process.
    counts, labels
        Number of jobs per state, in all and per label.
    finished
        Whether the run is over.
    note
        Why the engine waits; empty if it does not.
    """

    life: Annotated[int, msgspec.Meta(ge=0, le=MOST_LIVES)]
    n: int
    at: float
    pid: int
    host: str
    boot: str
    state: JobState
    counts: Mapping[JobState, int]
    labels: Mapping[str, Mapping[JobState, int]]
    finished: bool = False
    note: str = ""

    @property
    def paused(self) -> bool:
        """Whether the run is paused; engines before 0.1 wrote the word in small letters."""
        return not self.finished and any(part.lower().startswith("paused: ") for part in self.note.split("; "))


# A graph small enough to look at, as ``longshore draw`` draws it.


class DrawingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a picture.

    Attributes
    ----------
    name
        The label, or the name of the one job.
    label
        The label.
    jobs
        Number of jobs it represents.
    counts
        Number of them per state; empty if unknown.
    here
        Whether it is the subject of the picture.
    more
        Whether it represents the nodes that are left out.
    """

    name: str
    label: str
    jobs: int = 1
    counts: Mapping[JobState, int] = msgspec.field(default_factory=dict)
    here: bool = False
    more: bool = False


class DrawingEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge of a picture.

    Attributes
    ----------
    start, end
        Indices of the nodes; the end waits for the start.
    jobs
        Number of pairs of jobs it represents.
    """

    start: int
    end: int
    jobs: int = 1


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of a graph: boxes and arrows."""

    title: str
    boxes: tuple[DrawingNode, ...]
    arrows: tuple[DrawingEdge, ...]
    damage: tuple[Damage, ...] = ()
    """Damages of the run directory that were met."""


# Formats durations, sizes, transfers and ends of attempts for people, and escapes control characters in text.


INDENT: Final = "  "
KIB: Final = 1024


def format_duration(seconds: float) -> str:
    """Format a duration in its two largest units, such as ``4 min 5 s``; below a minute in tenths of a second."""
    tenths = round(max(seconds, 0.0), 1)
    if tenths < 60:
        return f"{tenths:.1f} s"
    minutes, rest = divmod(int(tenths), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def format_brief_duration(seconds: float) -> str:
    """Format a duration in few characters, such as ``0.25s``, ``12s``, ``3m05s``, ``4h07m`` or ``2d03h``."""
    if seconds < 10.0:
        digits = 2 if seconds < 1.0 else 1
        return f"{seconds:.{digits}f}s" if seconds else "0s"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}d{hour:02}h"
    if hours:
        return f"{hours}h{minute:02}m"
    return f"{minutes}m{second:02}s" if minutes else f"{second}s"


def format_core_time(seconds: float | None, *, is_brief: bool = False) -> str:
    """Format a time of processors: in hours if it is an hour or more, such as ``12.5 h``, or briefly ``12.5h``."""
    if seconds is None:
        return "unknown"
    if seconds >= 3600.0:
        return f"{seconds / 3600:,.1f}{'' if is_brief else ' '}h"
    return format_brief_duration(seconds) if is_brief else format_duration(seconds)


def format_size(amount: int) -> str:
    """Format a number of bytes in its largest unit, such as ``1.5 GiB``."""
    if amount < KIB:
        return f"{amount} B"
    power = min((amount.bit_length() - 1) // 10, 5)
    return f"{amount / KIB**power:.1f}".removesuffix(".0") + f" {'KMGTP'[power - 1]}iB"


def escape_controls(text: str, *, keep: str = "") -> str:
    r"""Escape control and other unprintable characters, as ``\x1b`` and the like, except those in `keep`."""
    if text.isprintable() or (keep and text.translate(dict.fromkeys(map(ord, keep))).isprintable()):
        return text
    return "".join(
        character if character.isprintable() or character in keep else character.encode("unicode_escape").decode()
        for character in text
    )


def failure_text(cause: Cause | None, exit_code: int | None, signal_number: int | None) -> str:
    """Format why an attempt failed, as short as possible."""
    known = []
    if signal_number is not None:
        known.append(format_signal(signal_number))
    elif exit_code is not None:
        known.append(f"exit code {exit_code}")
    if cause is not None and not (known and cause in {Cause.EXIT, Cause.SIGNAL}):
        known.insert(0, cause.value)
    return ", ".join(known) or (cause.value if cause else "cause unknown")


def format_signal(number: int) -> str:
    """Format a signal, such as ``signal SIGKILL``."""
    return f"signal {signal_name(number).removeprefix('signal ')}"


def staged_text(staged: StagedFiles) -> str:
    """Format the transfers of an attempt, or of several."""
    sides = [
        f"{count_noun(files, 'file')} {way}, {format_size(size)} in {_transfer_time(seconds)}"
        for way, files, size, seconds in (
            ("in", staged.files_in, staged.bytes_in, staged.in_s),
            ("out", staged.files_out, staged.bytes_out, staged.out_s),
        )
    ]
    kept = f"; {count_noun(staged.kept, 'output')} of another attempt stayed" if staged.kept else ""
    return f"{'; '.join(sides)}{kept}"


def _transfer_time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 60 else format_duration(seconds)


# Formats the report of a run in a few lines: its state, its counts, its failures and its notes.


_MAX_LABELS: Final = 20
_MAX_FAILURES: Final = 5


def report_summary(report: RunReport) -> str:
    """Format a report in lines: one of the run, one of its outcome, one per label, failure and note."""
    where = report.site or report.service
    lines = [f"{report.id}  {report.name}  {report.state_word}" + (f" on {where}" if where else "")]
    lines += [INDENT + outcome_line(report), *_label_lines(report), *_failure_lines(report)]
    lines += [f"Note: {note}" for note in report.notes]
    return "\n".join(escape_controls(line) for line in lines)


def outcome_line(report: RunReport) -> str:
    """Format how a run ended, in one line whose counts add up to the number of jobs."""
    expected = report.expected
    parts = [f"{expected} job" + ("" if expected == 1 else "s")]
    parts += [f"{state.lower()} {report.counts.get(state, 0)}/{expected}" for state in _outcome_states(report)]
    seconds = report.wall_s
    if seconds is not None:
        parts.append(f"wall time {format_duration(seconds)}")
    return ", ".join(parts)


def _outcome_states(report: RunReport) -> list[JobState]:
    """Succeeded and failed, and other states that some job is in."""
    always = [JobState.SUCCEEDED, JobState.FAILED]
    return always + [state for state in JobState if state not in always and report.counts.get(state)]


def _label_lines(report: RunReport) -> Iterator[str]:
    for label, counts in list(report.labels.items())[:_MAX_LABELS]:
        states = ", ".join(f"{number} {state.lower()}" for state, number in counts.items() if number)
        yield f"{INDENT}{label}: {states or 'no jobs'}"
    if (more := len(report.labels) - _MAX_LABELS) > 0:
        yield f"{INDENT}and {count_noun(more, 'more label')}"


def _failure_lines(report: RunReport) -> Iterator[str]:
    failures = report.summary.failures if report.summary else ()
    yield from map(_failure_line, failures[:_MAX_FAILURES])
    if (more := len(failures) - _MAX_FAILURES) > 0:
        yield f"Failed: {count_noun(more, 'more group')} of jobs"


def _failure_line(failure: Failure) -> str:
    why = failure_text(failure.cause, failure.exit_code, failure.signal)
    jobs = failure.job
    if failure.count > 1:
        jobs = f"{count_noun(failure.count, 'job')} of {failure.label}, for example {failure.job}"
    message = f": {failure.message}" if failure.message else ""
    log = f"; log: {failure.log}" if failure.log else ""
    return f"Failed: {jobs} ({why}){message}{log}"
