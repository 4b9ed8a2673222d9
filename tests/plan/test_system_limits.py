"""A job that no kernel starts, or whose file no file system has room for, is refused before it is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from longshore.contract.service import Problem
from longshore.model.tasks import Command, File
from longshore.model.workflow import Job, JobSettings, Request
from longshore.plan.checks import (
    MAX_ARGUMENT_B,
    exceeded_argument_limits,
    overlong_paths,
    path_fault,
    total_limit,
)
from longshore.plan.lint_file import lint_file

SETTINGS = JobSettings(label="a", request=Request(cpus=1))
RUN = Path("/r")


def problems(command: Command, *, settings: JobSettings = SETTINGS, **more: object) -> list[Problem]:
    job = msgspec.structs.replace(Job(name="a1", label="a", command=command, settings=settings), **more)
    files = {"in": File(name="in", path="/" + "d/" * 50)}
    return list(exceeded_argument_limits([job], files, {"PATH": "/bin"}))


def test_the_longest_argument_is_that_of_the_kernel() -> None:
    line = "true; " + "x" * (MAX_ARGUMENT_B - 6)
    assert problems(line) == problems(("cat", "x" * MAX_ARGUMENT_B)) == []
    (problem,) = problems(line + "x")
    assert problem.message == (
        "job 'a1' cannot start: the line of its command has 131,072 bytes, and a kernel takes 131,071 in one argument"
    )
    assert "as a list of words" in problem.hint
    assert "read names from a file" in problem.hint
    assert problem.fatal
    (problem,) = problems(("cat", "\u00e9" * 65_536))
    assert "the word '\u00e9\u00e9" in problem.message
    assert "has 131,072 bytes" in problem.message


@pytest.mark.parametrize(
    ("settings", "command", "hint"),
    [
        ({"attributes": {"preCmdline": "x" * MAX_ARGUMENT_B}}, ("true",), "lines before or after"),
        ({"attributes": {"postCmdline": "x" * MAX_ARGUMENT_B}}, ("true",), "lines before or after"),
        ({"setup": ("x" * MAX_ARGUMENT_B,)}, ("true",), "'setup'"),
        ({"launcher": "run '" + "x" * MAX_ARGUMENT_B + "'"}, ("true",), "A launcher"),
        ({}, "true; cat " + "<FILE:in> " * 1500, "as a list"),
    ],
    ids=["pre", "post", "setup", "launcher", "files"],
)
def test_what_is_added_to_a_command_counts(settings: Mapping[str, object], command: Command, hint: str) -> None:
    (problem,) = problems(command, settings=msgspec.structs.replace(SETTINGS, **settings), inputs=("in",))
    assert "the line of its command has 1" in problem.message
    assert hint in problem.hint


def test_the_line_of_many_tasks_names_the_cluster() -> None:
    (problem,) = problems("x\n" * MAX_ARGUMENT_B, tasks=3000)
    assert "the line of its 3,000 tasks has" in problem.message
    assert problem.hint == "Put fewer tasks into a cluster."


@pytest.mark.parametrize("is_own", [True, False])
def test_a_variable_and_all_together_have_limits(is_own: bool) -> None:
    def with_variables(variables: Mapping[str, str]) -> list[Problem]:
        if is_own:
            return problems(("true",), environment=variables)
        return problems(("true",), settings=msgspec.structs.replace(SETTINGS, environment=variables))

    assert not with_variables({"A": "x" * (MAX_ARGUMENT_B - 2)})
    (problem,) = with_variables({"A": "x" * (MAX_ARGUMENT_B - 1)})
    assert problem.message == (
        "job 'a1' cannot start: the variable 'A' has 131,072 bytes with its name, and a kernel takes 131,071"
    )
    assert problem.key == "environment"
    many = {f"A{number}": "x" * 100_000 for number in range(total_limit() // 100_000 + 1)}
    (problem,) = with_variables(many)
    assert f"and a kernel takes {total_limit():,} together" in problem.message
    (problem,) = problems(("cat", *["x" * 1000] * (total_limit() // 1000)))
    assert "words of its command and its environment" in problem.message


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/d/" + "v" * 255, ""),
        ("/d/" + "v" * 256, "has 256 bytes, and a file system takes 255"),
        ("/d/" + "\u00e9" * 128 + "/x", "has 256 bytes"),
        ("/d/" + "\u00e9" * 127 + "/x", ""),
        ("/dd" * 1365, ""),
        ("/dd" * 1365 + "x", "has 4,096 bytes, and a system takes 4,095"),
        ("https://x/" + "v" * 5000, ""),
        ("/" + "\udcff" * 80, ""),
    ],
    ids=range(8),
)
def test_names_and_paths_have_limits(path: str, says: str) -> None:
    assert says in path_fault(path)
    assert bool(says) == bool(path_fault(path))


def test_jobs_with_overlong_files_and_run_directories_are_named() -> None:
    files = {name: File(name=name, path=path) for name, path in {"x": "/d/x", "v": "/d/" + "v" * 300}.items()}
    jobs = [
        Job(name=name, label="a", command=("true",), settings=SETTINGS, inputs=reads, outputs=writes)
        for name, reads, writes in (("a1", (), ("v",)), ("a2", ("v",), ("x",)), ("a3", ("x",), ()))
    ]
    found = [(problem.job, problem.message) for problem in overlong_paths(jobs, files, RUN)]
    assert [name for name, _ in found] == ["a1", "a2"]
    assert found[0][1].startswith("job 'a1' writes a file that cannot be: the name 'vvv")
    (problem,) = overlong_paths(jobs[2:], {}, RUN / ("y" * 256))
    assert problem.message.startswith("the run directory cannot be made: the name 'yyy")
    assert "submitPath" in problem.hint


def test_lint_names_the_place_of_a_command_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run.yaml"
    path.write_text(
        'pipeline:\n  dimensions: {s: {range: [1, 6000]}}\n  tasks:\n    sum:\n      command: "cat {f} | wc -l > {o}"\n'
        "      inputs: {f: 'in_a_directory_with_a_name/sample_{s}.txt'}\n      outputs: {o: n.txt}\n",
        "utf-8",
    )
    (tmp_path / "in_a_directory_with_a_name").mkdir()
    for number in range(1, 6001):
        (tmp_path / f"in_a_directory_with_a_name/sample_{number}.txt").touch()
    (found,) = (each for each in lint_file(path, now=0).findings if each.severity == "error")
    assert (found.origin.line, found.origin.column) == (5, 16)
    assert "the line of its command has" in found.message
