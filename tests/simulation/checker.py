"""Checker of histories: holds what a run's files tell, and what users are told, against what really happened.

It reads events as every reader does, and draws its own conclusions from them.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec
from tests.simulation.commands import Silent, open_simulated

from longshore.contract.executor import AttemptId
from longshore.contract.service import RunPaths
from longshore.errors import LongshoreError
from longshore.model.event import (
    Ended,
    Event,
    Failed,
    Finished,
    Life,
    Lost,
    Refused,
    Restarted,
    Steer,
    Submitting,
)
from longshore.model.report import RunReport, Snapshot
from longshore.model.states import Cause, JobState
from longshore.reports.report import ReportBuilder
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import life_path, read_events
from longshore.runstate.verify import verify_run

if TYPE_CHECKING:
    from tests.simulation.disk import Disk
    from tests.simulation.plan import Plan
    from tests.simulation.service import SimulatedService
    from tests.simulation.truth import Truth
    from tests.simulation.universe import Universe

_UNNOTICED_S: Final = 0.1
_NUMBER: Final = re.compile(rb'"n":(\d+)')


class Witness(msgspec.Struct, frozen=True):
    """Everything that a history left."""

    plan: Plan
    run: RunPaths
    truth: Truth
    disk: Disk
    service: SimulatedService
    universe: Universe


class Told:
    """What the journal tells, folded without the engine's own code."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.open: dict[int, int] = {}
        self.batches: dict[str, tuple[AttemptId, ...]] = {}
        self.ends: dict[AttemptId, list[Ended | Lost]] = defaultdict(list)
        self.succeeded: dict[int, tuple[int, int]] = {}
        """Life and number of the event by which each job succeeded."""
        self.successes_before: dict[AttemptId, dict[int, tuple[int, int]]] = {}
        """What had succeeded when an attempt was submitted."""
        self.intents: dict[AttemptId, list[tuple[int, int]]] = defaultdict(list)
        self.failed: set[int] = set()
        self.finished: Finished | None = None
        self.is_cancelled = False
        self.bad_ends: Counter[int] = Counter()
        self.lost: Counter[int] = Counter()
        self.most_bad_ends: Counter[int] = Counter()
        self.most_lost: Counter[int] = Counter()
        self.broken: list[str] = []

    def fold(self, events: Iterator[Event]) -> None:
        """Take all events."""
        life = 0
        for event in events:
            if isinstance(event, Life):
                life = event.life
                self.finished = None
            elif isinstance(event, Submitting):
                self._submit(event, (life, event.n))
            elif isinstance(event, Refused):
                self._refuse(event)
            elif isinstance(event, Ended | Lost):
                self._end(event, (life, event.n))
            elif isinstance(event, Failed):
                self.failed.add(event.j)
            elif isinstance(event, Steer) and event.act == "cancel" and not event.select:
                self.is_cancelled = True
            elif isinstance(event, Restarted):
                self._restart(event)
            elif isinstance(event, Finished):
                self.finished = event

    def _submit(self, event: Submitting, place: tuple[int, int]) -> None:
        self.batches[event.b] = event.jobs
        for job, attempt in event.jobs:
            if job in self.open:
                self.broken.append(f"job {job}: attempt {attempt} is submitted while {self.open[job]} is open")
            if job in self.succeeded:
                self.broken.append(f"job {job} succeeded, and is submitted again")
            self.open[job] = attempt
            self.intents[job, attempt].append(place)
            self.successes_before[job, attempt] = dict(self.succeeded)

    def _refuse(self, event: Refused) -> None:
        for job, attempt in event.jobs if event.jobs is not None else self.batches.get(event.b, ()):
            if self.open.get(job) == attempt:
                del self.open[job]
                if event.spent:
                    self._count(job)

    def _end(self, event: Ended | Lost, place: tuple[int, int]) -> None:
        if self.open.get(event.j) != event.a:
            return
        del self.open[event.j]
        self.ends[event.j, event.a].append(event)
        if isinstance(event, Lost):
            self.lost[event.j] += 1
            self.most_lost[event.j] = max(self.most_lost[event.j], self.lost[event.j])
        elif event.cause is None:
            self.succeeded[event.j] = place
        else:
            self._count(event.j)

    def _count(self, job: int) -> None:
        self.bad_ends[job] += 1
        self.most_bad_ends[job] = max(self.most_bad_ends[job], self.bad_ends[job])

    def _restart(self, event: Restarted) -> None:
        self.finished, self.is_cancelled = None, False
        for job in event.jobs:
            self.succeeded.pop(job, None)
            self.failed.discard(job)
            self.bad_ends[job] = self.lost[job] = 0


