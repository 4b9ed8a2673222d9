"""What the page of a run says: its report, statistics, attempts in time, configuration, commands and advice."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from longshore import __version__
from longshore.config.merge import PACKAGED_LAYERS
from longshore.config.secrets import mask_secrets
from longshore.errors import Origin, RunNotFoundError, RunUnreadableError
from longshore.model.report import Drawing, Failure, JobReport, RunReport, count_failed_jobs, failure_text
from longshore.model.states import Cause, JobState
from longshore.model.values import YamlValue
from longshore.model.wording import count_noun, first_of
from longshore.model.workflow import largest_memory
from longshore.plan.fingerprint import read_recorded_values
from longshore.reports.draw import draw_label_states
from longshore.reports.report import report_run
from longshore.reports.rerun_commands import RerunCommand, rerun_commands
from longshore.reports.statistics import (
    AttemptStatistics,
    GroupedStatistics,
    RunAttempts,
    read_attempts,
    summarize_attempts,
)
from longshore.reports.suggested_requests import (
    GIB,
    LabelSuggestion,
    RequestAdvice,
    SuggestedValue,
    advise_on_attempts,
    describe_over_time,
    describe_value,
    suggestion_yaml,
)
from longshore.runstate.open_run import READ_ERRORS, OpenRun, describe_read_error


class LabelRow(msgspec.Struct, frozen=True, kw_only=True):
    """The row of a label.

    Attributes
    ----------
    counts
        Number of jobs per state.
    statistics
        Statistics of its attempts; without any, nothing is known of single attempts.
    run_s, memory_b
        Known run times and peak memory of attempts that succeeded, ascending.
    requested_memory_b
        Largest memory that first attempts request, or all attempts where single ones are unknown; ``None`` if unknown.
    """

    name: str
    expected: int
    counts: Mapping[JobState, int]
    statistics: AttemptStatistics = AttemptStatistics()
    run_s: Sequence[float] = ()
    memory_b: Sequence[float] = ()
    requested_memory_b: int | None = None


class Spans(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts in time, as columns.

    One that runs ends at the time of the report; one whose end is unknown ends at the last event of its run.
    """

    started: array[float]
    ended: array[float]
    label_of: array[int]
    host_of: array[int]
    job_of: array[int]
    outcome: bytearray
    """`RUNNING`, `SUCCEEDED`, `FAILED` or `UNKNOWN` per attempt."""
    hosts: list[str]

    def __len__(self) -> int:
        return len(self.started)


RUNNING, SUCCEEDED, FAILED, UNKNOWN = range(4)
"""Outcomes of an attempt."""


class ConfigurationRow(msgspec.Struct, frozen=True, kw_only=True):
    """A value of the configuration, and where it was written."""

    key: str
    value: str
    place: str
    """File, line and column; empty if unknown."""
    layer: str
    is_own: bool
    """Whether a user wrote it, rather than a package."""


class PageAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the configuration that would help.

    `why` has the figures. `yaml` are lines of configuration; empty if the payload must be changed instead.
    """

    label: str
    text: str
    why: str
    yaml: str = ""


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """The page of a run.

    Attributes
    ----------
    as_of
        Time of the report, in seconds since the epoch.
    notes
        What the page lacks, a sentence each.
    jobs
        All jobs; ``None`` where they are too many for a table.
    """

    report: RunReport
    as_of: float
    version: str
    total: AttemptStatistics = AttemptStatistics()
    labels: tuple[LabelRow, ...] = ()
    hosts: Mapping[str | None, AttemptStatistics] = msgspec.field(default_factory=dict)
    spans: Spans | None = None
    names: Mapping[int, str] = msgspec.field(default_factory=dict)
    """Names of the jobs of spans, where these are shown one by one."""
    drawing: Drawing | None = None
    jobs: tuple[JobReport, ...] | None = None
    configuration: tuple[ConfigurationRow, ...] = ()
    commands: tuple[RerunCommand, ...] = ()
    advice: tuple[PageAdvice, ...] = ()
    notes: tuple[str, ...] = ()


_MAX_VALUE: Final = 2000
"""Characters of a value; longer ones are cut."""


def read_configuration_rows(opened: OpenRun) -> tuple[ConfigurationRow, ...]:
    """Read the configuration that the run was prepared with: values of users first, then those of packages.

    A run of another tool has none. Raises `RunUnreadableError` if it cannot be read.
    """
    import yaml

    path = opened.run.merged_config(opened.card.name)
    if not path.exists():
        return ()
    try:
        values = read_recorded_values(path, opened.run.origins)
    except yaml.YAMLError as error:
        raise RunUnreadableError(f"'{path}' is no YAML: {error}") from error
    rows = [_row(key, value, origin, opened.secrets) for key, (value, origin) in values.items()]
    return tuple(sorted(rows, key=lambda row: not row.is_own))


def _row(key: str, value: YamlValue, origin: Origin | None, secrets: Collection[str]) -> ConfigurationRow:
    layer = origin.layer if origin else ""
    return ConfigurationRow(
        key=key,
        value=_value_text(mask_secrets(key.rpartition(".")[2], value, secrets)),
        place=str(origin) if origin else "",
        layer=layer,
        is_own=layer not in PACKAGED_LAYERS,
    )


def _value_text(value: YamlValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"


# Advice. Requests are those of ``suggest-resources``; the rest follows from failures.


_LEAST_HOST_FAILURES: Final = 3
_MAX_LABELS: Final = 8
"""Labels with failures that a line names."""
_LEAST_SHARE: Final = 0.5
"""Part of a request by which a lower one must differ to be worth a line, and a higher one where nothing failed."""
_LEAST_SAVING_B_S: Final = 0.01 * GIB * 3600
"""Requested memory over time whose saving is worth a line beside other advice."""
_MAX_TINY: Final = 1
"""Smaller requests that save less than that, beside other advice."""
_PAYLOAD_CAUSES: Final = (Cause.EXIT, Cause.SIGNAL, Cause.OUTPUT_MISSING, Cause.PREDICATE, Cause.OUTPUT, None)
_NOUNS: Final = {"requestMemory": "memory", "requestWalltime": "run time", "requestCpus": "processors"}
_LIMITS: Final = {"requestMemory": Cause.OOM, "requestWalltime": Cause.WALLTIME}


def find_advice(page: RunPage, requests: RequestAdvice | None = None) -> tuple[PageAdvice, ...]:
    """Return advice for a run: what would have kept attempts from failing, repairs, hosts, then smaller requests.

    `requests` are suggestions for its labels, where its attempts are known. Of less memory that saves next to nothing,
    only the largest saving is advised beside other advice.
    """
    failures = page.report.summary.failures if page.report.summary else ()
    suggestions = {each.label: each for each in requests.suggestions} if requests else {}
    larger: list[PageAdvice] = []
    smaller: list[PageAdvice] = []
    tiny: list[PageAdvice] = []
    for row in page.labels:
        suggestion = suggestions.get(row.name)
        if requests is None or suggestion is None:
            continue
        fitting = [value for value in suggestion.changes if _is_worth_a_line(value, row)]
        changes = [value for value in fitting if not _saves_little(value, row, suggestion)]
        if changes:
            advice = _advise_on_requests(requests, suggestion, changes)
            (larger if any(_failed_by(value, row) for value in changes) else smaller).append(advice)
        elif fitting:
            saving = f"This would have saved {describe_over_time(suggestion.memory_b_s / GIB, 'GiB')}."
            advice = _advise_on_requests(requests, suggestion, fitting)
            tiny.append(structs.replace(advice, why=f"{advice.why} {saving}"))
    smaller.sort(key=lambda advice: -suggestions[advice.label].memory_b_s)
    others = (*_advise_on_failures(page, failures), *_advise_on_refusals(page), *_advise_on_hosts(page))
    tiny.sort(key=lambda advice: -suggestions[advice.label].memory_b_s)
    found = (*larger, *others, *smaller)
    return (*found, *tiny[: _MAX_TINY if found else None])


def _is_worth_a_line(value: SuggestedValue, row: LabelRow) -> bool:
    """Tell whether a change belongs on the first screen: something failed, or most of the request is unused."""
    if value.requested is None or _failed_by(value, row):
        return _failed_by(value, row)
    return value.suggested <= value.requested * (1 - _LEAST_SHARE)


def _saves_little(value: SuggestedValue, row: LabelRow, suggestion: LabelSuggestion) -> bool:
    """Tell whether a value is less memory that hardly anything would have been saved by."""
    is_memory = value.key == "requestMemory" and not _failed_by(value, row)
    return is_memory and suggestion.memory_b_s < _LEAST_SAVING_B_S


def _failed_by(value: SuggestedValue, row: LabelRow) -> bool:
    """Tell whether attempts ran out of what a value requests."""
    cause = _LIMITS.get(value.key)
    return cause is not None and cause in row.statistics.badput_causes


def _advise_on_requests(
    requests: RequestAdvice, suggestion: LabelSuggestion, changes: list[SuggestedValue]
) -> PageAdvice:
    words = [
        f"{'less' if value.requested is not None and value.suggested < value.requested else 'more'} {_NOUNS[value.key]}"
        for value in changes
    ]
    figures = "; ".join(f"{_NOUNS[value.key]}: {describe_value(value)}" for value in changes)
    guess = ", which is a guess from few attempts" if suggestion.is_guess else ""
    return PageAdvice(
        label=suggestion.label,
        text=f"Request {' and '.join(words)} for {suggestion.label}{guess}",
        why=f"{figures[:1].upper()}{figures[1:]}.",
        yaml=suggestion_yaml(requests, suggestion, changes),
    )


def _advise_on_failures(page: RunPage, failures: tuple[Failure, ...]) -> Iterator[PageAdvice]:
    """Yield advice on what made jobs fail beside their requests: one for all labels, as each failure is beside it."""
    groups: dict[str, list[Failure]] = {row.name: [] for row in page.labels}
    for failure in failures:
        if failure.label in groups and failure.cause in _PAYLOAD_CAUSES:
            groups[failure.label].append(failure)
    failed = {label: found for label, found in groups.items() if found}
    if len(failed) == 1:
        ((label, (first, *_)),) = failed.items()
        how = failure_text(first.cause, first.exit_code, first.signal)
        yield PageAdvice(
            label=label,
            text=f"Repair the command or the data of {label}",
            why=f"{_failed_jobs(failed[label])} failed, such as {first.job} ({how})"
            + (f": {first.message}" if first.message else "."),
        )
    elif failed:
        numbers = [f"{label}: {_failed_jobs(found)}" for label, found in failed.items()]
        yield PageAdvice(
            label="",
            text=f"Repair the commands or the data of {count_noun(len(failed), 'label')}",
            why=f"Jobs that failed: {first_of(numbers, _MAX_LABELS)}.",
        )


def _failed_jobs(groups: list[Failure]) -> str:
    return count_noun(count_failed_jobs(groups), "job")


def _advise_on_refusals(page: RunPage) -> Iterator[PageAdvice]:
    """Yield advice on labels whose jobs the workload manager refused."""
    for row in page.labels:
        if badput := row.statistics.badput_causes.get(Cause.SUBMIT):
            yield PageAdvice(
                label=row.name,
                text=f"Change what {row.name} requests: it was refused",
                why=f"{count_noun(badput.attempts, 'attempt')} could not be submitted or started.",
            )


def _advise_on_hosts(page: RunPage) -> Iterator[PageAdvice]:
    """Yield advice on hosts where most attempts fail, while most succeed elsewhere."""
    total_failed, total_ended = _count_ended(page.total)
    for host, statistics in page.hosts.items():
        failed, ended = _count_ended(statistics)
        elsewhere = total_ended - ended
        failed_elsewhere = total_failed - failed
        if host is None or failed < max(_LEAST_HOST_FAILURES, ended / 2) or elsewhere < ended:
            continue
        if failed / ended > 4 * failed_elsewhere / elsewhere:
            yield PageAdvice(
                label="",
                text=f"Avoid the host {host}, or have it repaired",
                why=(
                    f"Attempts that failed: {failed:,} of {ended:,} there, and {failed_elsewhere:,} of {elsewhere:,} "
                    "elsewhere."
                ),
            )


def count_failed_attempts(statistics: AttemptStatistics) -> int:
    """Return how many attempts failed: those of `AttemptStatistics.badput` that no person cancelled."""
    cancelled = statistics.badput_causes.get(Cause.CANCELLED)
    return statistics.badput.attempts - (cancelled.attempts if cancelled else 0)


def _count_ended(statistics: AttemptStatistics) -> tuple[int, int]:
    """Return how many attempts failed, and how many failed or succeeded."""
    failed = count_failed_attempts(statistics)
    cancelled = statistics.badput.attempts - failed
    return failed, statistics.attempts - statistics.unfinished - cancelled


MAX_JOBS: Final = 5000
"""Jobs below which the page has a table of all jobs."""
MAX_NAMED: Final = 1200
"""Attempts up to which the timeline names their jobs."""
_UNKNOWN_HOST: Final = "unknown host"
_OUTCOMES: Final = {JobState.RUNNING: RUNNING, JobState.SUCCEEDED: SUCCEEDED, JobState.UNKNOWN: UNKNOWN}
_Part = TypeVar("_Part")


def collect_page(opened: OpenRun, *, now: float | None = None) -> RunPage:
    """Collect the page of a run, live or over.

    `now` is the time of the report, by default that of the clock. What cannot be read beside the report is left out,
    and a note of the page says so.

    Raises
    ------
    RunUnreadableError
        The run directory is damaged beyond its journal, or cannot be read.
    RunNotFoundError
        The run directory disappeared meanwhile.
    """
    as_of = time.time() if now is None else now
    has_table = opened.card.expected < MAX_JOBS
    report = report_run(opened, details=has_table, now=as_of)
    notes: list[str] = []
    attempts = _try(lambda: read_attempts(opened), "attempts", notes)
    grouped = _summarize(attempts) if attempts else None
    page = RunPage(
        report=structs.replace(report, jobs=None),
        as_of=as_of,
        version=__version__,
        jobs=tuple(report.jobs) if report.jobs is not None else None,
        total=grouped.total if grouped else AttemptStatistics(),
        hosts=grouped.hosts if grouped else {},
        labels=tuple(_label_rows(report, attempts, grouped)),
        spans=_spans(attempts, as_of) if attempts else None,
        names=_names(attempts) if attempts else {},
        drawing=_try(lambda: draw_label_states(opened, report.labels), "graph of labels", notes),
        configuration=_try(lambda: read_configuration_rows(opened), "configuration", notes) or (),
        commands=tuple(rerun_commands(opened, report)),
    )
    requests = _try(lambda: advise_on_attempts([attempts]), "advice on requests", notes) if attempts else None
    return structs.replace(page, advice=find_advice(page, requests), notes=tuple(notes))


def page_of_report(report: RunReport, *, now: float) -> RunPage:
    """Return the page of a run whose directory is on another host: its report is all that is known."""
    page = RunPage(
        report=structs.replace(report, jobs=None),
        as_of=now,
        version=__version__,
        jobs=tuple(report.jobs) if report.jobs and len(report.jobs) < MAX_JOBS else None,
        labels=tuple(_label_rows(report, None, None)),
        notes=(f"the run directory is not here: it is '{report.path}' on the host that submitted the run",),
    )
    return structs.replace(page, advice=find_advice(page))


def _try(read: Callable[[], _Part], what: str, notes: list[str]) -> _Part | None:
    """Read a part of the page; one that cannot be read becomes a note."""
    try:
        return read()
    except READ_ERRORS as error:
        if isinstance(error, RunNotFoundError) and not isinstance(error, RunUnreadableError):
            raise
        notes.append(f"the {what} cannot be shown: {describe_read_error(error)}")
        return None


def _summarize(attempts: RunAttempts) -> GroupedStatistics:
    return summarize_attempts(
        attempts.measures(),
        attempts.request_of_job,
        labels=attempts.labels,
        label_of=attempts.label_of,
        jobs_of_labels=attempts.jobs_of_labels,
    )


def _label_rows(
    report: RunReport, attempts: RunAttempts | None, grouped: GroupedStatistics | None
) -> Iterator[LabelRow]:
    """Yield a row per label, in the order of the workflow."""
    expected = report.expected_labels or {}
    summaries = report.summary.labels if report.summary else {}
    run_s, memory_b = _values(attempts) if attempts else ({}, {})
    requests = attempts.table.requests_of_labels if attempts else {}
    for label, counts in report.labels.items():
        summary = summaries.get(label)
        yield LabelRow(
            name=label,
            expected=expected.get(label, sum(counts.values())),
            counts=counts,
            statistics=grouped.labels.get(label, AttemptStatistics()) if grouped else AttemptStatistics(),
            run_s=run_s.get(label, ()),
            memory_b=memory_b.get(label, ()),
            # What the label requests; a retry may request more, which the summary includes.
            requested_memory_b=largest_memory(requests[label])
            if label in requests
            else (summary.requested_memory_b if summary else None),
        )


def _values(attempts: RunAttempts) -> tuple[dict[str, Sequence[float]], dict[str, Sequence[float]]]:
    """Return run times and peak memory of successful attempts per label, ascending."""
    run_s: list[list[float]] = [[] for _ in attempts.labels]
    memory_b: list[list[float]] = [[] for _ in attempts.labels]
    for attempt in attempts.own_attempts:
        if not attempt.is_success:
            continue
        label = attempts.label_of[attempt.job]
        if attempt.run_s is not None:
            run_s[label].append(attempt.run_s)
        if attempt.peak_memory_b is not None:
            memory_b[label].append(attempt.peak_memory_b)
    return (
        {label: sorted(values) for label, values in zip(attempts.labels, run_s, strict=True)},
        {label: sorted(values) for label, values in zip(attempts.labels, memory_b, strict=True)},
    )


def _spans(attempts: RunAttempts, now: float) -> Spans:
    """Return the attempts that started, in time; those that run end now, and abandoned ones at the last event."""
    hosts: dict[str, int] = {}
    spans = Spans(
        started=array("d"),
        ended=array("d"),
        label_of=array("l"),
        host_of=array("l"),
        job_of=array("l"),
        outcome=bytearray(),
        hosts=[],
    )
    for attempt in attempts.own_attempts:
        start = attempt.started_at
        if start is None:
            continue
        ended = attempt.ended_at
        if ended is not None and attempt.run_s is not None:
            # Measured on one clock; start and end may be on two.
            ended = start + attempt.run_s
        spans.started.append(start)
        open_end = attempts.last_event_at if attempt.is_abandoned else now
        spans.ended.append(max(start, open_end if ended is None else ended))
        spans.label_of.append(attempts.label_of[attempt.job])
        spans.host_of.append(hosts.setdefault(attempt.host or _UNKNOWN_HOST, len(hosts)))
        spans.job_of.append(attempt.job)
        spans.outcome.append(_OUTCOMES.get(attempt.state, FAILED))
    spans.hosts.extend(hosts)
    return spans


def _names(attempts: RunAttempts) -> Mapping[int, str]:
    """Return the names of jobs with attempts, if these are few enough to be shown one by one."""
    if len(attempts.own_attempts) > MAX_NAMED:
        return {}
    return attempts.table.names_of(dict.fromkeys(attempt.job for attempt in attempts.own_attempts))
