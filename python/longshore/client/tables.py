"""Jobs, statistics and advice of a run as Python has them: records that print as text and become tables of pandas.

Rows and columns of a table are decided here alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import msgspec

from longshore.errors import LongshoreError
from longshore.model.report import TextPrinter, escape_controls, failure_text, format_duration
from longshore.model.states import Cause, JobState
from longshore.model.tasks import Scalar
from longshore.model.wording import count_noun
from longshore.reports.report import report_run
from longshore.reports.suggested_requests import LabelSuggestion, RequestAdvice, requests_yaml
from longshore.rundir.job_table import JobTable
from longshore.runstate.events import event_blocks, newest_requests
from longshore.runstate.open_run import OpenRun, map_read_errors

if TYPE_CHECKING:
    import pandas as pd

    from longshore.model.workflow import Request
    from longshore.reports.statistics import AttemptStatistics, RunStatistics


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


class StatisticsTable:
    """Statistics of the attempts of a run. ``print`` and notebooks show the tables of ``longshore stats``."""

    def __init__(self, found: RunStatistics) -> None:
        self._found = found

    @property
    def total(self) -> AttemptStatistics:
        """Statistics of all attempts."""
        return self._found.grouped.total

    @property
    def labels(self) -> Mapping[str, AttemptStatistics]:
        """Statistics per label, in the order of the workflow."""
        return self._found.grouped.labels

    @property
    def hosts(self) -> Mapping[str | None, AttemptStatistics]:
        """Statistics per host; ``None`` has the attempts that started on an unknown host."""
        return self._found.grouped.hosts

    @property
    def requests(self) -> Mapping[str, Request]:
        """What the first job of each label requests."""
        return self._found.requests

    def to_pandas(self) -> pd.DataFrame:
        """Return a table with a row for the run, and one per label and host.

        The columns are those of ``longshore stats --csv``: ``group`` is run, label or host, and ``key`` its name.

        Raises
        ------
        LongshoreError
            pandas is not installed.

        Examples
        --------
        >>> table = run.stats().to_pandas()
        >>> table[table.group == "label"].set_index("key")[["jobs", "run_s_p50", "peak_memory_b_max"]]
        """
        from longshore.reports.statistics_text import COLUMNS, statistics_rows

        return make_table(list(statistics_rows(self._found)), list(COLUMNS))

    def __repr__(self) -> str:
        """Return the run, and its numbers of jobs and attempts."""
        run, total = self._found.opened.card.id, self.total
        return f"<Statistics of run {run}: jobs {total.jobs}, attempts {total.attempts}>"

    def __str__(self) -> str:
        """Return the tables as text, in the width of the terminal; 80 columns without one."""
        from longshore.reports.statistics_text import statistics_lines
        from longshore.reports.styled import lines_text

        return lines_text(statistics_lines([self._found], shutil.get_terminal_size().columns), color=False)

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(str(self))


class SuggestedRequests:
    """Requests that fit what the attempts of a run used. ``print`` and notebooks show the YAML that applies them."""

    def __init__(self, advice: RequestAdvice) -> None:
        self._advice = advice

    @property
    def suggestions(self) -> Sequence[LabelSuggestion]:
        """A suggestion per label, in the order of the workflow; `changes` has the requests that differ."""
        return self._advice.suggestions

    @property
    def savings(self) -> str:
        """What the run would have saved, in words."""
        return self._advice.savings

    def save(self, path: str | Path, *, over: str | Path = "") -> Path:
        """Write the YAML to a new file.

        Parameters
        ----------
        path
            The file.
        over
            A configuration that the file includes: what is written wins over it, and the file can be submitted.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        FilesError
            The file exists, or cannot be written.

        Examples
        --------
        >>> longshore.submit(run.suggest_resources().save("tuned.yaml", over="survey.yaml"))
        """
        requests_yaml(self._advice, over=str(over), output=Path(path))
        return Path(path)

    def to_pandas(self) -> pd.DataFrame:
        """Return a table of requested, measured and suggested values, with a row per label and key.

        Memory is in bytes, run time in seconds. ``is_change`` tells whether the suggestion differs by enough.

        Raises
        ------
        LongshoreError
            pandas is not installed.
        """
        names = ("key", "requested", "measured", "suggested", "samples", "exceeding", "is_change")
        rows = [
            (each.label, *(getattr(value, name) for name in names))
            for each in self.suggestions
            for value in each.values  # noqa: PD011 - no table of pandas
        ]
        return make_table(rows, ["label", *names])

    def __repr__(self) -> str:
        """Return the number of labels whose requests change."""
        return f"<SuggestedRequests: labels {len(self.suggestions)}, to change {len(self._advice.changed)}>"

    def __str__(self) -> str:
        """Return the YAML."""
        return requests_yaml(self._advice).rstrip("\n")

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(str(self))
