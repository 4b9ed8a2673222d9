"""Formats of ``export``, and what of a run each of them has: its attempts, jobs, files and state."""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import structs

from longshore.contract.service import log_path
from longshore.errors import UsageError
from longshore.model.event import Attempt
from longshore.model.report import RunReport
from longshore.model.states import Cause, JobState
from longshore.model.tasks import DataId, is_remote
from longshore.model.wording import format_timestamp, name_all
from longshore.model.workflow import Request
from longshore.reports.export.ro_crate import (
    ATTEMPTS,
    MAX_JOBS,
    METADATA,
    WORKFLOW,
    CrateFile,
    CrateFiles,
    CrateRun,
    render_metadata,
    write_crate,
)
from longshore.reports.export.wfformat import TracedJob, TracedRun, render_wfformat, with_final_job
from longshore.reports.report import report_run
from longshore.reports.statistics import AttemptStatistics, RunAttempts, read_attempts, summarize_run_attempts
from longshore.rundir.archived_runs import archive_of
from longshore.rundir.run_directory import read_made_from
from longshore.rundir.submissions import read_input_files
from longshore.runstate.open_run import OpenRun, map_read_errors
from longshore.system.output_file import write_file
from longshore.system.reading import fingerprint_file

# Attempts as comma-separated values: a row each (pure).


Cell: TypeAlias = str | int | float | None

