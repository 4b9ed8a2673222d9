"""The engine's table of jobs: what stands in the workflow's lines, and what is handed over of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.contract.context import RunPaths
from longshore.engine.jobs import JobTable
from longshore.errors import RunUnreadableError
from longshore.model.codec import workflow_lines
from longshore.model.job import Job, JobSettings
from longshore.model.request import MIB, Request
from longshore.model.workflow import Workflow
from longshore.testing.fakes import write_run
from longshore.world.files import create_file


def test_order_labels_and_parents_are_those_of_the_lines(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "b_1": ("a_1",), "a_2": (), "b_2": ("a_1", "a_2")}, final="last")
    table = JobTable(run)
    names = [table[job].name for job in range(len(table))]
    assert sorted(names[:4]) == ["a_1", "a_2", "b_1", "b_2"]
    assert names[4] == "last"
    assert table.header.final
    assert {names[job]: {names[parent] for parent in table.parents[job]} for job in range(5)} == {
        "a_1": set(),
        "a_2": set(),
        "b_1": {"a_1"},
        "b_2": {"a_1", "a_2"},
        "last": set(),
    }
    assert [table.labels[label] for label in table.label_of] == [name[:1] if name[1] == "_" else name for name in names]
    assert [table.settings(job).label for job in range(5)] == [table.labels[label] for label in table.label_of]
    table.close()


def one_job(root: Path, job: Job) -> JobTable:
    root.mkdir(exist_ok=True)
    run = RunPaths(root)
    create_file(run.workflow, workflow_lines(Workflow("one", [job], [])))
    return JobTable(run)


def test_a_member_has_all_that_its_start_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "inherited")
    settings = JobSettings(label="big", environment={"WHO": "label", "KEPT": "k"}, working_directory="/data")
    command = ("run", "<ENV:WHO>", "<ENV:OUTER>/<ENV:NOBODY>", "<ENV:LONGSHORE_JOB_ATTEMPT>")
    job = Job(name="x/y", label="big", command=command, settings=settings, environment={"WHO": "job"})
    table = one_job(tmp_path / "run", job)
    member = table.member(0, 3, Request(cpus=2, memory_b=64 * MIB, resources={"gpu-a": 1}))
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
    table.close()


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
    table = one_job(tmp_path / "run", job)
    member = table.member(0, 2, Request())
    assert member.environment["PATH"] == "/data/bin:/usr/bin"
    assert member.environment["A"] == "a\udcff b"
    assert member.environment["B"] == "."
    assert member.environment["N"] == "<ENV:OUTER> 2"
    assert member.environment["LONGSHORE_JOB_NAME"] == "<ENV:OUTER>"
    assert member.command == ("/data/bin:/usr/bin", "/data")
    table.close()


def test_the_run_directory_is_where_a_job_starts_unless_told_otherwise(tmp_path: Path) -> None:
    table = one_job(tmp_path, Job(name="x", label="l", command="true", settings=JobSettings(label="l")))
    assert table.member(0, 1, Request()).working_directory == str(tmp_path)
    table.close()


def test_a_missing_workflow_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunUnreadableError, match=r"workflow\.jsonl' cannot be read"):
        JobTable(RunPaths(tmp_path))


def test_a_workflow_cut_anywhere_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",), "a_3": ("a_2",)})
    whole = run.workflow.read_bytes()
    for length in range(len(whole)):
        run.workflow.write_bytes(whole[:length])
        with pytest.raises(RunUnreadableError):
            JobTable(run)


def test_a_line_that_is_no_job_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",)})
    lines = run.workflow.read_bytes().splitlines(keepends=True)
    run.workflow.write_bytes(lines[0] + b'{"name": "a_1", "s": "none"}\n' + lines[2])
    with pytest.raises(RunUnreadableError, match="a line that is no job"):
        JobTable(run)
