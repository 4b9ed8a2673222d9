"""What is rendered for use by hand runs every job exactly as the keeper would."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.service import Context, RunPaths, Site
from longshore.engine.run.members import MemberBuilder
from longshore.model.tasks import Dag, File
from longshore.model.workflow import MIB, Job, JobSettings, Request, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import write_rendered
from longshore.services.local import render
from longshore.services.local.executor import LocalExecutor
from longshore.services.local.service import LocalService
from longshore.system.atomic import create_file
from longshore.testing.conformance.executor import HOSTILE_VALUES, ExecutorDriver

SHELLS = [shell for shell in ("/bin/dash", "/bin/bash") if Path(shell).exists()]

TELL = """
import json, os, sys
tmp = os.environ.pop("TMPDIR")
mine = {name: text for name, text in os.environ.items() if name.startswith(("LONGSHORE_JOB_", "MY"))}
mine.pop("LONGSHORE_JOB_INDEX", None)
mine.pop("LONGSHORE_JOB_RUN_MARK", None)
said = {"argv": sys.argv[2:], "environment": mine, "cwd": os.getcwd(), "empty": os.listdir(tmp) == []}
with open(sys.argv[1], "w") as file:
    json.dump(said, file)
sys.exit(len(sys.argv) % 5)
"""


@pytest.fixture(autouse=True)
def ordinary_process() -> Iterator[None]:
    """Undo what an executor makes of its process."""
    yield
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


def context(root: Path) -> Context:
    templates = template_texts(LocalService) | {
        "longshore-job": shipped_path("bin", "longshore-job").read_text("utf-8")
    }
    return Context(settings={}, site=Site(name="here"), paths=RunPaths(root), templates=templates)


def settings(label: str, **more: Any) -> JobSettings:
    return JobSettings(label=label, **more)


def test_jobs_of_the_same_settings_have_their_own_names_and_variables() -> None:
    alike = settings("x", environment={"WHO": "it is <ENV:LONGSHORE_JOB_NAME>"})
    plain = settings("y", environment={"A": "1\t2"})
    jobs = [
        Job(name="a", label="x", command="true", settings=alike),
        Job(name="b'", label="x", command="true", settings=alike),
        Job(name="c", label="y", command="true", settings=plain),
        Job(name="d", label="y", command="true", settings=plain, environment={"A": "3"}),
        Job(name="e", label="y", command="true", settings=plain),
    ]
    lines = "".join(render.table(Workflow("w", Dag.by_name(jobs)), context(Path("/r")))).splitlines()
    variables = [line.split("\t")[5].partition(" LONGSHORE_JOB_LABEL=")[0] for line in lines]
    assert variables == [
        "'WHO=it is a' LONGSHORE_JOB_NAME=a",
        """'WHO=it is b'"'"'' 'LONGSHORE_JOB_NAME=b'"'"''""",
        "'A=1\\t2' LONGSHORE_JOB_NAME=c",
        "A=3 LONGSHORE_JOB_NAME=d",
        "'A=1\\t2' LONGSHORE_JOB_NAME=e",
    ]


def test_the_table_of_jobs() -> None:
    brew = settings(
        "brew",
        request=Request(cpus=2, memory_b=64 * MIB, disk_b=3 * MIB, resources={"gpu-a": 1}),
        environment={"KIND": "green tea", "ODD-NAME": "1"},
        working_directory="/pots",
    )
    jobs = [
        Job(name="a/1", label="brew", command=("pour", "it's", "<ENV:KIND>"), settings=brew),
        Job(name="b", label="drink", command="sip\t'a\nb' \\ <FILE:cup>", settings=settings("drink")),
    ]
    workflow = Workflow("tea", Dag.by_name(jobs, [("a/1", "b")]), files={"cup": File(name="cup", path="data/my cup")})
    text = "".join(render.table(workflow, context(Path("/runs/tea"))))
    first = (
        "0\ta/1\t1\t/pots\t/runs/tea/logs/brew/00/a_1.1.log\t"
        "'KIND=green tea' ODD-NAME=1 LONGSHORE_JOB_NAME=a/1 LONGSHORE_JOB_LABEL=brew LONGSHORE_JOB_ATTEMPT=1 "
        "LONGSHORE_JOB_RUN_DIR=/runs/tea LONGSHORE_JOB_CPUS=2 LONGSHORE_JOB_MEMORY_MB=64 LONGSHORE_JOB_DISK_MB=3 "
        "LONGSHORE_JOB_RESOURCE_GPU_A=1\t"
        "pour 'it'\"'\"'s' \"${KIND-}\"\n"
    )
    second = (
        "1\tb\t1\t/runs/tea\t/runs/tea/logs/drink/00/b.1.log\t"
        "LONGSHORE_JOB_NAME=b LONGSHORE_JOB_LABEL=drink LONGSHORE_JOB_ATTEMPT=1 LONGSHORE_JOB_RUN_DIR=/runs/tea "
        "LONGSHORE_JOB_CPUS=1\t"
        "sip\\t'a\\nb' \\\\ \"${LONGSHORE_JOB_RUN_DIR-}\"'/data/my cup'\n"
    )
    assert text == first + second


def test_the_files_and_their_modes() -> None:
    ctx = context(Path("/runs/tea"))
    files = list(render.render_files(Workflow("tea", Dag.by_name([])), ctx))
    assert [(str(file.path), file.mode) for file in files] == [
        ("wms/jobs.tsv", 0o644),
        ("wms/run-job", 0o755),
        ("wms/longshore-job", 0o755),
    ]
    assert ["".join(file.chunks()) for file in files] == [
        "",
        *(ctx.templates[name] for name in ("run-job", "longshore-job")),
    ]


def workflow(root: Path) -> Workflow:
    """Jobs that say what they were given, each in ``said-<name>`` beside the run directory."""

    def tell(name: str, *words: str) -> tuple[str, ...]:
        return (sys.executable, "-c", TELL, f"<ENV:LONGSHORE_JOB_RUN_DIR>/../said-{name}", *words)

    hostile = settings("hostile", environment={f"MY_{number}": value for number, value in enumerate(HOSTILE_VALUES)})
    folder = root.parent / 'it\'s a "folder"'
    folder.mkdir(exist_ok=True)
    elsewhere = settings("elsewhere", working_directory=str(folder), request=Request(memory_b=5 * MIB))
    # Names of its own, of the shell, and of programs it needs.
    own = {"_command": "x", "command": "x", "status": "7", "IFS": "x", "PATH": "/nonexistent", "ENV": "/nonexistent"}
    careless = settings("careless", environment={"MY": "1", **own, "MY-ODD": "2"})
    python, said = f"'{sys.executable}' -c '{TELL}'", '"$LONGSHORE_JOB_RUN_DIR/../said"'
    jobs = [
        Job(
            name="words",
            label="hostile",
            command=tell("words", *[word for word in HOSTILE_VALUES if "<ENV" not in word]),
            settings=hostile,
        ),
        Job(
            name="folder",
            label="elsewhere",
            command=tell("folder", "<ENV:MY>", "a<ENV:MY>b"),
            settings=elsewhere,
            environment={"MY": "x  y"},
        ),
        Job(name="careless", label="careless", command=tell("careless", "<ENV:status>"), settings=careless),
        Job(
            name="inherited",
            label="elsewhere",
            command=tell("inherited", "<ENV:MY_HOME>", "<ENV:PWD>"),
            settings=elsewhere,
            environment={
                "MY_HOME": 'it\'s <ENV:MY_BYTES> "<ENV:MY_HOME>"\n',
                "MY_NAME": "<ENV:LONGSHORE_JOB_NAME>'<ENV:NOBODY_HAS>",
                "MY_PLACE": "<ENV:PWD>/x",
                "PATH": "<ENV:PATH>:/nowhere",
            },
        ),
        Job(
            name="line",
            label="l",
            command=f'echo "$LONGSHORE_JOB_NAME" | tr a-z A-Z > up; {python} {said}-line "$(cat up)" 2>&1',
            settings=settings("l"),
        ),
        Job(name="builtin", label="l", command=("echo", "a\\nb", "-n"), settings=settings("l")),
        Job(name="7", label="l", command=tell("7"), settings=settings("l")),
        Job(name="007", label="l", command=tell("007", "spy"), settings=settings("l")),
        Job(name="back\\slash\tand tab", label="l", command=tell("tab", "x"), settings=settings("l")),
    ]
    return Workflow("small", Dag.by_name(jobs))


def collected(root: Path) -> dict[str, Any]:
    said = {}
    for path in root.parent.glob("said-*"):
        said[path.name] = json.loads(path.read_text("utf-8"))
        path.unlink()
    return said


def run_through_the_keeper(run: RunPaths) -> tuple[dict[str, int | None], dict[str, str]]:
    """Exit code and log of each job, run as the engine has it run."""
    table = JobTable(run)
    builder = MemberBuilder(table)
    members = [builder.build(job, 1, table.settings(job).request) for job in range(len(table))]
    driver = ExecutorDriver(LocalExecutor({}), run, 1, timeout_s=30.0)
    ends = driver.run_members(*members)
    driver.executor.close()
    return (
        {member.name: end.exit for member, end in zip(members, ends, strict=True)},
        {member.name: driver.read_log(member) for member in members},
    )


@pytest.mark.parametrize("shell", SHELLS)
def test_by_hand_a_job_runs_as_the_keeper_would_run_it(
    tmp_path: Path, shell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_HOME", "$x `y`\\n\t<ENV:MY_HOME> ")
    monkeypatch.setenv("MY_BYTES", "\udcff")
    run = RunPaths(tmp_path / "the 'run'")
    run.root.mkdir()
    made = workflow(run.root)
    create_file(run.workflow, workflow_lines(made))
    write_rendered(run, render.render_files(made, context(run.root)))
    exits, logs = run_through_the_keeper(run)
    said = collected(run.root)
    assert len(said) == len(made) - 1
    assert all(each["empty"] for each in said.values())
    by_hand = {}
    for job in made:
        done = subprocess.run(
            [shell, run.root / "wms" / "longshore-job", run.root / "wms" / "jobs.tsv", job.name],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "CDPATH": str(tmp_path), "log": "mine"},
        )
        by_hand[job.name] = done.returncode
        assert done.stdout == logs[job.name], done.stderr
        assert not done.stderr
    assert by_hand == exits
    found = collected(run.root)
    # A POSIX shell passes on only names that it could use itself.
    for each in (said, found):
        each["said-careless"]["environment"].pop("MY-ODD", None)
    assert found == said


def test_the_program_beside_the_table_finds_it_from_anywhere(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "run")
    made = Workflow(
        "w",
        Dag.by_name([Job(name="hi", label="l", command="echo $LONGSHORE_JOB_NAME; exit 3", settings=settings("l"))]),
    )
    run.root.mkdir()
    write_rendered(run, render.render_files(made, context(run.root)))
    for reference in ("hi", "0"):
        done = subprocess.run([run.wms / "run-job", reference], cwd="/", capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (3, b"hi\n", b"")
