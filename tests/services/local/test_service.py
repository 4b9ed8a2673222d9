"""What the local service can give, what it refuses beforehand, and how it answers when no keeper can be started."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from longshore.contract.executor import Batch, BatchMember, Rejected
from longshore.contract.service import Context, PingReport, RunPaths, Site
from longshore.model.tasks import Dag
from longshore.model.workflow import MIB, Job, JobSettings, Request, Workflow
from longshore.services.local.executor import LocalExecutor
from longshore.services.local.machine import pool_capacity, probe_machine
from longshore.services.local.service import LocalService
from longshore.system.host import usable_cpus

CTX = Context(settings={}, site=Site(name="here"), paths=RunPaths(Path("/runs/x")), templates={})


@pytest.fixture(autouse=True)
def ordinary_process() -> Iterator[None]:
    """Undo what an executor makes of its process."""
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


def with_capacity(**capacity: int) -> Context:
    return msgspec.structs.replace(CTX, probe=PingReport(service="local", ok=True, message="ready", capacity=capacity))


def workflow(*requests: Request) -> Workflow:
    jobs = [
        Job(name=f"job_{number}", label=f"l{number}", command="true", settings=JobSettings(label="l", request=request))
        for number, request in enumerate(requests)
    ]
    return Workflow("w", Dag.by_name(jobs))


def test_the_machine_is_the_pool() -> None:
    capacity = pool_capacity({}, {})
    assert capacity["cpus"] == len(os.sched_getaffinity(0))
    assert capacity["memory"] > 2**28
    assert "disk" not in capacity
    assert pool_capacity({"cpus": 3, "gpu": 2}, {}) == {"cpus": 3, "memory": capacity["memory"], "gpu": 2}


def test_what_fits_exactly_is_no_problem() -> None:
    request = Request(cpus=4, memory_b=8 * MIB, resources={"gpu": 2})
    assert LocalService().check(workflow(request), with_capacity(cpus=4, memory=8 * MIB, gpu=2)) == []


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (Request(cpus=5), "job 'job_0' asks for 5 of 'cpus', and there are only 4"),
        (Request(memory_b=9 * MIB), "job 'job_0' asks for 9 MiB of 'memory', and there are only 8 MiB"),
        (Request(disk_b=9 * MIB), "job 'job_0' asks for 9 MiB of 'disk', and there are only 1 MiB"),
        (Request(resources={"gpu": 3}), "job 'job_0' asks for 3 of 'gpu', and there are only 2"),
        (Request(resources={"gpus": 1}), "job 'job_0' asks for 1 of 'gpus', which this machine does not count"),
    ],
)
def test_what_can_never_be_granted_is_named(request_: Request, said: str) -> None:
    ctx = with_capacity(cpus=4, memory=8 * MIB, disk=MIB, gpu=2)
    problems = LocalService().check(workflow(request_), ctx)
    assert [(problem.message, problem.job, problem.fatal) for problem in problems] == [(said, "job_0", True)]
    assert "resources: {" in problems[0].hint


def test_disk_that_is_not_counted_can_be_asked_for() -> None:
    (note,) = LocalService().check(workflow(Request(disk_b=2**50)), with_capacity(cpus=4))
    assert not note.fatal
    assert "ignores 'requestDisk' without 'resources: {disk: ...}'" in note.message
    assert LocalService().check(workflow(Request(disk_b=MIB)), with_capacity(cpus=4, disk=MIB)) == []


def test_jobs_of_one_profile_are_judged_once() -> None:
    shared = JobSettings(label="l", request=Request(cpus=9))
    jobs = [Job(name=f"job_{number}", label="l", command="true", settings=shared) for number in range(5)]
    assert len(LocalService().check(Workflow("w", Dag.by_name(jobs)), with_capacity(cpus=4))) == 1


def test_without_a_probe_nothing_can_be_judged() -> None:
    assert LocalService().check(workflow(Request(cpus=10**6)), CTX) == []


def test_the_probe_says_what_there_is_and_how_engines_are_detached() -> None:
    report = LocalExecutor({"pool": {"cpus": 3, "memory": 5 * MIB}}).probe()
    assert report.ok
    assert report.capacity == {"cpus": 3, "memory": 5 * MIB}
    assert report.details["cpus"] == "3"
    assert report.details["memory"] == "5 MiB"
    assert report.details["host"] == os.uname().nodename
    assert report.details["state"].endswith("/longshore")
    assert report.details["engine"].startswith("in a ")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "1"},
            "this batch job (SLURM_CPUS_ON_NODE)",
        ),
        ({"SGE_TASK_ID": "undefined", "NSLOTS": "1"}, "share the 1 processor of this batch job (NSLOTS)"),
        ({"NSLOTS": "1"}, ""),
        ({"SLURM_JOB_ID": "7", "SLURM_CPUS_ON_NODE": "100000"}, ""),
    ],
)
def test_in_a_batch_job_its_processors_are_those_of_the_job(
    variables: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = probe_machine({})
    assert words in found.details.get("job", "")
    assert (found.capacity or {})["cpus"] == (1 if words else usable_cpus())


def test_a_keeper_that_cannot_be_started_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = LocalExecutor({})
    executor.open(RunPaths(tmp_path), 1)
    member = BatchMember(
        job=0, attempt=1, name="x", command="true", environment={}, working_directory="/", log="logs/x.log"
    )
    batch = Batch(id="1", tag="t", request=Request(), members=(member,))
    for program in ("/bin/false", "/no/such/python"):
        monkeypatch.setattr(sys, "executable", program)
        answer = executor.submit(batch)
        assert isinstance(answer, Rejected)
        assert "the keeper cannot be started: " in answer.why
    executor.close()