COLUMNS: Final = (
    *("run", "job", "label", "attempt", "state", "cause", "reason", "exit_code", "signal", "host", "wms_id"),
    *("submitted_at", "started_at", "ended_at", "wait_s", "run_s", "cpu_s", "peak_memory_b"),
    *("requested_cpus", "requested_memory_b", "requested_disk_b", "requested_walltime_s"),
    *("granted_cpus", "granted_memory_b", "staged_in_b", "staged_in_s", "staged_out_b", "staged_out_s"),
    *("data_id", "log"),
)
"""Names of the columns, which stay; new ones are added at the end. What is unknown is empty."""
_ROWS: Final = 2000
"""Rows encoded together."""
_QUOTED: Final = re.compile('[",\r\n]')
_FORMULA: Final = re.compile(r"['=+\-@\t\r]")
"""First characters of a formula, and the apostrophe that says that a text is none."""


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An attempt with what the tables of its run say of its job."""

    attempt: Attempt
    job: str
    label: str
    request: Request
    data_id: DataId
    log: str | None = None
    """Path of its log, relative to the run directory."""


def render_attempts(run: str, rows: Iterable[AttemptRow]) -> Iterator[bytes]:
    """Yield the text of a table of attempts, in UTF-8.

    A text that a spreadsheet could take for a formula has an apostrophe in front, and so has one that begins with an
    apostrophe: without its first apostrophe, each text is the original one.
    """
    yield ",".join(COLUMNS).encode() + b"\n"
    identity = _text(run)
    rest = iter(rows)
    while lines := [_line(identity, row) for row in islice(rest, _ROWS)]:
        # A name that is no UTF-8 must not end the export.
        yield "".join(lines).encode("utf-8", "backslashreplace")


def _line(run: str, row: AttemptRow) -> str:
    attempt, request, granted, staged = row.attempt, row.request, row.attempt.granted, row.attempt.staged
    texts: Sequence[str | None] = (row.job, row.label)
    cells: tuple[Cell, ...] = (
        attempt.number,
        attempt.state.value,
        attempt.cause.value if attempt.cause else None,
        _text(attempt.reason) if attempt.reason else None,
        attempt.exit_code,
        attempt.signal,
        _text(attempt.host) if attempt.host else None,
        _text(attempt.wms_id) if attempt.wms_id else None,
        format_timestamp(attempt.submitted_at, exact=True),
        format_timestamp(attempt.started_at, exact=True),
        format_timestamp(attempt.ended_at, exact=True),
        attempt.wait_s,
        attempt.run_s,
        attempt.cpu_s,
        attempt.peak_memory_b,
        request.cpus,
        request.memory_b,
        request.disk_b,
        request.walltime_s,
        *((granted.cpus, granted.memory_b) if granted else (None, None)),
        *((staged.bytes_in, staged.in_s, staged.bytes_out, staged.out_s) if staged else (None, None, None, None)),
        _text(_json(row.data_id)) if row.data_id else None,
        _text(row.log) if row.log else None,
    )
    begin = [run, *[_text(text or "") for text in texts]]
    return ",".join([*begin, *["" if cell is None else str(cell) for cell in cells]]) + "\n"


def _text(text: str) -> str:
    """Return the cell of a text: quoted if that is necessary, and no formula."""
    if _FORMULA.match(text):
        text = f"'{text}"
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if _QUOTED.search(text) else text


_encode: Final[Callable[[object], bytes]] = msgspec.json.Encoder().encode


def _json(data_id: DataId) -> str:
    try:
        return _encode(dict(data_id)).decode()
    except UnicodeEncodeError:
        # Imported late, as few data IDs have such a text.
        import json

        return json.dumps(dict(data_id))


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


class ExportFormat(StrEnum):
    """Format of an export."""

    CSV = "csv"
    """A table with a row per attempt."""
    OPENMETRICS = "openmetrics"
    """Metrics of the run at this moment, for Prometheus."""
    WFFORMAT = "wfformat"
    """The workflow and its execution, for tools of WfCommons, and as a payload."""
    RO_CRATE = "ro-crate"
    """What was run with which files, as a directory or an archive."""


_EXAMPLES: Final = {
    ExportFormat.CSV: "attempts.csv",
    ExportFormat.OPENMETRICS: "longshore.prom",
    ExportFormat.WFFORMAT: "workflow.json",
    ExportFormat.RO_CRATE: "run.crate.zip",
}
"""Name of a file per format."""


def _find_format(name: str) -> ExportFormat:
    """Return the format of a name, or raise `UsageError`."""
    try:
        return ExportFormat(name)
    except ValueError:
        raise UsageError(f"there is no export format '{name}'", hint=name_all(ExportFormat)) from None


def export_run(opened: OpenRun, form: str, path: Path) -> None:
    """Write a run to a file in a format; a crate is a new directory, or an archive (``.zip``).

    See `render_run`, `write_file` and `write_crate` for the errors.
    """
    found = _find_format(form)
    if found is ExportFormat.RO_CRATE:
        write_crate(path, _crate_contents(opened))
        return
    write_file(path, render_run(opened, found), example=_EXAMPLES[found], to_stdout="--output -")


def render_run(opened: OpenRun, form: str) -> Iterable[bytes]:
    """Return the content of a run in a format, in parts; the run is read before the first one is returned.

    Raises
    ------
    RunUnreadableError
        The run directory is damaged beyond its journal, or cannot be read.
    UnreachableError
        The workload manager does not answer.
    UsageError
        There is no such format, or it has several files.
    """
    match _find_format(form):
        case ExportFormat.CSV:
            return render_attempts(opened.card.id, attempt_rows(read_attempts(opened)))
        case ExportFormat.OPENMETRICS:
            from longshore.reports.export.openmetrics import render_openmetrics

            return (render_openmetrics(*collect_metrics(opened)).encode(),)
        case ExportFormat.WFFORMAT:
            return (render_wfformat(collect_trace(opened)).encode(),)
        case ExportFormat.RO_CRATE:
            raise UsageError(
                f"the format '{form}' has several files, and cannot be printed",
                hint="Name a directory or an archive: --output run.crate.zip",
            )


def _crate_contents(opened: OpenRun) -> CrateFiles:
    run, rows = collect_crate(opened)
    return {
        METADATA: (render_metadata(run).encode(),),
        ATTEMPTS: render_attempts(opened.card.id, rows),
        WORKFLOW: (render_wfformat(run.trace).encode(),),
    }
