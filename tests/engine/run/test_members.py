"""What an executor gets of an attempt follows from the job's record, its profile and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.contract.service import RunPaths
from longshore.engine.run.members import MemberBuilder
from longshore.model.tasks import Dag
from longshore.model.workflow import MIB, Job, JobSettings, Request, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.batch_records import life_of_tag, tag_prefix
from longshore.rundir.job_table import JobTable
from longshore.system.atomic import create_file


def one_job(root: Path, job: Job) -> MemberBuilder:
    root.mkdir(exist_ok=True)
    run = RunPaths(root)
    create_file(run.workflow, workflow_lines(Workflow("one", Dag.by_name([job]))))
    return MemberBuilder(JobTable(run))


def test_a_member_has_all_that_its_start_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "inherited")
    settings = JobSettings(label="big", environment={"WHO": "label", "KEPT": "k"}, working_directory="/data")
    command = ("run", "<ENV:WHO>", "<ENV:OUTER>/<ENV:NOBODY>", "<ENV:LONGSHORE_JOB_ATTEMPT>")
    job = Job(name="x/y", label="big", command=command, settings=settings, environment={"WHO": "job"})
    builder = one_job(tmp_path / "run", job)
    member = builder.build(0, 3, Request(cpus=2, memory_b=64 * MIB, resources={"gpu-a": 1}))
    assert member.command == ("run", "job", "inherited/", "3")
    assert (member.job, member.attempt, member.name, member.working_directory) == (0, 3, "x/y", "/data")
    assert member.log == "logs/big/00/x_y.3.log"
    assert member.environment == {
        "WHO": "job",
        "KEPT": "k",
        "LONGSHORE_JOB_NAME": "x/y",
        "LONGSHORE_JOB_LABEL": "big",
        "LONGSHORE_JOB_ATTEMPT": "3",
        "LONGSHORE_JOB_RUN_DIR": str(tmp_path / "run"),
        "LONGSHORE_JOB_CPUS": "2",
        "LONGSHORE_JOB_MEMORY_MB": "64",
        "LONGSHORE_JOB_RESOURCE_GPU_A": "1",
    }


def test_values_of_the_environment_take_what_a_job_inherits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("OUTER", "a\udcff b")
    monkeypatch.delenv("NOBODY", raising=False)
    shared = {"PATH": "<ENV:PWD>/bin:<ENV:PATH>", "A": "<ENV:OUTER>", "B": "<ENV:A><ENV:NOBODY>."}
    settings = JobSettings(label="l", environment=shared, working_directory="/data/")
    job = Job(
        name="<ENV:OUTER>",
        label="l",
        command=("<ENV:PATH>", "<ENV:PWD>"),
        settings=settings,
        environment={"N": "<ENV:LONGSHORE_JOB_NAME> <ENV:LONGSHORE_JOB_ATTEMPT>"},
    )
    builder = one_job(tmp_path / "run", job)
    member = builder.build(0, 2, Request())
    assert member.environment["PATH"] == "/data/bin:/usr/bin"
    assert member.environment["A"] == "a\udcff b"
    assert member.environment["B"] == "."
    assert member.environment["N"] == "<ENV:OUTER> 2"
    assert member.environment["LONGSHORE_JOB_NAME"] == "<ENV:OUTER>"
    assert member.command == ("/data/bin:/usr/bin", "/data")


def test_the_run_directory_is_where_a_job_starts_unless_told_otherwise(tmp_path: Path) -> None:
    builder = one_job(tmp_path, Job(name="x", label="l", command="true", settings=JobSettings(label="l")))
    assert builder.build(0, 1, Request()).working_directory == str(tmp_path)


def test_the_life_of_a_batch_is_in_its_tag() -> None:
    assert life_of_tag(f"{tag_prefix('a-run', 12)}-3") == 12
    assert life_of_tag("no-such-tag") is None
