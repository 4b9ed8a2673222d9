"""One executor of two: batches go where they belong, and the news of both are one answer."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import (
    Accepted,
    AttemptId,
    Batch,
    BatchMember,
    Executor,
    FindResult,
    Limits,
    PollResult,
    SubmitResult,
    WaitReasons,
)
from longshore.contract.service import CancelOutcome, Mark, RunPaths, Unreachable
from longshore.engine.job_wrapper import WRAPPER
from longshore.model.event import Started
from longshore.model.workflow import Request
from longshore.services.batch.client import BatchClient
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.pilots.allocations import PilotSettings
from longshore.services.batch.pilots.packing import CombinedExecutor, PackingRule, merge_waits
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService
from longshore.system.programs import ProgramResult

SMALL, LARGE = Request(cpus=1), Request(cpus=64)


class _Slurm:
    """Slurm's programs as a test has them."""

    def __init__(self) -> None:
        self.given: list[tuple[str, ...]] = []
        self.is_down = False

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        self.given.append(tuple(argv))
        status = 1 if self.is_down and argv[0] == "squeue" else 0
        out = "29\n" if argv[0] == "sbatch" else "SLURM_VERSION = 22.05.8\n" if "config" in argv else ""
        return ProgramResult(argv=tuple(argv), status=status, out=out, err="down" if status else "")


class _Pilots(Executor):
    """Pilots that answer as a test has them."""

    limits = Limits(max_batch=500, max_waiting=50_000)

    def __init__(self) -> None:
        self.given: list[Batch] = []
        self.marks: list[Mark] = []
        self.news: PollResult | Unreachable = PollResult(events=(), mark="p1")
        self.found: FindResult | Unreachable = FindResult({})
        self.cancelled: list[AttemptId] = []
        self.calls: list[str] = []

    def open(self, run: RunPaths, life: int) -> None:
        self.calls.append(f"open {life}")

    def submit(self, batch: Batch) -> SubmitResult:
        self.given.append(batch)
        return Accepted(batch.tag)

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        return self.found

    def poll(self, since: Mark) -> PollResult | Unreachable:
        self.marks.append(since)
        return self.news

    def cancel(self, attempts: Iterable[AttemptId], *, grace_s: float) -> CancelOutcome:
        self.cancelled += attempts
        return CancelOutcome(ended=2, alive=("a job",))

    def close(self) -> None:
        self.calls.append("close")


class _Site:
    """A run with both."""

    def __init__(self, tmp_path: Path) -> None:
        self.run = RunPaths(tmp_path / "run")
        (self.run.root / "wms").mkdir(parents=True)
        (self.run.root / BATCH_TEMPLATE).write_text(template_texts(SlurmService)["batch.sh"], "utf-8")
        shutil.copy(shipped_path("bin", "longshore-job"), self.run.root / WRAPPER)
        self.slurm, self.pilots = _Slurm(), _Pilots()
        jobs = BatchExecutor({"limits": {"max_waiting": 7}}, BatchClient(SlurmDialect({}), shell=self.slurm))
        self.executor = CombinedExecutor(jobs, self.pilots, PackingRule(pilot=PilotSettings()))
        self.executor.open(self.run, 1)

    @property
    def submitted(self) -> int:
        return sum(argv[0] == "sbatch" for argv in self.slurm.given)


def batch(tag: str, request: Request, packing: str = "pilot", job: int = 0) -> Batch:
    member = BatchMember(
        job=job, attempt=1, name="j", command="true", environment={}, working_directory="/", log="logs/j.log"
    )
    return Batch(id=tag, tag=tag, request=request, members=(member,), attributes={"packing": packing})


def test_batches_go_where_they_belong(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    assert site.executor.submit(batch("k1-1-1", SMALL)) == Accepted("k1-1-1")
    assert site.submitted == 0
    assert site.executor.submit(batch("k1-1-2", LARGE)) == Accepted("29")
    assert site.executor.submit(batch("k1-1-3", SMALL, packing="job")) == Accepted("29")
    assert [each.tag for each in site.pilots.given] == ["k1-1-1"]
    assert site.submitted == 2


def test_limits_are_apart(tmp_path: Path) -> None:
    executor = _Site(tmp_path).executor
    assert executor.limits.max_waiting == 7
    assert executor.packed_limits == Limits(max_batch=500, max_waiting=50_000)


def test_news_of_both_are_one_answer(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.executor.submit(batch("k1-1-1", LARGE, job=5))
    waiting = WaitReasons(reasons={"its pilot waits": (3,)})
    site.pilots.news = PollResult(
        events=[Started(j=3, a=1)], mark="p1", never_started=[(4, 1)], note="a note", waiting=waiting
    )
    first = site.executor.poll("")
    assert isinstance(first, PollResult)
    assert (first.events, first.never_started, first.note) == ([Started(j=3, a=1)], [(4, 1)], "a note")
    assert first.waiting is not None
    assert first.waiting.reasons["its pilot waits"] == (3,)
    # What does not change is not told again, and each has its own mark.
    site.pilots.news = PollResult(events=(), mark="p2")
    site.executor.poll(first.mark)
    assert site.pilots.marks == ["", "p1"]


def test_silence_of_one_is_a_note(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.pilots.news = Unreachable(why="the disk is away")
    answer = site.executor.poll("")
    assert isinstance(answer, PollResult)
    assert answer.note == "the workload manager does not answer: the disk is away"


def test_silence_of_both_is_silence(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.executor.submit(batch("k1-1-1", LARGE))
    site.slurm.is_down = True
    site.pilots.news = Unreachable(why="the disk is away")
    answers = [site.executor.poll("") for _ in range(20)]
    assert any(isinstance(answer, Unreachable) for answer in answers)


def test_batches_are_looked_up_in_both(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.executor.submit(batch("k1-1-1", LARGE))
    site.pilots.found = FindResult({"k1-1-2": frozenset({(7, 1)})}, lost=frozenset({"k1-1-3"}))
    found = site.executor.find(["k1-1-1", "k1-1-2", "k1-1-3"])
    assert isinstance(found, FindResult)
    assert found.taken == {"k1-1-1": frozenset({(0, 1)}), "k1-1-2": frozenset({(7, 1)})}
    assert found.lost == {"k1-1-3"}
    site.pilots.found = Unreachable(why="a pilot has not told")
    assert site.executor.find(["k1-1-1"]) == Unreachable(why="a pilot has not told")


def test_both_are_cancelled_and_closed(tmp_path: Path) -> None:
    site = _Site(tmp_path)
    site.executor.submit(batch("k1-1-1", LARGE))
    outcome = site.executor.cancel([(0, 1), (9, 1)], grace_s=1.0)
    assert outcome == CancelOutcome(ended=3, alive=("a job",))
    assert any(argv[0] == "scancel" for argv in site.slurm.given)
    assert site.pilots.cancelled == [(0, 1), (9, 1)]
    site.executor.close()
    assert site.pilots.calls == ["open 1", "close"]


def test_waits_are_merged() -> None:
    own = WaitReasons(reasons={"Priority": (1,), "Held": (2,)}, held=frozenset({"Held"}), hint="release it")
    packed = WaitReasons(reasons={"Priority": (3,)}, hopeless={"TooBig": "ask for less"})
    assert merge_waits(own, packed) == msgspec.structs.replace(
        own, reasons={"Held": (2,), "Priority": (1, 3)}, hopeless={"TooBig": "ask for less"}
    )
