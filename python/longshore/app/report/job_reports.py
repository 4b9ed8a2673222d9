"""Job reports: the state and newest attempt of each job of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, overload

from longshore.app.report.newest_attempts import NewestAttempts
from longshore.contract.context import LOGS_PER_FOLDER, file_name, log_folder, log_path
from longshore.engine.state.run_state import RunState
from longshore.model.run.event import Lost
from longshore.model.run.report import JobReport
from longshore.model.run.states import Cause, JobState

_NOTHING: Final = (None,) * 10
"""Fields behind the number of attempts, of a job that has none."""
_STARTED_AT, _FINISHED_AT = map(JobReport.__struct_fields__.index, ("started_at", "finished_at"))


@dataclass(frozen=True, kw_only=True, eq=False)
class JobReports(Sequence[JobReport]):
    """Sequence of job reports in workflow order, each built on access, to save memory.

    `state` and `attempts` hold states and newest attempts; `shown` maps a state code to the state to show. `held` are
    jobs that the workload manager holds until a person releases them; `unknown` are those whose state damage of the
    journal hides. `log_of` returns an attempt's log path relative to the run directory. `not_retried` says why a job
    that failed was not tried again.
    """

    state: RunState
    attempts: NewestAttempts
    names: Sequence[str]
    labels: Sequence[str]
    shown: Sequence[JobState]
    held: Collection[int] = ()
    unknown: Collection[int] = ()
    log_of: Callable[[int, str, str, int], str] = log_path
    not_retried: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of jobs."""
        return self.state.size

    @overload
    def __getitem__(self, job: int) -> JobReport: ...
    @overload
    def __getitem__(self, job: slice) -> list[JobReport]: ...
    def __getitem__(self, job: int | slice) -> JobReport | list[JobReport]:
        """Return the report of a job, or of a slice."""
        these = range(len(self))[job]
        return self._of(these) if isinstance(these, int) else list(map(self._of, these))

    def __iter__(self) -> Iterator[JobReport]:
        """Iterate over the reports of all jobs."""
        return map(_report, self.values(lambda at: at))

    def _of(self, job: int) -> JobReport:
        return _report(self.values_of(job))

    def values(self, show_time: Callable[[float | None], object]) -> Iterator[tuple[Any, ...]]:
        """Iterate over the fields of all reports, in their order and with times as `show_time` returns them.

        This takes a fifth of the time of making the reports.
        """
        others = {*self.held, *self.unknown, *self.not_retried}
        for begin in range(0, len(self), LOGS_PER_FOLDER):
            jobs = range(begin, min(begin + LOGS_PER_FOLDER, len(self)))
            plain = self._are_plain(jobs)
            rows = self._success_rows(jobs, plain, show_time)
            if all(plain) and others.isdisjoint(jobs):
                yield from rows
                continue
            for job, row, is_plain in zip(jobs, rows, plain, strict=True):
                if is_plain and job not in others:
                    yield row
                else:
                    fields = list(self.values_of(job))
                    fields[_STARTED_AT] = show_time(fields[_STARTED_AT])
                    fields[_FINISHED_AT] = show_time(fields[_FINISHED_AT])
                    yield tuple(fields)

    def _are_plain(self, jobs: range) -> Sequence[int]:
        """Return for each of some jobs whether the columns of `attempts` have its newest attempt."""
        part = slice(jobs.start, jobs.stop)
        numbers, succeeded, started = (
            self.state.attempts[part],
            self.attempts.succeeded[part],
            self.attempts.started[part],
        )
        if numbers == succeeded == started:
            return numbers
        return [
            number == success == start and number
            for number, success, start in zip(numbers, succeeded, started, strict=True)
        ]

    def _success_rows(
        self, jobs: range, plain: Sequence[int], show_time: Callable[[float | None], object]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the fields of reports of `plain` jobs; those of the others mean nothing."""
        part, nothing = slice(jobs.start, jobs.stop), (None,) * len(jobs)
        attempts = self.attempts
        return zip(
            self.names[part],
            [self.labels[label] for label in self.state.labels[part]],
            [self.shown[code] for code in self.state.code[part]],
            *(nothing, nothing, self.state.attempts[part], (0,) * len(jobs), nothing),
            attempts.hosts[part],
            [show_time(at) for at in attempts.start_times[part]],
            [show_time(at) for at in attempts.end_times[part]],
            *(*attempts.use_columns(part), self._logs(jobs, plain), nothing),
            strict=True,
        )

    def _logs(self, jobs: range, plain: Sequence[int]) -> list[str]:
        """Return the log of the newest attempt of each of some jobs, whose logs have folders of one number."""
        part = slice(jobs.start, jobs.stop)
        names, label_of, numbers = self.names[part], self.state.labels[part], self.state.attempts[part]
        if self.log_of is not log_path:
            columns = zip(jobs, names, label_of, numbers, plain, strict=True)
            return [
                self.log_of(job, name, self.labels[label], number) if is_plain else ""
                for job, name, label, number, is_plain in columns
            ]
        folders = {label: log_folder(jobs.start, self.labels[label]) for label in set(label_of)}
        rows = zip(names, label_of, numbers, strict=True)
        return [f"{folders[label]}/{file_name(name)}.{number}.log" for name, label, number in rows]

    def values_of(self, job: int) -> tuple[Any, ...]:
        """Return the fields of a report."""
        state = self.state
        number, name, label = state.attempts[job], self.names[job], self.labels[state.labels[job]]
        shown = self.shown[state.code[job]]
        if job in self.held:
            shown = JobState.HELD
        if job in self.unknown:
            shown = JobState.UNKNOWN
        if not number:
            return (name, label, shown, None, None, 0, *_NOTHING)
        host, began = self.attempts.start(job, number)
        end = self.attempts.end(job, number)
        # Text, not `Path`: a hundred thousand paths take half a second to make.
        log: str | None = self.log_of(job, name, label, number)
        if end is None:
            return (name, label, shown, None, None, number, None, None, host, began, None, None, None, None, log, None)
        not_retried = self.not_retried.get(job) or None
        if isinstance(end, Lost):
            cause, reason = Cause.LOST, end.why
            lost = (None, None, host, began, None, None, None, None, log, not_retried)
            return (name, label, shown, cause, reason, number, *lost)
        if began is None:
            began = end.start
        if end.cause is Cause.SUBMIT:
            # A job that was never started has no log.
            log = None
        return (
            *(name, label, shown, end.cause, end.reason, number, end.exit, end.signal, host or end.host, began),
            *(end.end, end.run_s, end.cpu_s, end.rss_b, log, not_retried),
        )


def _report(values: Iterable[object]) -> JobReport:
    return JobReport(**dict(zip(JobReport.__struct_fields__, values, strict=True)))  # type: ignore[arg-type]
