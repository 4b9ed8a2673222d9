"""Statistics of the attempts of one run or several: per label, per host and in total."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.errors import RunNotFoundError, UnknownRunError, UnknownServiceError, UnreachableError
from longshore.model.event import Attempt, AttemptMeasures, Event, Finished, Life, Restarted
from longshore.model.measurements import Distribution, distribution_of_lists
from longshore.model.report import DamagedError
from longshore.model.states import Cause
from longshore.model.tasks import collection_paused
from longshore.model.wording import NAME_LIKENESS, did_you_mean
from longshore.model.workflow import Request
from longshore.reports.attempts import AttemptRecords
from longshore.rundir.job_table import JobTable
from longshore.runstate.events import EventFollower, chunk_events
from longshore.runstate.open_run import OpenRun, first_names, map_index_errors, map_read_errors, open_run


class BadputSum(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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

    @property
    def known_run_s(self) -> float | None:
        """Seconds that they ran; ``None`` if these are unknown of all that ran."""
        return None if self.unknown and not self.run_s else self.run_s

    @property
    def known_core_s(self) -> float | None:
        """Core seconds that they ran; ``None`` if these are unknown of all that ran."""
        return None if self.unknown and not self.core_s else self.core_s


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
    unknown_run
        Attempts that ran and ended, and whose run time is unknown: `core_s` lacks them.
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
    badput: BadputSum = BadputSum()
    badput_causes: Mapping[Cause, BadputSum] = msgspec.field(default_factory=dict)
    core_s: float = 0.0
    unknown_run: int = 0
    cpu_s: float = 0.0

    @property
    def known_core_s(self) -> float | None:
        """Core seconds of all attempts that ended; ``None`` if these are unknown of all that ran."""
        return None if self.unknown_run and not self.core_s else self.core_s

    @property
    def known_cpu_s(self) -> float | None:
        """Processor time of all attempts that ended; ``None`` if some ran and it is unknown of all."""
        has_run = bool(self.core_s or self.unknown_run or self.succeeded)
        is_known = self.cpu_s or self.cpu_efficiency.known
        return None if has_run and not is_known else self.cpu_s


class GroupedStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of a run: of all attempts, per label in the order of the workflow, and per host by name.

    The host ``None`` has the attempts that started on an unknown host; attempts that did not start have no host, and
    are in no row of hosts.
    """

    total: AttemptStatistics
    labels: Mapping[str, AttemptStatistics]
    hosts: Mapping[str | None, AttemptStatistics]


_UNSTARTED: Final = ""
"""Key of the host of attempts that did not start."""


class _Values:
    """Values of some attempts, such as those of one label on one host; lists are in ascending order."""

    def __init__(self, attempts: Sequence[AttemptMeasures], request_of_job: Callable[[int], Request]) -> None:
        # Lists made by comprehensions take a third of the time of a loop that adds to them.
        self.jobs = {attempt.job for attempt in attempts}
        self.attempts = len(attempts)
        self.retries = sum([attempt.number > 1 for attempt in attempts])
        is_started = [attempt.started_at is not None for attempt in attempts]
        self.started = sum(is_started)
        waits = compress([attempt.wait_s for attempt in attempts], is_started)
        self.wait_s = sorted([wait for wait in waits if wait is not None])
        self.unfinished = sum([attempt.ended_at is None for attempt in attempts])
        requests = [attempt.requested or request_of_job(attempt.job) for attempt in attempts]
        core_s = [
            0.0 if attempt.run_s is None else attempt.run_s * request.cpus
            for attempt, request in zip(attempts, requests, strict=True)
        ]
        self.core_s = sum(core_s)
        self.unknown_run = sum([_has_unknown_run(attempt) for attempt in attempts if attempt.run_s is None])
        self.cpu_s = sum([attempt.cpu_s for attempt in attempts if attempt.cpu_s is not None])
        is_good = [attempt.is_success for attempt in attempts]
        good = list(compress(attempts, is_good))
        self.succeeded = len(good)
        self.run_s = sorted([attempt.run_s for attempt in good if attempt.run_s is not None])
        self.cpu_efficiency = sorted(
            [
                attempt.cpu_s / core
                for attempt, core in zip(good, compress(core_s, is_good), strict=True)
                if core and attempt.cpu_s is not None
            ]
        )
        self.peak_memory_b = sorted([attempt.peak_memory_b for attempt in good if attempt.peak_memory_b is not None])
        self.memory_share = sorted(
            [
                attempt.peak_memory_b / request.memory_b
                for attempt, request in zip(good, compress(requests, is_good), strict=True)
                if attempt.peak_memory_b is not None and request.memory_b
            ]
        )
        self.badput: dict[Cause, list[BadputSum]] = {}
        for attempt, core in zip(attempts, core_s, strict=True) if self.succeeded < self.attempts else ():
            if attempt.cause is not None and attempt.ended_at is not None:
                is_unknown = attempt.run_s is None and attempt.started_at is not None
                badput = BadputSum(attempts=1, run_s=attempt.run_s or 0.0, core_s=core, unknown=int(is_unknown))
                self.badput.setdefault(attempt.cause, []).append(badput)


