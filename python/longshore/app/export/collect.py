"""Reads of a run what its exports have: attempts, jobs, files and state."""

from __future__ import annotations

import time
from collections.abc import Iterator

from longshore.app.export.attempts_csv import AttemptRow
from longshore.app.report.report import report_run
from longshore.app.runs.open_run import OpenRun, map_index_errors, map_read_errors
from longshore.app.statistics.attempt_statistics import AttemptStatistics
from longshore.app.statistics.run_attempts import RunAttempts, read_attempts
from longshore.app.statistics.run_statistics import summarize_run_attempts
from longshore.contract.context import log_path
from longshore.model.run.report import RunReport
from longshore.model.run.states import Cause


def collect_attempts(opened: OpenRun) -> RunAttempts:
    """Read the attempts of a run.

    Raises
    ------
    RunUnreadableError
        The run directory is damaged beyond its journal, or cannot be read.
    UnreachableError
        The workload manager does not answer.
    """
    with map_index_errors(opened.run):
        return read_attempts(opened)


def attempt_rows(found: RunAttempts) -> Iterator[AttemptRow]:
    """Yield the attempts of a run in the order of its jobs, with what is known of these."""
    with map_read_errors(found.opened.run):
        table = found.table
        names, tags = table.names, table.tags
    log_of = found.opened.log_of if found.opened.log_locator else log_path
    for attempt in sorted(found.attempts, key=lambda attempt: (attempt.job, attempt.number)):
        name, label = names[attempt.job], table.label(attempt.job)
        log = attempt.log
        if log is None and attempt.cause is not Cause.SUBMIT:
            log = log_of(attempt.job, name, label, attempt.number)
        yield AttemptRow(
            attempt=attempt,
            job=name,
            label=label,
            request=found.request_of(attempt),
            data_id=tags[attempt.job],
            log=log,
        )


def collect_metrics(opened: OpenRun) -> tuple[RunReport, dict[str, AttemptStatistics]]:
    """Read the state of a run, and statistics of its attempts per label."""
    report = report_run(opened, details=False, now=time.time())
    with map_index_errors(opened.run):
        found = summarize_run_attempts(read_attempts(opened))
    return report, dict(found.grouped.labels)
