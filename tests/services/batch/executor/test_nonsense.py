"""No program of a scheduler is called more often than a site allows, whatever the programs answer."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import Accepted, Batch, BatchMember
from longshore.contract.service import RunPaths, Unreachable
from longshore.engine.job_wrapper import WRAPPER
from longshore.model.event import Ended, Lost
from longshore.model.states import Cause
from longshore.model.workflow import Request
from longshore.services.batch.client import BURST, BatchClient, CallPace
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService
from longshore.system.programs import ProgramResult

FLOOR_S: Final = 2.0
ROUND_S: Final = 0.25
CONFIG: Final = "AccountingStorageType = accounting_storage/slurmdbd\nMaxArraySize = 1001\n"
SIZE: Final = 12


class Time:
    """Seconds since boot that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def pass_(self, seconds: float) -> None:
        self.now += seconds


class Programs:
    """Programs of a scheduler that answer what a test says, and are counted."""

    def __init__(self, answer: Callable[[Sequence[str]], tuple[int | None, str, str]]) -> None:
        self._answer = answer
        self.calls: Counter[str] = Counter()
        self._job = 0

    def run(self, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, stdin: str = "") -> ProgramResult:
        self.calls[argv[0]] += 1
        if argv[0] == "sbatch":
            self._job += 1
            return ProgramResult(argv=tuple(argv), status=0, out=f"{self._job}\n")
        if argv[-1] == "config":
            return ProgramResult(argv=tuple(argv), status=0, out=CONFIG)
        status, out, err = self._answer(argv)
        return ProgramResult(argv=tuple(argv), status=status, out=out, err=err)


def garbage(argv: Sequence[str]) -> tuple[int | None, str, str]:
    return 0, "\x00|||\n1_[|x|PENDING|\n999999999999999999999_[1-]|1|?|?|?|?|?\n\x1f\x1f\x1f\n" * 3, "?"


def failure(argv: Sequence[str]) -> tuple[int | None, str, str]:
    return 1, "", f"{argv[0]}: error: Unspecified error"


def nothing(argv: Sequence[str]) -> tuple[int | None, str, str]:
    return 0, "", ""


def unknown(argv: Sequence[str]) -> tuple[int | None, str, str]:
    """The queue and accounting are empty, and the controller knows no job."""
    return (1, "Job 1_0 not found", "") if argv[0] == "scontrol" else (0, "", "")


def silence(argv: Sequence[str]) -> tuple[int | None, str, str]:
    return None, "", ""


def half_rows(argv: Sequence[str]) -> tuple[int | None, str, str]:
    """Half of the members have rows, others are cut in the middle; cancelling changes nothing."""
    rows = [f"1_{index}|1|PENDING|Resources|N/A||run" for index in range(SIZE)]
    return (0, "\n".join(row if index % 2 else row[:9] for index, row in enumerate(rows)), "")


def anything() -> Callable[[Sequence[str]], tuple[int | None, str, str]]:
    chance = random.Random(17)
    kinds = (garbage, failure, nothing, unknown, silence, half_rows)

    def answer(argv: Sequence[str]) -> tuple[int | None, str, str]:
        return chance.choice(kinds)(argv)

    return answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    """Time since boot that stands still for all of the code."""
    made = Time()
    monkeypatch.setattr(time, "clock_gettime", lambda _: made.now)
    return made


def executor_of(folder: Path, programs: Programs, clock: Time) -> BatchExecutor:
    """An executor with an array of jobs and five single ones; none may wait long."""
    run = RunPaths(folder / "run")
    (run.root / "wms").mkdir(parents=True)
    (run.root / BATCH_TEMPLATE).write_text(template_texts(SlurmService)["batch.sh"], "utf-8")
    shutil.copy(shipped_path("bin", "longshore-job"), run.root / WRAPPER)
    own = {"pollInterval": FLOOR_S, "pollCeiling": FLOOR_S, "maxpendtime": 0.001}
    client = BatchClient(SlurmDialect(own), shell=programs)
    executor = BatchExecutor({"slurm": own}, client)
    client.pace = CallPace(FLOOR_S, sleep=clock.pass_)
    executor.open(run, 1)
    for tag, jobs in (("a", range(SIZE)), *((f"s{job}", (job,)) for job in range(SIZE, SIZE + 5))):
        members = tuple(
            BatchMember(
                job=job, attempt=1, name=f"j{job}", command="true", environment={}, working_directory="/", log="log"
            )
            for job in jobs
        )
        accepted = executor.submit(Batch(id=tag, tag=tag, request=Request(), members=members))
        assert isinstance(accepted, Accepted)
    return executor


def drive(executor: BatchExecutor, clock: Time, seconds: float) -> list[Ended | Lost]:
    """Poll four times a second for a simulated time; return the ends."""
    ends: list[Ended | Lost] = []
    end = clock.now + seconds
    while clock.now < end:
        answer = executor.poll("")
        if not isinstance(answer, Unreachable):
            ends += [event for event in answer.events if isinstance(event, Ended | Lost)]
        clock.pass_(ROUND_S)
    return ends


@pytest.mark.parametrize("answer", [garbage, failure, nothing, unknown, silence, half_rows, anything()])
def test_no_loop_exceeds_the_pace_of_the_site(
    tmp_path: Path, clock: Time, answer: Callable[[Sequence[str]], tuple[int | None, str, str]]
) -> None:
    programs = Programs(answer)
    began = clock.now
    executor = executor_of(tmp_path, programs, clock)
    drive(executor, clock, 150.0)
    executor.cancel([(job, 1) for job in range(SIZE + 5)], grace_s=1.0)
    ends = drive(executor, clock, 150.0)
    most = (clock.now - began) / FLOOR_S + BURST
    assert {program: calls for program, calls in programs.calls.items() if calls > most} == {}
    assert all(isinstance(end, Lost) or end.cause is not None for end in ends), "nothing succeeded"


def test_expired_jobs_that_nobody_knows_are_not_lost(tmp_path: Path, clock: Time) -> None:
    first = {"squeue": "".join(f"1_{index}|1|PENDING|Resources|N/A||run\n" for index in range(SIZE))}
    programs = Programs(lambda argv: (0, first.pop("squeue", ""), "") if argv[0] == "squeue" else unknown(argv))
    executor = executor_of(tmp_path, programs, clock)
    ends = drive(executor, clock, 120.0)
    array = [end for end in ends if end.j < SIZE]
    assert [end.cause for end in array if isinstance(end, Ended)] == [Cause.PEND_TIMEOUT] * SIZE
    assert programs.calls["scancel"] == 1, "one call, with one number for the array"


def test_calls_of_a_program_wait_for_their_turn_after_a_burst() -> None:
    clock, pauses = Time(), list[float]()
    pace = CallPace(2.0, now=lambda: clock.now, sleep=pauses.append)
    for _ in range(BURST):
        pace.wait("squeue")
    assert pauses == []
    pace.wait("squeue")
    pace.wait("squeue")
    pace.wait("scontrol")
    assert pauses == [2.0, 4.0]
    clock.pass_(100.0)
    pace.wait("squeue")
    assert pauses == [2.0, 4.0]
