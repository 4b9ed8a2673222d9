"""Statistics of attempts: per label, per host and of a whole run (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from longshore.app.statistics.distribution import Distribution, distribution_of
from longshore.model.run.attempt import Attempt
from longshore.model.run.states import Cause
from longshore.model.workflow.request import Request


class LostTime(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Badput: attempts that did not succeed, and what they took.

    Attributes
    ----------
    attempts
        Their number.
    run_s, core_s
        Seconds that they ran, and these times the requested processors.
    unknown
        Those of them whose run time is unknown.
    """

    attempts: int = 0
    run_s: float = 0.0
    core_s: float = 0.0
    unknown: int = 0


class AttemptStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a group of attempts, such as those of a label or of a host.

    Attributes
    ----------
    jobs
        Jobs of a label or run, with or without attempts; for a host, jobs with an attempt there.
    attempts, succeeded, unfinished
        All attempts, those that succeeded, and those whose end is not known. All others are `badput`.
    retries
        Attempts that are not the first of their job.
    wait_s
        Seconds in the queue, of attempts that started.
    run_s
        Run times of attempts that succeeded.
    cpu_efficiency
        Processor time of attempts that succeeded, as a share of run time times requested processors.
    peak_memory_b
        Peak memory of attempts that succeeded.
    memory_share
        The same as a share of the requested memory.
    badput
        Attempts that did not succeed, in total and per cause.
    core_s
        Run time of all attempts that ended, times the processors that they requested.
    cpu_s
        Known processor time of all attempts that ended.
    """

    jobs: int = 0
    attempts: int = 0
    succeeded: int = 0
    unfinished: int = 0
    retries: int = 0
    wait_s: Distribution = Distribution()
    run_s: Distribution = Distribution()
    cpu_efficiency: Distribution = Distribution()
    peak_memory_b: Distribution = Distribution()
    memory_share: Distribution = Distribution()
    badput: LostTime = LostTime()
    badput_causes: Mapping[Cause, LostTime] = msgspec.field(default_factory=dict)
    core_s: float = 0.0
    cpu_s: float = 0.0


class GroupedStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a run: of all attempts, per label in the order of the workflow, and per host by name.

    The host ``None`` has the attempts that started on an unknown host; attempts that did not start have no host, and
    are in no row of hosts.
    """

    total: AttemptStatistics
    labels: Mapping[str, AttemptStatistics]
    hosts: Mapping[str | None, AttemptStatistics]


class _Cell:
    """Values of the attempts of one label on one host."""

    __slots__ = (
        "attempts", "badput", "core_s", "cpu_s", "efficiency", "jobs", "memory", "memory_share", "retries", "run",
        "started", "succeeded", "unfinished", "wait",
    )  # fmt: skip

    def __init__(self) -> None:
        self.attempts = self.succeeded = self.unfinished = self.retries = self.started = 0
        self.jobs: set[int] = set()
        self.wait: list[float] = []
        self.run: list[float] = []
        self.efficiency: list[float] = []
        self.memory: list[float] = []
        self.memory_share: list[float] = []
        self.core_s = self.cpu_s = 0.0
        self.badput: dict[Cause, list[float]] = {}
        """Per cause: attempts, run time, core time, and attempts of unknown run time."""

    def add(self, attempt: Attempt, request: Request) -> None:
        """Add an attempt."""
        self.attempts += 1
        self.jobs.add(attempt.job)
        if attempt.number > 1:
            self.retries += 1
        if attempt.started_at is not None:
            self.started += 1
            if (wait := attempt.wait_s) is not None:
                self.wait.append(wait)
        if attempt.ended_at is None:
            self.unfinished += 1
            return
        if attempt.run_s is not None:
            self.core_s += attempt.run_s * request.cpus
        if attempt.cpu_s is not None:
            self.cpu_s += attempt.cpu_s
        if attempt.cause is None:
            self._add_success(attempt, request)
        else:
            self._add_failure(attempt, attempt.cause, request)

    def _add_success(self, attempt: Attempt, request: Request) -> None:
        self.succeeded += 1
        run_s, cpu_s = attempt.run_s, attempt.cpu_s
        if run_s is not None:
            self.run.append(run_s)
            if cpu_s is not None and run_s > 0.0:
                self.efficiency.append(cpu_s / (run_s * request.cpus))
        if attempt.peak_memory_b is not None:
            self.memory.append(attempt.peak_memory_b)
            if request.memory_b:
                self.memory_share.append(attempt.peak_memory_b / request.memory_b)

    def _add_failure(self, attempt: Attempt, cause: Cause, request: Request) -> None:
        lost = self.badput.setdefault(cause, [0, 0.0, 0.0, 0])
        lost[0] += 1
        if attempt.run_s is not None:
            lost[1] += attempt.run_s
            lost[2] += attempt.run_s * request.cpus
        elif attempt.started_at is not None:
            lost[3] += 1


