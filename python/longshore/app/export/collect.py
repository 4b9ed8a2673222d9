"""Reads of a run what its exports have: attempts, jobs, files and state."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import structs

from longshore.app.export.attempts_csv import AttemptRow
from longshore.app.export.ro_crate import MAX_JOBS, CrateFile, CrateRun
from longshore.app.export.wfformat import TracedJob, TracedRun, with_final_job
from longshore.app.report.report import report_run
from longshore.app.runs.open_run import OpenRun, map_read_errors
from longshore.app.statistics.attempt_statistics import AttemptStatistics
from longshore.app.statistics.run_attempts import RunAttempts, read_attempts
from longshore.app.statistics.run_statistics import summarize_run_attempts
from longshore.contract.context import log_path
from longshore.model.run.attempt import Attempt
from longshore.model.run.report import RunReport
from longshore.model.run.states import Cause, JobState
from longshore.model.tasks.file import is_remote
from longshore.world.files.file_fingerprint import fingerprint_file
from longshore.world.runs.archived_runs import archive_of
from longshore.world.runs.input_files import read_input_files
from longshore.world.runs.run_directory import read_made_from


def attempt_rows(found: RunAttempts) -> Iterator[AttemptRow]:
    """Yield the attempts of a run with their jobs, in the order of the jobs."""
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
            attempt=found.opened.hide_reason(attempt),
            job=name,
            label=label,
            request=found.request_of(attempt),
            data_id=tags[attempt.job],
            log=log,
        )


def collect_metrics(opened: OpenRun) -> tuple[RunReport, dict[str, AttemptStatistics]]:
    """Read the state of a run, and statistics of its attempts per label."""
    report = _report(opened)
    found = summarize_run_attempts(read_attempts(opened))
    return report, dict(found.grouped.labels)


def _report(opened: OpenRun) -> RunReport:
    """Return the report of a run under the id that it keeps: a workload manager gives a restart another one."""
    return structs.replace(report_run(opened, details=False, now=time.time()), id=opened.card.id)


def collect_trace(opened: OpenRun) -> TracedRun:
    """Read the jobs of a run, their files, and the attempts that succeeded."""
    return _trace(opened, read_attempts(opened))


def collect_crate(opened: OpenRun) -> tuple[CrateRun, list[AttemptRow]]:
    """Read of a run what a crate tells of it, and its table of attempts."""
    report = _report(opened)
    found = read_attempts(opened)
    trace = _trace(opened, found)
    newest: dict[int, Attempt] = {}
    for attempt in found.attempts:
        if attempt.job not in newest or attempt.number > newest[attempt.job].number:
            newest[attempt.job] = opened.hide_reason(attempt)
    with map_read_errors(opened.run):
        run = CrateRun(
            trace=trace,
            report=report,
            newest=newest,
            files=_crate_files(found) if len(trace.jobs) <= MAX_JOBS else {},
            sources=list(_sources(opened)),
        )
    return run, list(attempt_rows(found))


def _crate_files(found: RunAttempts) -> dict[str, CrateFile]:
    """Return the files of the workflow: their sizes on this host, and the digests that were taken of inputs."""
    root, shown_root = found.opened.run.root, _shown_root(found.opened)
    known = read_input_files(found.opened.run).files
    files: dict[str, CrateFile] = {}
    for file in found.table.files():
        if is_remote(file.path):
            files[file.name] = CrateFile(path=file.path, size_b=file.size_b)
            continue
        path, shown = root / file.path, str(shown_root / file.path)
        size, record = file_size(path), known.get(shown)
        files[file.name] = CrateFile(
            path=shown,
            is_directory=size is None and is_directory(path),
            size_b=size,
            sha256=record.sha256 if record and record.size == size else "",
        )
    return files


def _shown_root(opened: OpenRun) -> Path:
    """Return the directory of a run; for an archive, the one that the run had before."""
    made_from = read_made_from(opened.run) if archive_of(opened.run) else None
    return Path(made_from.root) if made_from else opened.run.root


def _sources(opened: OpenRun) -> Iterator[CrateFile]:
    """Yield the configuration and the files of the payload that a run was made from."""
    made_from = read_made_from(opened.run)
    root, config = _shown_root(opened), opened.run.merged_config(opened.card.name)
    own = fingerprint_file(config, config.name)
    for each in (*((own,) if own else ()), *(made_from.payload if made_from else ())):
        yield CrateFile(path=str(root / each.path), size_b=each.size, sha256=each.sha256)


def _trace(opened: OpenRun, found: RunAttempts) -> TracedRun:
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
    """Return the known sizes of files, from the payload or from this host's disks."""
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


def is_directory(path: Path) -> bool:
    """Tell whether this host sees a directory at a path."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