def _has_unknown_run(attempt: AttemptMeasures) -> bool:
    """Return whether an attempt without a run time ran and ended: one that was never started took no time."""
    return attempt.ended_at is not None and (attempt.started_at is not None or attempt.cause is None)


def summarize_attempts(
    attempts: Iterable[AttemptMeasures],
    request_of_job: Callable[[int], Request],
    *,
    labels: Sequence[str],
    label_of: Sequence[int],
    jobs_of_labels: Sequence[int],
) -> GroupedStatistics:
    """Return the statistics of a run's attempts; the parameters are those of `RunAttempts`."""
    groups: defaultdict[tuple[int, str | None], list[AttemptMeasures]] = defaultdict(list)
    for attempt in attempts:
        groups[label_of[attempt.job], _UNSTARTED if attempt.started_at is None else attempt.host].append(attempt)
    parts: list[_Values] = []
    of_labels: list[list[_Values]] = [[] for _ in labels]
    of_hosts: defaultdict[str | None, list[_Values]] = defaultdict(list)
    for (label, host), group in groups.items():
        part = _Values(group, request_of_job)
        parts.append(part)
        of_labels[label].append(part)
        of_hosts[host].append(part)
    hosts = sorted(host for host in of_hosts if host)
    total = _merge(parts, jobs=sum(jobs_of_labels))
    if len(of_hosts) == 1 and hosts:
        # The one host has all attempts: only jobs without any make a difference.
        jobs = sum(len(part.jobs) for part in parts)
        by_host: dict[str | None, AttemptStatistics] = {hosts[0]: msgspec.structs.replace(total, jobs=jobs)}
    else:
        by_host = {host: _merge(of_hosts[host]) for host in (*hosts, *([None] if None in of_hosts else []))}
    return GroupedStatistics(
        total=total,
        labels={
            label: _merge(these, jobs=jobs)
            for label, these, jobs in zip(labels, of_labels, jobs_of_labels, strict=True)
        },
        hosts=by_host,
    )


def _merge(parts: Sequence[_Values], jobs: int | None = None) -> AttemptStatistics:
    """Return the statistics of several groups; `jobs` is given where jobs without attempts count."""
    succeeded = sum(part.succeeded for part in parts)
    started = sum(part.started for part in parts)
    causes = {
        cause: _sum_badput([each for part in parts for each in part.badput.get(cause, ())])
        for cause in sorted({cause for part in parts for cause in part.badput})
    }

    def distribution(lists: Sequence[Sequence[float]], attempts: int) -> Distribution:
        return distribution_of_lists(lists, unknown=attempts - sum(map(len, lists)))

    return AttemptStatistics(
        jobs=len(set().union(*(part.jobs for part in parts))) if jobs is None else jobs,
        attempts=sum(part.attempts for part in parts),
        succeeded=succeeded,
        unfinished=sum(part.unfinished for part in parts),
        retries=sum(part.retries for part in parts),
        wait_s=distribution([part.wait_s for part in parts], started),
        run_s=distribution([part.run_s for part in parts], succeeded),
        cpu_efficiency=distribution([part.cpu_efficiency for part in parts], succeeded),
        peak_memory_b=distribution([part.peak_memory_b for part in parts], succeeded),
        memory_share=distribution([part.memory_share for part in parts], succeeded),
        badput=_sum_badput(list(causes.values())),
        badput_causes=causes,
        core_s=sum(part.core_s for part in parts),
        unknown_run=sum(part.unknown_run for part in parts),
        cpu_s=sum(part.cpu_s for part in parts),
    )


def _sum_badput(parts: Sequence[BadputSum]) -> BadputSum:
    return BadputSum(
        attempts=sum(part.attempts for part in parts),
        run_s=sum(part.run_s for part in parts),
        core_s=sum(part.core_s for part in parts),
        unknown=sum(part.unknown for part in parts),
    )


