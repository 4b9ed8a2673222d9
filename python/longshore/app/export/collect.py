"""Reads of a run what its exports have: attempts, jobs, files and state."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from longshore.app.export.attempts_csv import AttemptRow
from longshore.app.export.wfformat import TracedJob, TracedRun, with_final_job
from longshore.app.report.report import report_run
from longshore.app.runs.open_run import OpenRun, map_index_errors, map_read_errors
from longshore.app.statistics.attempt_statistics import AttemptStatistics
from longshore.app.statistics.run_attempts import RunAttempts, read_attempts
from longshore.app.statistics.run_statistics import summarize_run_attempts
from longshore.contract.context import log_path
from longshore.model.run.attempt import Attempt
from longshore.model.run.report import RunReport
from longshore.model.run.states import Cause, JobState
from longshore.model.tasks.file import is_remote


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


def collect_trace(opened: OpenRun) -> TracedRun:
    """Read the jobs of a run, their files, and the attempts that succeeded."""
    found = collect_attempts(opened)
    successes = {each.job: each for each in found.attempts if each.state is JobState.SUCCEEDED}
    with map_read_errors(opened.run):
        jobs = list(_traced_jobs(found, successes))
        if found.table.final is not None:
            jobs = with_final_job(jobs)
        sizes = _file_sizes(found)
    return TracedRun(
        id=opened.card.id,
        name=opened.card.name,
        version=opened.card.longshore,
        created_at=opened.card.created_at,
        jobs=jobs,
        sizes=sizes,
    )


def _traced_jobs(found: RunAttempts, successes: Mapping[int, Attempt]) -> Iterator[TracedJob]:
    table = found.table
    parents = table.parents
    for job in range(len(table)):
        stored, success = table[job], successes.get(job)
        yield TracedJob(
            name=stored.name,
            label=table.label(job),
            parents=parents[job],
            inputs=stored.inputs,
            outputs=stored.outputs,
            success=success,
            request=found.request_of(success) if success else table.settings(job).request,
        )


def _file_sizes(found: RunAttempts) -> dict[str, int]:
    """Return the known sizes of files: what the payload says, else what is on this host's disks."""
    sizes: dict[str, int] = {}
    for file in found.table.files():
        size = file.size_b
        if size is None and not is_remote(file.path):
            size = file_size(found.opened.run.root / file.path)
        if size is not None:
            sizes[file.name] = size
    return sizes


def file_size(path: Path) -> int | None:
    """Return the size of a file; ``None`` if this host sees no file there."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        # ValueError: a name with NUL, or one that no file system encodes.
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
