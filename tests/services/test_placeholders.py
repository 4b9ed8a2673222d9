"""No service leaves a placeholder in what it hands over: each is a value by the time a job starts."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from longshore.contract.service import Context, RunPaths, Site
from longshore.engine.run.members import MemberBuilder
from longshore.jobs.commands import command_argv, full_command
from longshore.jobs.scripts import JobScript, render_job_script
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Job, JobSettings, Request, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.job_table import JobTable
from longshore.services.htcondor.render.dag import render
from longshore.services.local import render as by_hand
from longshore.system.atomic import create_file

MARKS = {"<ENV:MINE>": "m y", "<FILE:table>": "{root}/data/t.csv", "<WMS:attemptNum>": "{attempt}"}
"""Each placeholder that a command may have, and its value."""
LEFT = re.compile(r"<(?:ENV|FILE|WMS|[A-Z]+):\w+>|\ufdd0")
FORMS: dict[str, Callable[[str], str | tuple[str, ...]]] = {
    "words": lambda mark: ("/usr/bin/printf", "[%s]", f"a{mark}b"),
    "a line": lambda mark: f"/usr/bin/printf [%s] a{'${MINE}' if 'ENV' in mark else mark}b",
    "single quotation marks": lambda mark: f"/usr/bin/printf [%s] 'a'{mark}'b'",
    "what no parser of HTCondor's passes": lambda mark: ("/usr/bin/printf", "[%s]", f"a\n$$(x){mark}b"),
}


def a_job(mark: str, form: str, *, where: str = "command") -> Job:
    """A job with a placeholder in its command, its variables, or the line before its command."""
    command = FORMS[form](mark) if where == "command" else ("/bin/true",)
    settings = JobSettings(
        label="one",
        environment={"MINE": "m y", "SHARED": mark if where == "shared variables" else "s"},
        attributes={"preCmdline": f"echo 'x{mark}'"} if where == "preCmdline" else {},
    )
    own = {"OWN": f"o{mark}"} if where == "own variables" else {}
    return Job(name="one_1", label="one", command=command, settings=settings, environment=own)


def workflow(*jobs: Job) -> Workflow:
    return Workflow("w", Dag.by_name(jobs), files={"table": File(name="table", path="data/t.csv")})


CASES = [
    (mark, form, where)
    for mark, form, where in product(MARKS, FORMS, ("command", "shared variables", "own variables", "preCmdline"))
    if (where == "command" or form == "words")
    and not ("FILE" in mark and where != "command")
    and not ("ENV" in mark and (where == "preCmdline" or "single" in form))
]


@pytest.mark.parametrize(("mark", "form", "where"), CASES)
@pytest.mark.parametrize("attempt", [1, 4])
def test_an_attempt_of_an_engine(mark: str, form: str, where: str, attempt: int, tmp_path: Path) -> None:
    """Of this machine, of batch systems with and without arrays, of native runs and of pilots."""
    run = RunPaths(tmp_path)
    create_file(run.workflow, workflow_lines(workflow(a_job(mark, form, where=where))))
    member = MemberBuilder(JobTable(run)).build(0, attempt, Request())
    assert not LEFT.search(repr((member.command, member.environment)))
    value = MARKS[mark].format(root=tmp_path, attempt=attempt - 1)
    if where == "command":
        done = subprocess.run(
            command_argv(member.command), env=dict(member.environment), capture_output=True, text=True, check=True
        )
        if "quotation" in form and "FILE" in mark:
            return
        before = "a\n$$(x)" if "HTCondor" in form else "a"
        whole = f"{before}{value}b"
        assert done.stdout in (f"[{whole}]", "".join(f"[{word}]" for word in whole.split(" ")))
    elif where == "preCmdline":
        assert f"echo 'x{value}'" in str(member.command)
    elif "ENV" not in mark:
        assert member.environment["OWN" if where == "own variables" else "SHARED"].endswith(value)


@pytest.mark.parametrize(("mark", "form", "where"), CASES)
def test_the_dag(mark: str, form: str, where: str) -> None:
    ctx = Context(settings={}, site=Site(name="pool"), paths=RunPaths(Path("/run")), templates={}, run_token="t-1")
    jobs = workflow(a_job(mark, form, where=where))
    text = "".join(chunk for file in render(jobs, ctx) if file.path.name == "run.dag" for chunk in file.chunks())
    assert not LEFT.search(text)
    assert ("$(try)" in text) == ("  try = $$([(NumJobStarts?:0)+$(started:0)+$(removals:0)])\n" in text)
    assert ("$(try)" in text) == ("WMS" in mark)


@pytest.mark.parametrize(("mark", "form", "where"), CASES)
def test_the_table_to_run_jobs_by_hand(mark: str, form: str, where: str) -> None:
    ctx = Context(settings={}, site=Site(name="here"), paths=RunPaths(Path("/run")), templates={})
    assert not LEFT.search("".join(by_hand.table(workflow(a_job(mark, form, where=where)), ctx)))


def test_jobs_that_differ_beside_the_number() -> None:
    """What jobs of one description share is parted from their own; the number's place is in either."""
    settings = JobSettings(label="one")
    mark = "<WMS:attemptNum>"
    texts = {"same rest": ["a {0} {mark}", "b"], "own": ["{mark}x", "y"], "beside": ["{mark}", "0"]}
    for name, (first, second) in texts.items():
        jobs = [
            Job(
                name=f"one_{n}",
                label="one",
                command=("/bin/echo", text.format(n, mark=mark), f"z{n}"),
                settings=settings,
            )
            for n, text in enumerate((first, second, first))
        ]
        ctx = Context(settings={}, site=Site(name="pool"), paths=RunPaths(Path("/run")), templates={}, run_token="t-1")
        found = render(workflow(*jobs), ctx)
        text = "".join(chunk for file in found if file.path.name == "run.dag" for chunk in file.chunks())
        assert not LEFT.search(text), name
        assert text.count("$(try)") == 2, name


def test_a_script_to_run_by_hand(tmp_path: Path) -> None:
    script = JobScript(
        title="one",
        command=full_command("echo $WHO", JobSettings(label="one")),
        environment={"WHO": "<ENV:OUTER> <ENV:LONGSHORE_JOB_NAME> <ENV:NONE>.", "LONGSHORE_JOB_NAME": "n"},
        working_directory=str(tmp_path),
    )
    done = subprocess.run(
        ["/bin/sh"], input=render_job_script(script), env={"OUTER": "o  o"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "o o n .\n"
    assert shlex.split(render_job_script(script))