_TURNS: Final = frozenset({Finished, Life, Restarted})
"""Kinds of events at which a run ends or goes on."""


class RunAttempts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Every attempt of a run, in the order in which they became known.

    `opened` is the run, and `table` has its jobs: `table.label(attempt.job)` is the label of an attempt. A journal
    that is damaged gives the attempts before the damage; `opened.damages` has it then. If nothing drives the run any
    more (`is_abandoned`), attempts without an end are abandoned, and were last heard of at `last_event_at`.
    """

    opened: OpenRun
    table: JobTable
    records: AttemptRecords
    is_abandoned: bool = False
    last_event_at: float = 0.0

    @cached_property
    def attempts(self) -> Sequence[Attempt]:
        """Every attempt, also those that `kept_jobs` have; `measures` takes a fraction of the time of making them."""
        with collection_paused():
            if not self.is_abandoned:
                return tuple(self.records.all())
            return tuple(
                replace(attempt, is_abandoned=True) if attempt.ended_at is None else attempt
                for attempt in self.records.all()
            )

    @cached_property
    def own_attempts(self) -> Sequence[Attempt]:
        """Attempts that this run made: it took no time for the results that it kept from another run."""
        if not (kept := self.records.kept):
            return self.attempts
        return tuple(attempt for attempt in self.attempts if (attempt.job, attempt.number) not in kept)

    @property
    def kept_jobs(self) -> list[int]:
        """Jobs whose results were kept from another run."""
        return [job for job, _ in self.records.kept]

    def measures(self) -> Iterator[AttemptMeasures]:
        """Yield the measures of every attempt that this run made."""
        return self.records.measures()

    @property
    def labels(self) -> Sequence[str]:
        """Labels, in the order of the workflow."""
        return self.table.labels

    @property
    def label_of(self) -> Sequence[int]:
        """Index of the label per job."""
        return self.table.label_of

    @cached_property
    def jobs_of_labels(self) -> Sequence[int]:
        """Number of jobs per label."""
        counts = [0] * len(self.labels)
        for label in self.label_of:
            counts[label] += 1
        return counts

    def request_of(self, attempt: Attempt) -> Request:
        """Return what an attempt requested: its own request, else that of its job."""
        return attempt.requested or self.request_of_job(attempt.job)

    def request_of_job(self, job: int) -> Request:
        """Return what a job requests, in its profile."""
        return self.table.settings(job).request


def read_attempts(opened: OpenRun) -> RunAttempts:
    """Read every attempt of a run; its workload manager is asked where it has the events.

    Raises
    ------
    RunUnreadableError
        The run directory is damaged beyond its journal, or cannot be read.
    UnreachableError
        The workload manager does not answer.
    """
    with map_read_errors(opened.run), collection_paused():
        table = JobTable(opened.run)
        follower = EventFollower(opened)
        events = follower.read()
        if follower.unreachable:
            raise UnreachableError(f"the events of run '{opened.card.id}' cannot be queried: {follower.unreachable}")
        intact = _IntactEvents(opened)
        records = AttemptRecords(range(len(table)), len(table))
        with map_index_errors(opened.run):
            intact.add_to(records, events)
            is_abandoned = records.has_unfinished and _is_abandoned(opened, intact)
            if is_abandoned:
                # An engine that ended meanwhile has written its last events.
                intact.add_to(records, follower.read())
        return RunAttempts(
            opened=opened, table=table, records=records, is_abandoned=is_abandoned, last_event_at=intact.last_at
        )


class _IntactEvents:
    """Takes events up to a damage, and notes the time of the last one."""

    def __init__(self, opened: OpenRun) -> None:
        self._opened = opened
        self.last_at = 0.0
        self.is_finished = False

    def add_to(self, records: AttemptRecords, events: Iterator[Event]) -> None:
        """Add the events before a damage to records."""
        try:
            for piece in chunk_events(events):
                records.add(piece)
                self.last_at = max(self.last_at, piece[-1].t)
                if not _TURNS.isdisjoint(map(type, piece)):
                    turns = [event for event in piece if type(event) in _TURNS]
                    self.is_finished = isinstance(turns[-1], Finished)
        except DamagedError:
            self._opened.look_for_damage()


def _is_abandoned(opened: OpenRun, events: _IntactEvents) -> bool:
    """Tell whether nothing drives a run any more; a run that is over need not be asked for."""
    if events.is_finished:
        return True
    try:
        return opened.is_alive() is False
    except UnknownServiceError:
        return False


_LAST = "@last"


class RunStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Statistics of the attempts of a run, or of those of some of its labels.

    `requests` has the request of each label's first job: what its first attempts ask for. `kept` is the number of jobs
    whose results were kept from another run.
    """

    opened: OpenRun
    grouped: GroupedStatistics
    requests: Mapping[str, Request]
    kept: int = 0