def check_history(witness: Witness) -> list[str]:
    """Return the promises that were broken."""
    told = Told(len(witness.plan.jobs) + witness.plan.final)
    try:
        told.fold(read_events(witness.run.journal))
    except LongshoreError as error:
        return [f"the journal cannot be read: {error}"]
    durable = Durability(witness)
    return [
        *told.broken,
        *_check_attempts(witness, told),
        *_check_order(witness, told, durable),
        *_check_budgets(witness.plan, told),
        *_check_end(witness, told),
        *_check_snapshots(witness, told),
        *_check_report(witness, told),
        *_check_directory(witness),
    ]


class Durability:
    """When each event was on the disk."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._ends: dict[int, dict[int, int]] = {}

    def at(self, place: tuple[int, int]) -> float:
        """Return when the event of a life with a number was durable."""
        life, number = place
        path = life_path(self._witness.run.journal, life)
        if life not in self._ends:
            self._ends[life] = dict(_line_ends(path.read_bytes()))
        end = self._ends[life][number]
        synced = self._witness.disk.files[path.stat().st_ino].synced_at
        return min((at for at, length in synced if length >= end), default=float("inf"))


def _line_ends(text: bytes) -> Iterator[tuple[int, int]]:
    position = 0
    for line in text.splitlines(keepends=True):
        position += len(line)
        found = _NUMBER.search(line)
        # The number of a torn line may be torn as well.
        if found is not None and line.endswith(b"\n"):
            yield int(found[1]), position


def _check_attempts(witness: Witness, told: Told) -> Iterator[str]:
    truth = witness.truth
    for (job, attempt), starts in _known_starts(truth):
        name = f"attempt {attempt} of job {job}"
        if len(starts) > 1:
            yield f"{name} started {len(starts)} times"
        ends = told.ends.get((job, attempt), [])
        if len(ends) != 1:
            yield f"{name} started, and has {len(ends)} ends in the journal"
            continue
        real = truth.ends.get((job, attempt))
        if real is None:
            yield f"{name} still runs, and its end is in the journal"
        elif isinstance(ends[0], Ended) and (ends[0].cause is None) != real.succeeded:
            yield f"{name} {'succeeded' if real.succeeded else 'failed'}, and the journal tells the opposite"
        elif isinstance(ends[0], Lost) and real.is_knowable and not _may_be_lost(witness, starts[0]):
            yield f"{name} is told as lost, and its end could be known: {ends[0].why}"
    for attempt_id, ends in told.ends.items():
        if attempt_id not in truth.starts and any(isinstance(each, Ended) and each.cause is None for each in ends):
            yield f"attempt {attempt_id[1]} of job {attempt_id[0]} never started, and is told as a success"
    for job, attempt in truth.running():
        yield f"attempt {attempt} of job {job} still runs at the end"


def _known_starts(truth: Truth) -> Iterator[tuple[AttemptId, list[float]]]:
    """Yield the starts that the journal must have: not those before a loss of records that the user accepted."""
    for attempt, starts in truth.starts.items():
        if known := [at for at in starts if truth.accepted_s is None or at > truth.accepted_s]:
            yield attempt, known


def _may_be_lost(witness: Witness, since_s: float) -> bool:
    """Return whether all that could know how an attempt ended may be gone: those above its process, or the machine."""
    if witness.plan.world == "manager":
        return False
    kinds = {"keeper", "guard", "power", "pilot", "partition"}
    # A keeper may start one more before it sees that its pilot is gone.
    first_s = since_s - _UNNOTICED_S if witness.plan.world == "pilots" else since_s
    return any(at >= first_s and kind in kinds for at, kind in witness.universe.kills)


def _check_order(witness: Witness, told: Told, durable: Durability) -> Iterator[str]:
    """Check that intents and parents' ends were on the disk before each start."""
    parents = JobTable(witness.run).parents
    for (job, attempt), starts in _known_starts(witness.truth):
        name = f"attempt {attempt} of job {job}"
        places = told.intents.get((job, attempt), [])
        if not places or min(map(durable.at, places)) > starts[0]:
            yield f"{name} started before its intent was durable"
            continue
        succeeded = told.successes_before[job, attempt]
        for parent in parents[job]:
            if parent not in succeeded:
                yield f"{name} was submitted before its parent {parent} had succeeded"
            elif durable.at(succeeded[parent]) > starts[0]:
                yield f"{name} started before the success of its parent {parent} was durable"


