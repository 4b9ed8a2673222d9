"""What cannot be staged is told before a run is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longshore.contract.service import Context, Problem, RunPaths, Site
from longshore.engine.staging import check_staging, refuse_transfer, success_codes
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Job, JobRules, JobSettings, StagingRules, SuccessIf, Workflow

RULES = JobRules(staging=StagingRules(urls={"s3": "cp"}))
PATHS = ("data/in", "data/out", "/base/data/in", "/far/x", "s3://b/x", "gs://b/x", "/base/run.sh")
FILES = {path: File(name=path, path=path) for path in PATHS}


def context(**site: Any) -> Context:
    return Context(settings={}, site=Site(name="here", settings=site), paths=RunPaths(Path("/runs/1")), templates={})


def problems(command: Any = "true", *, rules: JobRules = RULES, **job: Any) -> list[Problem]:
    settings = JobSettings(label="a", rules=rules, working_directory="/base")
    found = Job(name="a1", label="a", command=command, settings=settings, **job)
    return list(check_staging(Workflow("w", Dag.by_name([found]), files=FILES), context()))


def test_a_job_that_declares_its_files_is_right() -> None:
    assert problems(inputs=("data/in", "/far/x", "s3://b/x"), outputs=("data/out",)) == []


@pytest.mark.parametrize(
    ("job", "words", "fatal"),
    [
        ({"inputs": ("data/in", "/base/data/in"), "outputs": ("data/out",)}, "would both be 'data/in'", True),
        ({"command": "./run.sh", "outputs": ("data/out",)}, "runs './run.sh', and with 'fileSystem: scratch'", True),
        ({"command": "bin/x | cat", "outputs": ("data/out",)}, "runs 'bin/x'", True),
        ({"inputs": ("data/in",)}, "declares no outputs", False),
        ({"inputs": ("gs://b/x",), "outputs": ("data/out",)}, "files at 'gs://' are not staged", False),
    ],
)
def test_a_mistake_is_told(job: dict[str, Any], words: str, fatal: bool) -> None:
    (problem,) = problems(**job)
    assert words in problem.message
    assert problem.fatal is fatal
    assert problem.hint


@pytest.mark.parametrize("command", ["./run.sh", ("./run.sh", "x"), "/bin/x", "echo x", ("<ENV:X>/run",)])
def test_a_program_is_an_input_or_has_an_absolute_path(command: Any) -> None:
    assert problems(command, inputs=("/base/run.sh",), outputs=("data/out",)) == []


def test_inputs_that_nothing_puts_into_the_run_directory_are_told_once(tmp_path: Path) -> None:
    (tmp_path / "here").touch()
    paths = ("here", "made", "data/recorded", "copied", "/far", "s3://b/x", "some/*.x", "a", "in/b", "c", "d")
    files = {path: File(name=path, path=path, transfer=path == "copied") for path in paths}
    settings = JobSettings(label="a", rules=RULES)
    jobs = [
        Job(name=f"j{number}", label="a", command="true", settings=settings, inputs=inputs, outputs=("made",))
        for number, inputs in enumerate((paths[:7], ("a", "here"), paths[7:]))
    ]
    ctx = Context(settings={}, site=Site(name="here"), paths=RunPaths(tmp_path), templates={})
    (problem,) = check_staging(Workflow("w", Dag.by_name(jobs), files=files), ctx)
    told = "4 inputs are not in the run directory, and no job makes them: 'a', 'in/b', 'c' and 1 more"
    assert (problem.message, problem.job, problem.fatal) == (told, "j1", False)
    (tmp_path / "in").mkdir()
    for path in ("a", "in/b", "c"):
        (tmp_path / path).touch()
    (one,) = check_staging(Workflow("w", Dag.by_name(jobs), files=files), ctx)
    assert one.message == "1 input is not in the run directory, and no job makes it: 'd'"
    assert "INPUT_MISSING" in one.hint


def test_jobs_that_declare_nothing_or_use_files_where_these_lie_are_not_checked() -> None:
    assert problems("./run.sh") == []
    assert problems("./run.sh", rules=JobRules(), inputs=("data/in",)) == []


def test_a_batch_system_transfers_no_files() -> None:
    (problem,) = refuse_transfer(context(fileSystem="transfer"), "Slurm")
    assert problem.message == "Slurm transfers no files, as 'fileSystem: transfer' wants"
    assert "fileSystem: scratch" in problem.hint
    assert not list(refuse_transfer(context(fileSystem="scratch"), "Slurm"))


@pytest.mark.parametrize(
    ("rules", "codes"),
    [
        (None, "0"),
        (SuccessIf(), "0"),
        (SuccessIf(exit=(0, 3)), "0 3"),
        (SuccessIf(log="done", any_of=True), "any"),
        (SuccessIf(state=("EXIT",)), "any"),
    ],
)
def test_outputs_are_published_after_the_exit_codes_of_a_success(rules: SuccessIf | None, codes: str) -> None:
    assert success_codes(rules) == codes