def read_statistics(opened: OpenRun, *, labels: Collection[str] = ()) -> RunStatistics:
    """Return the statistics of a run; `labels` restricts them to these.

    Raises `UnreachableError` if the workload manager has the events and does not answer.
    """
    with collection_paused():
        return summarize_run_attempts(read_attempts(opened), labels=labels)


def summarize_run_attempts(found: RunAttempts, *, labels: Collection[str] = ()) -> RunStatistics:
    """Return the statistics of attempts that were read; `labels` restricts them to these."""
    wanted = [label in labels if labels else True for label in found.labels]
    attempts = found.measures()
    if labels:
        attempts = (attempt for attempt in attempts if wanted[found.label_of[attempt.job]])
    grouped = summarize_attempts(
        attempts,
        found.request_of_job,
        labels=found.labels,
        label_of=found.label_of,
        jobs_of_labels=[number if chosen else 0 for number, chosen in zip(found.jobs_of_labels, wanted, strict=True)],
    )
    if labels:
        chosen = {label: each for label, each in grouped.labels.items() if label in labels}
        grouped = GroupedStatistics(total=grouped.total, labels=chosen, hosts=grouped.hosts)
    requests = {label: each[0] for label, each in found.table.requests_of_labels.items()}
    kept = sum(wanted[found.label_of[job]] for job in found.kept_jobs)
    return RunStatistics(opened=found.opened, grouped=grouped, requests=requests, kept=kept)


def find_runs_and_labels(
    references: Sequence[str], labels: Collection[str] = ()
) -> tuple[Sequence[OpenRun], Sequence[str]]:
    """Return the runs and labels that a user names; each of `references` is a run, or else a label of one of the runs.

    Without any run, the last one is meant. `labels` are certainly labels.

    Raises
    ------
    RunNotFoundError
        A name is neither a run nor a label of the runs.
    """
    runs: dict[str, OpenRun] = {}
    others: dict[str, RunNotFoundError] = {}
    for reference in references:
        try:
            opened = open_run(reference)
        except RunNotFoundError as error:
            others[reference] = error
        else:
            runs.setdefault(str(opened.run.root), opened)
    if not runs:
        opened = _last_run(others)
        runs[str(opened.run.root)] = opened
    known = list(dict.fromkeys(label for opened in runs.values() for label in opened.card.labels))
    named = _name_runs([opened.card.id for opened in runs.values()])
    for name, unknown in others.items():
        if name not in known:
            raise _unknown_name(name, unknown, known, named)
    for label in labels:
        if label not in known:
            raise RunNotFoundError(f"there is no label '{label}' in {named}", hint=_near_labels(label, known))
    return list(runs.values()), list(dict.fromkeys((*others, *labels)))


def _unknown_name(name: str, unknown: RunNotFoundError, labels: Sequence[str], named: str) -> RunNotFoundError:
    """Return the error for a name that is no label, and no run or one that cannot be opened."""
    if not isinstance(unknown, UnknownRunError) or name.startswith(("@", ".", "~")) or "/" in name:
        return unknown
    near = did_you_mean(name, labels, likeness=NAME_LIKENESS)
    if not near and unknown.hint.startswith("Did you mean"):
        near = unknown.hint
    return RunNotFoundError(
        f"'{name}' is neither a run nor a label of {named}", hint=near or _near_labels(name, labels)
    )


def _near_labels(name: str, labels: Sequence[str]) -> str:
    near = did_you_mean(name, labels, likeness=NAME_LIKENESS)
    return near or (f"Its labels: {first_names(sorted(labels))}." if labels else "It has no label.")


def _name_runs(ids: Sequence[str]) -> str:
    return f"run '{ids[0]}'" if len(ids) == 1 else f"the runs {first_names(ids)}"


def _last_run(others: Mapping[str, RunNotFoundError]) -> OpenRun:
    try:
        return open_run(_LAST)
    except RunNotFoundError:
        if not others:
            raise
        # It names what was typed.
        raise next(iter(others.values())) from None
