"""Jobs of a run as records, with their tags, requests and newest attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, overload

import msgspec

from longshore.app.report.report import report_run
from longshore.app.runs.event_source import event_blocks
from longshore.app.runs.job_events import newest_requests
from longshore.app.runs.open_run import OpenRun, map_read_errors
from longshore.engine.rundir.job_table import JobTable
from longshore.errors import LongshoreError
from longshore.model.run.states import Cause, JobState
from longshore.model.tasks.task import Scalar
from longshore.model.text_format import escape_controls, failure_text, format_duration
from longshore.model.wording import count_noun

if TYPE_CHECKING:
    import pandas as pd


class RunJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a run.

    Attributes
    ----------
    name, label
        Its name and label.
    tags
        Value per dimension, such as ``{"visit": 101}``.
    state, cause, reason
        State; cause and text of the newest failure, ``None`` without one.
    request_cpus, request_memory_b, request_walltime_s
        Request of the newest attempt, or of the first if it is still to come: processors, bytes, seconds; ``None``
        where there is none.
    attempts
        Number of attempts.
    exit_code, signal, host
        Of the newest attempt; ``None`` if unknown.
    started_at, finished_at
        Times of the newest attempt (UTC); ``None`` if unknown or still to come.
    run_s, cpu_s, peak_memory_b
        Run time, processor time (seconds) and peak memory (bytes) of the newest attempt; ``None`` if unknown.
    log
        Path of the newest log, relative to the run directory.
    """

    name: str
    label: str
    tags: Mapping[str, Scalar]
    state: JobState
    cause: Cause | None
    reason: str | None
    request_cpus: float | None
    request_memory_b: int | None
    request_walltime_s: float | None
    attempts: int
    exit_code: int | None
    signal: int | None
    host: str | None
    started_at: datetime | None
    finished_at: datetime | None
    run_s: float | None
    cpu_s: float | None
    peak_memory_b: int | None
    log: str | None

    def __str__(self) -> str:
        """Return name, state, and how the newest attempt went, in a line."""
        parts = [f"{self.name} {self.state.value}"]
        if self.cause is not None or self.exit_code:
            parts.append(self.reason or failure_text(self.cause, self.exit_code, self.signal))
        if self.attempts:
            parts.append(f"attempt {self.attempts}" + (f" on {self.host}" if self.host else ""))
        if self.run_s is not None:
            parts.append(format_duration(self.run_s))
        return escape_controls(", ".join(parts))


class RunJobs(Sequence[RunJob]):
    """Jobs of a run, in the order of the workflow."""

    def __init__(self, records: Sequence[RunJob]) -> None:
        self._records = tuple(records)

    @overload
    def __getitem__(self, index: int) -> RunJob: ...
    @overload
    def __getitem__(self, index: slice) -> RunJobs: ...
    def __getitem__(self, index: int | slice) -> RunJob | RunJobs:
        """Return a job, or a part of the jobs."""
        found = self._records[index]
        return RunJobs(found) if isinstance(found, tuple) else found

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self._records)

    def __repr__(self) -> str:
        """Return the number of jobs per state."""
        states: dict[str, int] = {}
        for record in self._records:
            states[record.state.value] = states.get(record.state.value, 0) + 1
        counts = ", ".join(f"{number} {state}" for state, number in states.items())
        return f"<{count_noun(len(self), 'job')}: {counts or 'none'}>"

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row per job, and a column ``tag.NAME`` per tag.

        Raises
        ------
        LongshoreError
            pandas is not installed.
        """
        rows: list[dict[str, Any]] = []
        for record in self._records:
            row = {name: getattr(record, name) for name in RunJob.__struct_fields__ if name != "tags"}
            row["state"], row["cause"] = record.state.value, record.cause.value if record.cause else None
            rows.append(row | {f"tag.{name}": value for name, value in record.tags.items()})
        columns = [name for name in RunJob.__struct_fields__ if name != "tags"]
        return make_table(rows) if rows else make_table([], columns)


def make_table(rows: Sequence[object], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a table of pandas; raises `LongshoreError` where that package is not installed."""
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        raise LongshoreError("tables need the package 'pandas', which is missing", hint="pip install pandas") from error
    return pd.DataFrame(rows, columns=columns)


def read_jobs(opened: OpenRun) -> RunJobs:
    """Return the jobs of a run."""
    reports = report_run(opened, details=True).jobs or ()
    with map_read_errors(opened.run):
        table = JobTable(opened.run, "tags")
        requests = [settings.request for settings in table.header.settings]
        attempted = newest_requests(event_blocks(opened)) if any(report.attempts for report in reports) else {}
        records = []
        for job, (report, profile, tags) in enumerate(zip(reports, table.profile_of, table.tags, strict=True)):
            request = attempted.get(job) or requests[profile]
            records.append(
                RunJob(
                    name=report.name,
                    label=report.label,
                    tags=tags,
                    state=report.state,
                    cause=report.cause,
                    reason=report.reason,
                    request_cpus=request.cpus,
                    request_memory_b=request.memory_b,
                    request_walltime_s=request.walltime_s,
                    attempts=report.attempts,
                    exit_code=report.exit_code,
                    signal=report.signal,
                    host=report.host,
                    started_at=_moment(report.started_at),
                    finished_at=_moment(report.finished_at),
                    run_s=report.run_s,
                    cpu_s=report.cpu_s,
                    peak_memory_b=report.peak_memory_b,
                    log=report.log,
                )
            )
    return RunJobs(records)


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