def _check_budgets(plan: Plan, told: Told) -> Iterator[str]:
    for job, number in told.most_bad_ends.items():
        if number > plan.retries + 1:
            yield f"job {job} ended badly {number} times, and has {plan.retries} retries"
    for job, number in told.most_lost.items():
        if number > plan.retries_on_lost + 1:
            yield f"job {job} was lost {number} times, and is retried {plan.retries_on_lost} times when lost"


def _check_end(witness: Witness, told: Told) -> Iterator[str]:
    if told.finished is None:
        yield "the journal has no end"
        return
    if told.open:
        yield f"the run is over, and these attempts are not: {told.open}"
    everything = len(told.succeeded) == told.size
    state = told.finished.state
    if (state is JobState.SUCCEEDED) != everything and not (everything and told.is_cancelled):
        yield f"{len(told.succeeded)} of {told.size} jobs succeeded, and the run is {state}"
    if told.failed and state not in (JobState.FAILED, JobState.DELETED):
        yield f"{len(told.failed)} jobs failed, and the run is {state}"


def _check_snapshots(witness: Witness, told: Told) -> Iterator[str]:
    for text in witness.disk.snapshots:
        try:
            snapshot = msgspec.json.decode(text, type=Snapshot)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            yield f"a snapshot is unreadable: {error}"
            continue
        if sum(snapshot.counts.values()) != told.size:
            yield f"the counts of snapshot {snapshot.life}.{snapshot.n} add up to {sum(snapshot.counts.values())}"


def _check_report(witness: Witness, told: Told) -> Iterator[str]:
    opened = open_simulated(witness.run, witness.service)
    try:
        brief, full = (ReportBuilder(opened).build(2e9, details=details) for details in (False, True))
    except LongshoreError as error:
        yield f"there is no report: {error}"
        return
    for report in (brief, full):
        yield from _compare(report, told)
    for number, each in enumerate(full.jobs or ()):
        most = max((attempt for job, attempt in told.ends if job == number), default=0)
        if (each.state is JobState.SUCCEEDED) != (number in told.succeeded):
            yield f"the report has job {number} as {each.state}"
        if each.attempts < most:
            yield f"the report has {each.attempts} attempts of job {number}, and there were {most}"


def _check_directory(witness: Witness) -> Iterator[str]:
    """Check that `verify` finds no damage: whatever strikes, the program never takes its own traces for damage."""
    for damage in verify_run(open_simulated(witness.run, witness.service), Silent()).damages:
        yield f"verify tells of damage where there is none: {damage}"


def _compare(report: RunReport, told: Told) -> Iterator[str]:
    counts = report.counts
    if sum(counts.values()) != told.size or report.expected != told.size:
        yield f"the counts of the report add up to {sum(counts.values())}, not {told.size}"
    if told.finished is not None and report.state is not told.finished.state:
        yield f"the report has the run as {report.state}, the journal as {told.finished.state}"
    if counts.get(JobState.SUCCEEDED, 0) != len(told.succeeded):
        yield f"the report has {counts.get(JobState.SUCCEEDED, 0)} successes, not {len(told.succeeded)}"
    if counts.get(JobState.FAILED, 0) != len(told.failed):
        yield f"the report has {counts.get(JobState.FAILED, 0)} failed jobs, not {len(told.failed)}"
    badput = report.summary.badput if report.summary else {}
    lost = sum(isinstance(each, Lost) for ends in told.ends.values() for each in ends)
    if (badput[Cause.LOST].attempts if Cause.LOST in badput else 0) != lost:
        yield f"the report has not {lost} lost attempts: {json.dumps({str(k): v.attempts for k, v in badput.items()})}"
