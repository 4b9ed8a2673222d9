"""Job reports: the state and newest attempt of each job of a run, in columns."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, overload

import msgspec

from longshore.contract.capabilities import LogLocator
from longshore.contract.service import LOGS_PER_FOLDER, file_name, log_folder, log_path
from longshore.model.event import Lost
from longshore.model.report import JobReport
from longshore.model.states import Cause, JobState
from longshore.reports.attempts import NewestAttempts
from longshore.runstate.run_state import RunState

_NOTHING: Final = (None,) * 10
"""Fields behind the number of attempts, of a job that has none."""
_STARTED_AT, _FINISHED_AT = map(JobReport.__struct_fields__.index, ("started_at", "finished_at"))


class JobReports(Sequence[JobReport]):
    """Reports of all jobs of a run, in workflow order; each is built on access.

    Hundreds of thousands of reports take longer to make than all that they are made of, so `values` is for readers that
    need only their fields.
    """

    @overload
    def __getitem__(self, job: int) -> JobReport: ...
    @overload
    def __getitem__(self, job: slice) -> list[JobReport]: ...
    def __getitem__(self, job: int | slice) -> JobReport | list[JobReport]:
        """Return the report of a job, or of a slice."""
        these = range(len(self))[job]
        if isinstance(these, int):
            return _report(self.values_of(these))
        return [_report(self.values_of(each)) for each in these]

    def __iter__(self) -> Iterator[JobReport]:
        """Iterate over the reports of all jobs."""
        return map(_report, self.values(lambda at: at))

    def values(self, show_time: Callable[[float | None], object]) -> Iterator[tuple[Any, ...]]:
        """Iterate over the fields of all reports, in their order and with times as `show_time` returns them."""
        for columns in self.columns():
            shown = list(columns)
            for place in (_STARTED_AT, _FINISHED_AT):
                shown[place] = _show_times(columns[place], show_time)
            yield from zip(*shown, strict=True)

    @abstractmethod
    def columns(self) -> Iterator[Sequence[Sequence[Any]]]:
        """Iterate over parts of all reports, in order; each part is a column per field of `JobReport`."""

    @abstractmethod
    def values_of(self, job: int) -> tuple[Any, ...]:
        """Return the fields of a report."""


class JobColumns(msgspec.Struct, frozen=True, kw_only=True):
    """Reports of all jobs of a run: per field of `JobReport` a value for each job.

    Raises `ValueError` if there are more values of one field than of another.
    """

    name: list[str]
    label: list[str]
    state: list[JobState]
    cause: list[Cause | None]
    reason: list[str | None]
    attempts: list[int]
    exit_code: list[int | None]
    signal: list[int | None]
    host: list[str | None]
    started_at: list[float | None]
    finished_at: list[float | None]
    run_s: list[float | None]
    cpu_s: list[float | None]
    peak_memory_b: list[int | None]
    log: list[str | None]
    not_retried: list[str | None]

    def __post_init__(self) -> None:
        if len(set(map(len, msgspec.structs.astuple(self)))) != 1:
            raise ValueError("the columns differ in length")


class StoredJobReports(JobReports):
    """Job reports whose columns are stored."""

    def __init__(self, stored: JobColumns) -> None:
        self.stored = stored
        self._columns: tuple[list[Any], ...] = msgspec.structs.astuple(stored)

    @classmethod
    def of(cls, reports: JobReports) -> StoredJobReports:
        """Return reports with all their columns made."""
        every: list[list[Any]] = [[] for _ in JobColumns.__struct_fields__]
        for part in reports.columns():
            for column, values in zip(every, part, strict=True):
                column.extend(values)
        return cls(JobColumns(**dict(zip(JobColumns.__struct_fields__, every, strict=True))))

    def __len__(self) -> int:
        """Return the number of jobs."""
        return len(self.stored.name)

    def columns(self) -> Iterator[Sequence[Sequence[Any]]]:
        """Return all columns as one part."""
        return iter((self._columns,))

    def values_of(self, job: int) -> tuple[Any, ...]:
        """Return the fields of a report."""
        return tuple(column[job] for column in self._columns)


class ReplayedJobs(msgspec.Struct, frozen=True, kw_only=True):
    """What job reports of a replayed run are made of.

    `state` and `attempts` hold states and newest attempts; `shown` maps a state code to the state to show. `held` are
    jobs that the workload manager holds until a person releases them; `unknown` are those whose state damage of the
    journal hides. `locator` finds the logs of attempts; ``None`` where they have their usual paths. `not_retried` says
    why a job that failed was not tried again. `hide` masks the secrets of a reason.
    """

    state: RunState
    attempts: NewestAttempts
    names: Sequence[str]
    labels: Sequence[str]
    shown: Sequence[JobState]
    held: Collection[int] = ()
    unknown: Collection[int] = ()
    locator: LogLocator | None = None
    hide: Callable[[str], str] = str
    not_retried: Mapping[int, str] = {}


class ReplayedJobReports(JobReports):
    """Job reports made from the state and the newest attempts of a replayed run."""

    def __init__(self, replayed: ReplayedJobs) -> None:
        self._jobs = replayed

    def __len__(self) -> int:
        """Return the number of jobs."""
        return self._jobs.state.size

    def columns(self) -> Iterator[Sequence[Sequence[Any]]]:
        """Iterate over the columns of jobs whose logs share folders."""
        others = {*self._jobs.held, *self._jobs.unknown, *self._jobs.not_retried}
        for begin in range(0, len(self), LOGS_PER_FOLDER):
            jobs = range(begin, min(begin + LOGS_PER_FOLDER, len(self)))
            plain = self._are_plain(jobs)
            columns = self._success_columns(jobs, plain)
            if not all(plain) or not others.isdisjoint(jobs):
                rows = list(zip(*columns, strict=True))
                for place, job in enumerate(jobs):
                    if not plain[place] or job in others:
                        rows[place] = self.values_of(job)
                columns = list(zip(*rows, strict=True))
            yield columns

    def _are_plain(self, jobs: range) -> Sequence[int]:
        """Return for each of some jobs whether the columns of `attempts` have its newest attempt."""
        part = slice(jobs.start, jobs.stop)
        numbers, succeeded, started = (
            self._jobs.state.attempts[part],
            self._jobs.attempts.succeeded[part],
            self._jobs.attempts.started[part],
        )
        if numbers == succeeded == started:
            return numbers
        return [
            number == success == start and number
            for number, success, start in zip(numbers, succeeded, started, strict=True)
        ]

    def _success_columns(self, jobs: range, plain: Sequence[int]) -> list[Sequence[Any]]:
        """Return the columns of reports of `plain` jobs; those of the others mean nothing."""
        part, nothing = slice(jobs.start, jobs.stop), (None,) * len(jobs)
        attempts = self._jobs.attempts
        return [
            self._jobs.names[part],
            [self._jobs.labels[label] for label in self._jobs.state.labels[part]],
            [self._jobs.shown[code] for code in self._jobs.state.code[part]],
            *(nothing, nothing, self._jobs.state.attempts[part], (0,) * len(jobs), nothing),
            *(attempts.hosts[part], attempts.start_times[part], attempts.end_times[part]),
            *(*attempts.use_columns(part), self._logs(jobs, plain), nothing),
        ]

    def _logs(self, jobs: range, plain: Sequence[int]) -> list[str]:
        """Return the log of the newest attempt of each of some jobs, whose logs have folders of one number."""
        part = slice(jobs.start, jobs.stop)
        names, label_of, numbers = (
            self._jobs.names[part],
            self._jobs.state.labels[part],
            self._jobs.state.attempts[part],
        )
        if self._jobs.locator is not None:
            labels = [self._jobs.labels[label] for label in label_of]
            if all(plain):
                return self._jobs.locator.paths(list(zip(jobs, names, labels, numbers, strict=True)))
            path, rows = self._jobs.locator.path, zip(jobs, names, labels, numbers, plain, strict=True)
            return [path(job, name, label, number) if is_plain else "" for job, name, label, number, is_plain in rows]
        folders = {label: log_folder(jobs.start, self._jobs.labels[label]) for label in set(label_of)}
        return [
            f"{folders[label]}/{file_name(name)}.{number}.log"
            for name, label, number in zip(names, label_of, numbers, strict=True)
        ]

    def values_of(self, job: int) -> tuple[Any, ...]:
        """Return the fields of a report."""
        state = self._jobs.state
        number, name, label = state.attempts[job], self._jobs.names[job], self._jobs.labels[state.labels[job]]
        shown = self._jobs.shown[state.code[job]]
        if job in self._jobs.held:
            shown = JobState.HELD
        if job in self._jobs.unknown:
            shown = JobState.UNKNOWN
        if not number:
            return (name, label, shown, None, None, 0, *_NOTHING)
        host, began = self._jobs.attempts.start(job, number)
        end = self._jobs.attempts.end(job, number)
        # Text, not `Path`: a hundred thousand paths take half a second to make.
        log: str | None = (self._jobs.locator.path if self._jobs.locator else log_path)(job, name, label, number)
        if end is None:
            return (name, label, shown, None, None, number, None, None, host, began, None, None, None, None, log, None)
        not_retried = self._jobs.not_retried.get(job) or None
        if isinstance(end, Lost):
            cause, reason = Cause.LOST, self._jobs.hide(end.why)
            lost = (None, None, host, began, None, None, None, None, log, not_retried)
            return (name, label, shown, cause, reason, number, *lost)
        if began is None:
            began = end.start
        if end.cause is Cause.SUBMIT:
            # A job that was never started has no log.
            log = None
        return (
            *(
                name,
                label,
                shown,
                end.cause,
                end.reason and self._jobs.hide(end.reason),
                number,
                end.exit,
                end.signal,
                host or end.host,
                began,
            ),
            *(end.end, end.run_s, end.cpu_s, end.rss_b, log, not_retried),
        )


def _report(values: Iterable[object]) -> JobReport:
    return JobReport(**dict(zip(JobReport.__struct_fields__, values, strict=True)))  # type: ignore[arg-type]


def _show_times(times: Sequence[float | None], show_time: Callable[[float | None], object]) -> list[object]:
    """Return times as they are shown, each made once: workload managers often tell whole seconds only."""
    # Not a number is not equal to itself.
    known = [None if at is None or math.isnan(at) else at for at in times]
    shown = {at: show_time(at) for at in set(known)}
    return list(map(shown.__getitem__, known))
