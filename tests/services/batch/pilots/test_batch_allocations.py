"""Allocations of pilots: how they are numbered, submitted, looked up, reported and cancelled."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import (
    Accepted,
    AttemptId,
    Batch,
    Executor,
    FindResult,
    Limits,
    MemberEvent,
    PollResult,
    Rejected,
    SubmitResult,
    Throttled,
    Unsure,
    WaitReasons,
)
from longshore.contract.service import CancelOutcome, Mark, RunPaths, Unreachable
from longshore.engine.job_wrapper import WRAPPER
from longshore.model.event import Ended, Lost, Started
from longshore.model.states import Cause
from longshore.model.workflow import Request
from longshore.services.batch.dialect import StepLauncher
from longshore.services.batch.pilots.allocations import (
    AllocationNews,
    AllocationTerms,
    BatchAllocations,
    PilotLaunch,
    margin_s,
)
from longshore.services.batch.pilots.program import program_files
from longshore.services.batch.records import BATCH_TEMPLATE, BatchRecord, BatchRecords
from longshore.services.slurm.service import SlurmService
from longshore.testing.fakes import FakeClock

LAUNCH = PilotLaunch(
    python="/usr/bin/python3",
    cpus=4,
    memory_b=1000,
    walltime_s=3600.0,
    lease_s=120.0,
    idle_s=60.0,
)


class _Queue(Executor):
    """A workload manager that answers as a test has it."""

    def __init__(self, *answers: SubmitResult, limits: Limits | None = None) -> None:
        self.limits = limits or Limits(max_batch=10)
        self.answers = list(answers)
        self.events: list[MemberEvent] = []
        self.waiting: WaitReasons | None = None
        self.found: FindResult | Unreachable = Unreachable(why="not yet")
        self.silent = ""
        self.batches: list[Batch] = []
        self.cancelled: list[AttemptId] = []

    def open(self, run: RunPaths, life: int) -> None:
        self.records = BatchRecords(run)

    def submit(self, batch: Batch) -> SubmitResult:
        self.batches.append(batch)
        answer = self.answers.pop(0) if self.answers else Accepted("7")
        members = tuple((member.job, member.attempt) for member in batch.members)
        if isinstance(answer, Accepted | Unsure):
            number = 7 if isinstance(answer, Accepted) else None
            record = BatchRecord(tag=batch.tag, name=batch.tag, members=members, at=1.0, id=number)
            self.records.write(record, batch.members)
        return answer

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        return self.found

    def poll(self, since: Mark) -> PollResult | Unreachable:
        if self.silent:
            return Unreachable(why=self.silent)
        events, self.events = self.events, []
        return PollResult(events=events, mark="m", waiting=self.waiting)

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        self.cancelled += attempts
        return CancelOutcome(ended=0)

    def close(self) -> None:
        pass

    @property
    def numbers(self) -> list[list[int]]:
        return [[member.job for member in batch.members] for batch in self.batches]


class _Site:
    """The allocations of a run, and their queue."""

    def __init__(self, folder: Path, *answers: SubmitResult, limits: Limits | None = None, nodes: int = 1) -> None:
        self.run = RunPaths(folder / "run")
        if not self.run.root.exists():
            (self.run.root / "wms").mkdir(parents=True)
            (self.run.root / BATCH_TEMPLATE).write_text(template_texts(SlurmService)["batch.sh"], "utf-8")
            shutil.copy(shipped_path("bin", "longshore-job"), self.run.root / WRAPPER)
        self.clock = FakeClock()
        self.answers, self.limits, self.nodes = answers, limits, nodes

    def open(self, life: int = 1) -> tuple[BatchAllocations, _Queue]:
        queue = _Queue(*self.answers, limits=self.limits)
        launch = LAUNCH
        if self.nodes > 1:
            launcher = StepLauncher(prefix="srun -N 2", index="$SLURM_PROCID")
            launch = msgspec.structs.replace(LAUNCH, nodes=self.nodes, launcher=launcher)
        terms = AllocationTerms(request=Request(cpus=4), attributes={"queue": "long"}, settings={"nodeCount": 2})
        source = BatchAllocations(queue, terms, launch, token=lambda _run: "k3", clock=self.clock)
        source.open(self.run, life)
        return source, queue


def news(source: BatchAllocations) -> AllocationNews:
    answer = source.poll()
    assert isinstance(answer, AllocationNews)
    return answer


def ended(number: int, cause: Cause | None = None, code: int = 0, reason: str | None = None) -> Ended:
    return Ended(j=number, a=1, exit=code, cause=cause, reason=reason)


def test_allocations_are_an_array_with_numbers_from_one(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    source, queue = site.open()
    source.request(3)
    assert news(source).pending == [1, 2, 3]
    assert queue.numbers == [[1, 2, 3]]
    (batch,) = queue.batches
    assert (batch.tag, batch.attributes, batch.settings) == ("k3-1-p1", {"queue": "long"}, {"nodeCount": 2})
    assert [path.name for path in source.mailboxes(2)] == ["00002.0"]
    assert all(path.is_dir() for number in (1, 2, 3) for path in source.mailboxes(number))
    assert (site.run.pilots / WRAPPER).read_bytes() == (site.run.root / WRAPPER).read_bytes()
    program = {path.name: path.read_bytes() for path in site.run.pilots.joinpath("program").iterdir()}
    assert program == program_files()


def test_states_follow_the_queue(tmp_path: Path) -> None:
    source, queue = _Site(tmp_path).open()
    source.request(2)
    source.poll()
    queue.events = [Started(j=2, a=1)]
    queue.waiting = WaitReasons(reasons={"Priority": (1,)})
    found = news(source)
    assert (found.pending, found.running, found.waiting) == ([1], [2], {"Priority": (1,)})
    queue.events = [ended(2), Lost(j=1, a=1, why="its node is gone")]
    found = news(source)
    assert (found.pending, found.running) == ([], [])
    assert found.gone == {2: "the pilot ended", 1: "its node is gone"}
    assert not news(source).gone


def test_only_so_many_are_submitted_as_the_site_allows(tmp_path: Path) -> None:
    site = _Site(tmp_path, limits=Limits(max_batch=10, max_waiting=2, max_active=3))
    source, queue = site.open()
    source.request(5)
    assert news(source).pending == [1, 2, 3, 4, 5]
    assert queue.numbers == [[1, 2]]
    queue.events = [Started(j=1, a=1), Started(j=2, a=1)]
    source.poll()
    source.poll()
    assert queue.numbers == [[1, 2], [3]]


def test_a_throttled_allocation_is_submitted_again_after_the_pause(tmp_path: Path) -> None:
    site = _Site(tmp_path, Throttled("not now", 10.0))
    source, queue = site.open()
    source.request(1)
    source.poll()
    found = news(source)
    assert (found.pending, found.waiting) == ([1], {"not now": (1,)})
    assert found.note == "no allocation for pilots for now: not now"
    assert queue.numbers == [[1]]
    site.clock.advance(11)
    source.poll()
    assert queue.numbers == [[1], [1]]
    assert queue.batches[0].tag != queue.batches[1].tag


@pytest.mark.parametrize("hopeless", [True, False])
def test_a_refused_allocation_is_gone_and_the_next_one_waits(tmp_path: Path, hopeless: bool) -> None:
    site = _Site(tmp_path, Rejected("no such queue", hopeless=hopeless))
    source, queue = site.open()
    source.request(1)
    found = news(source)
    assert found.gone == {1: "no such queue"}
    assert found.refused == ("no such queue" if hopeless else "")
    assert found.note == "the newest allocation for pilots failed: no such queue"
    source.request(1)
    source.poll()
    assert queue.numbers == [[1]]
    site.clock.advance(16)
    assert news(source).refused == ""
    assert queue.numbers == [[1], [2]]


def test_pauses_between_failing_allocations_grow_and_end_with_one_that_runs(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    source, queue = site.open()
    pauses = []
    for number in range(1, 8):
        source.request(1)
        before = site.clock.elapsed()
        while len(queue.batches) < number:
            source.poll()
            site.clock.advance(1)
        pauses.append(site.clock.elapsed() - before)
        queue.events = [Started(j=number, a=1), ended(number, Cause.EXIT, 127)]
        assert news(source).gone == {number: "the allocation ended: exit code 127"}
    assert [round(pause / 15) for pause in pauses] == [0, 1, 2, 4, 8, 16, 20]
    source.request(1)
    site.clock.advance(300)
    source.poll()
    queue.events = [Started(j=8, a=1)]
    source.poll()
    site.clock.advance(31)
    queue.events = [ended(8, Cause.PREEMPTED, 0, "a better job came")]
    found = news(source)
    assert (found.gone, found.note) == ({8: "preempted: a better job came"}, "")


def test_an_unanswered_submission_is_looked_up_before_the_next(tmp_path: Path) -> None:
    source, queue = _Site(tmp_path, Unsure("no answer")).open()
    source.request(2)
    assert news(source).pending == [1, 2]
    source.request(1)
    assert news(source).pending == [1, 2, 3]
    assert len(queue.batches) == 1
    queue.found = FindResult({"k3-1-p1": frozenset({(1, 1)})})
    found = news(source)
    assert (found.pending, found.gone) == ([1, 3], {2: "the allocation was never submitted"})
    assert queue.numbers == [[1, 2], [3]]


def test_a_late_refusal_counts(tmp_path: Path) -> None:
    source, queue = _Site(tmp_path, Unsure("no answer")).open()
    source.request(1)
    source.poll()
    queue.found = FindResult({}, late={"k3-1-p1": Rejected("no")})
    found = news(source)
    assert (found.pending, found.gone) == ([], {1: "no"})


def test_an_unanswered_allocation_is_cancelled_once_it_is_found(tmp_path: Path) -> None:
    source, queue = _Site(tmp_path, Unsure("no answer")).open()
    source.request(1)
    source.poll()
    source.cancel([1])
    assert queue.cancelled == []
    queue.found = FindResult({"k3-1-p1": frozenset({(1, 1)})})
    source.poll()
    assert queue.cancelled == [(1, 1)]


def test_cancel_takes_back_what_was_not_submitted(tmp_path: Path) -> None:
    site = _Site(tmp_path, limits=Limits(max_batch=1))
    source, queue = site.open()
    source.request(2)
    source.poll()
    source.cancel([1, 2, 9])
    assert queue.cancelled == [(1, 1)]
    found = news(source)
    assert (found.pending, found.gone) == ([1], {2: "the allocation was never submitted"})
    queue.events = [ended(1, Cause.CANCELLED, 0)]
    # What was cancelled here is no sign of trouble.
    assert news(source).note == ""


def test_another_life_knows_the_allocations_of_the_first(tmp_path: Path) -> None:
    site = _Site(tmp_path, limits=Limits(max_batch=1))
    source, _ = site.open()
    source.request(3)
    source.poll()
    source.poll()
    later, queue = site.open(life=2)
    found = news(later)
    assert (found.pending, found.gone) == ([1, 2], {3: "it is over, or was never submitted"})
    later.request(1)
    assert news(later).pending == [1, 2, 4]
    assert queue.batches[0].tag == "k3-2-p1"


def test_another_life_looks_up_what_was_not_answered(tmp_path: Path) -> None:
    site = _Site(tmp_path, Unsure("no answer"))
    source, _ = site.open()
    source.request(1)
    source.poll()
    later, queue = site.open(life=2)
    assert news(later).pending == [1]
    queue.found = FindResult({})
    found = news(later)
    assert (found.pending, found.gone) == ([], {1: "the allocation was never submitted"})


def test_a_number_that_another_engine_took_is_not_given_again(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    (first, _), (second, queue) = site.open(), site.open(life=2)
    first.request(1)
    second.request(1)
    first.poll()
    assert news(second).pending == [2]
    assert queue.numbers == [[2]]


def test_silence_is_told_unless_there_is_news(tmp_path: Path) -> None:
    source, queue = _Site(tmp_path, Rejected("no")).open()
    queue.silent = "the controller is down"
    assert source.poll() == Unreachable(why="the controller is down")
    source.request(1)
    assert news(source).gone == {1: "no"}


def test_notes_say_what_holds_allocations(tmp_path: Path) -> None:
    source, queue = _Site(tmp_path).open()
    source.request(2)
    source.poll()
    queue.waiting = WaitReasons(
        reasons={"TooBig": (1,), "JobHeldUser": (2,)},
        held=frozenset({"JobHeldUser"}),
        hint="scontrol release ID lets them go",
        hopeless={"TooBig": "ask for less"},
    )
    assert news(source).note == (
        "pilots can never start (TooBig): ask for less; "
        "pilots are held by the workload manager (JobHeldUser); scontrol release ID lets them go"
    )


def test_the_script_starts_the_program(tmp_path: Path) -> None:
    assert LAUNCH.script(RunPaths(Path("/r 1/pilots")), 3) == (
        'PYTHON=/usr/bin/python3; [ -x "$PYTHON" ] || PYTHON=python3\n'
        """exec "$PYTHON" -I -S -B '/r 1/pilots/program/pilot.py' '/r 1/pilots/mail/00003.0' 0 4 1000 3540 120 60"""
    )


def test_every_node_has_a_mailbox(tmp_path: Path) -> None:
    site = _Site(tmp_path, nodes=2)
    source, queue = site.open()
    source.request(1)
    source.poll()
    assert [path.name for path in source.mailboxes(1)] == ["00001.0", "00001.1"]
    assert all(path.is_dir() for path in source.mailboxes(1))
    words = queue.batches[0].members[0].command[-1]
    assert words.startswith("exec srun -N 2 /bin/sh -c 'PYTHON=")
    assert '/00001."$SLURM_PROCID" "$SLURM_PROCID" 4 1000 3540 120 60' in words


def test_an_allocation_without_a_time_limit_has_no_margin(tmp_path: Path) -> None:
    endless = msgspec.structs.replace(LAUNCH, walltime_s=None)
    words = endless.script(RunPaths(tmp_path), 1).split()
    assert words[-3:] == ["-", "120", "60"]
    assert [margin_s(walltime_s) for walltime_s in (8.0, 60.0, 600.0, 86400.0)] == [4.0, 10.0, 30.0, 60.0]
