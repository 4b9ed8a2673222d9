"""Collects the data of a run's page: its report, statistics of attempts, graph, configuration and commands."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import structs

from longshore import __version__
from longshore.app.inspect.draw import draw_label_states
from longshore.app.page.advice import find_advice
from longshore.app.page.configuration_rows import read_configuration_rows
from longshore.app.page.page_data import FAILED, RUNNING, SUCCEEDED, UNKNOWN, LabelRow, RunPage, Spans
from longshore.app.page.rerun_commands import rerun_commands
from longshore.app.report.report import report_run
from longshore.app.runs.open_run import READ_ERRORS, OpenRun, describe_read_error
from longshore.app.statistics.attempt_statistics import AttemptStatistics, GroupedStatistics, summarize_attempts
from longshore.app.statistics.request_advice import advise_on_attempts
from longshore.app.statistics.run_attempts import RunAttempts, read_attempts
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.run.report import RunReport
from longshore.model.run.states import JobState
from longshore.model.workflow.request import largest_memory

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