_UNSTARTED: Final = ""
"""Key of the host of attempts that did not start."""


def summarize_attempts(
    attempts: Iterable[Attempt],
    request_of: Callable[[Attempt], Request],
    *,
    labels: Sequence[str],
    label_of: Sequence[int],
    jobs_of_labels: Sequence[int],
) -> GroupedStatistics:
    """Return the statistics of a run's attempts; the parameters are those of `RunAttempts`."""
    cells: dict[tuple[int, str | None], _Cell] = {}
    for attempt in attempts:
        key = label_of[attempt.job], _UNSTARTED if attempt.started_at is None else attempt.host
        cell = cells.get(key)
        if cell is None:
            cell = cells[key] = _Cell()
        cell.add(attempt, request_of(attempt))
    hosts = sorted({host for _, host in cells if host and host != _UNSTARTED})
    unknown = [None] if any(host is None for _, host in cells) else []
    return GroupedStatistics(
        total=_merge(list(cells.values()), jobs=sum(jobs_of_labels)),
        labels={
            label: _merge([cell for (each, _), cell in cells.items() if each == number], jobs=jobs_of_labels[number])
            for number, label in enumerate(labels)
        },
        hosts={
            host: _merge([cell for (_, each), cell in cells.items() if each == host]) for host in (*hosts, *unknown)
        },
    )


def _merge(cells: Sequence[_Cell], jobs: int | None = None) -> AttemptStatistics:
    """Return the statistics of some cells; `jobs` is given where jobs without attempts count."""
    succeeded = sum(cell.succeeded for cell in cells)
    causes = {
        cause: _lost_time([cell.badput[cause] for cell in cells if cause in cell.badput])
        for cause in sorted({cause for cell in cells for cause in cell.badput})
    }
    started = sum(cell.started for cell in cells)

    def distribution(name: str, of: int) -> Distribution:
        values = [value for cell in cells for value in getattr(cell, name)]
        return distribution_of(values, unknown=of - len(values))

    return AttemptStatistics(
        jobs=len(set().union(*(cell.jobs for cell in cells))) if jobs is None else jobs,
        attempts=sum(cell.attempts for cell in cells),
        succeeded=succeeded,
        unfinished=sum(cell.unfinished for cell in cells),
        retries=sum(cell.retries for cell in cells),
        wait_s=distribution("wait", started),
        run_s=distribution("run", succeeded),
        cpu_efficiency=distribution("efficiency", succeeded),
        peak_memory_b=distribution("memory", succeeded),
        memory_share=distribution("memory_share", succeeded),
        badput=_lost_time([values for cell in cells for values in cell.badput.values()]),
        badput_causes=causes,
        core_s=sum(cell.core_s for cell in cells),
        cpu_s=sum(cell.cpu_s for cell in cells),
    )


def _lost_time(rows: Sequence[Sequence[float]]) -> LostTime:
    attempts, run_s, core_s, unknown = (sum(column) for column in zip(*rows, strict=True)) if rows else (0, 0.0, 0.0, 0)
    return LostTime(attempts=int(attempts), run_s=run_s, core_s=core_s, unknown=int(unknown))
