"""A retried job of several tasks continues with the failed task, in every available shell."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.jobs.scripts import (
    TASKS_DONE_VARIABLE,
    count_done_tasks,
    join_commands,
    records_tasks,
    task_record_path,
)
from longshore.model.tasks import Command

SHELLS = [path for shell in ("dash", "bash", "ksh", "mksh") if (path := shutil.which(shell))]


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def run(shell: str, commands: list[Command], record: Path | None, folder: Path, *flags: str) -> int:
    env = {"PATH": os.environ["PATH"]} | ({TASKS_DONE_VARIABLE: str(record)} if record else {})
    return subprocess.run(
        [shell, *flags, "-c", join_commands((command, 1) for command in commands)],
        cwd=folder,
        env=env,
        check=False,
        timeout=30,
    ).returncode


def test_done_tasks_do_not_run_again(tmp_path: Path, shell: str) -> None:
    record = tmp_path / "a 'b'" / "tasks" / "7"
    commands: list[Command] = [
        "echo 1 >> said",
        "echo 2 >> said; test -e cure || exit 37",
        ("sh", "-c", "echo 3 >> said"),
    ]
    assert run(shell, commands, record, tmp_path) == 37
    assert count_done_tasks(record.read_bytes()) == 1
    (tmp_path / "cure").touch()
    assert run(shell, commands, record, tmp_path) == 0
    assert (tmp_path / "said").read_text("ascii").split() == ["1", "2", "2", "3"]
    assert count_done_tasks(record.read_bytes()) == 3
    assert run(shell, commands, record, tmp_path) == 0
    assert (tmp_path / "said").read_text("ascii").split() == ["1", "2", "2", "3"]


def test_a_command_of_several_tasks_counts_as_many(tmp_path: Path, shell: str) -> None:
    steps: list[tuple[Command, int]] = [("true", 3), ("test -e cure", 2), ("true", 1)]
    record = tmp_path / "record"
    env = {"PATH": os.environ["PATH"], TASKS_DONE_VARIABLE: str(record)}
    words = [shell, "-c", join_commands(steps)]
    assert subprocess.run(words, cwd=tmp_path, env=env, check=False, timeout=30).returncode == 1
    assert count_done_tasks(record.read_bytes()) == 3
    (tmp_path / "cure").touch()
    assert subprocess.run(words, cwd=tmp_path, env=env, check=False, timeout=30).returncode == 0
    assert record.read_text("ascii").split() == [f"{number}={number}" for number in range(1, 7)]


def test_commands_without_a_record_are_recognized() -> None:
    assert records_tasks(join_commands([("true", 1), ("true", 1)]))
    assert not records_tasks("run a,b")
    assert not records_tasks(("run", "a,b"))


def test_without_a_record_all_of_them_run(tmp_path: Path, shell: str) -> None:
    for _ in range(2):
        assert run(shell, ["echo 1 >> said", "echo 2 >> said"], None, tmp_path, "-eu") == 0
    assert (tmp_path / "said").read_text("ascii").split() == ["1", "2", "1", "2"]


def test_each_task_runs_as_in_a_job_of_its_own(tmp_path: Path, shell: str) -> None:
    (tmp_path / "d").mkdir()
    # What one sets, and where it goes, is not there for the next; and a shell told to stop at an error stops.
    commands: list[Command] = [
        "cd d; A=1; set -f",
        'test -z "$A" && test -d d && echo * >> said',
        "set -e; false; touch no",
    ]
    record = tmp_path / "r"
    assert run(shell, commands, record, tmp_path) == 1
    assert (tmp_path / "said").read_text("ascii").split() == ["d", "r"]
    assert not (tmp_path / "no").exists()
    assert count_done_tasks(record.read_bytes()) == 2


def test_a_killed_task_is_not_done(tmp_path: Path, shell: str) -> None:
    record = tmp_path / "r"
    assert run(shell, ["true", "kill -9 $$; sleep 5"], record, tmp_path) in {137, -9}
    assert count_done_tasks(record.read_bytes()) == 1


@pytest.mark.parametrize("damaged", [b"1=1\n3=2\n", b"1=1\n2=3\n", b"1=1\n3=", b"1=1\n3", b"1=1\n3=3"])
def test_no_damaged_line_keeps_a_task_from_running(tmp_path: Path, shell: str, damaged: bytes) -> None:
    record = tmp_path / "record"
    record.write_bytes(damaged)
    assert run(shell, [f"echo {number} >> said" for number in (1, 2, 3, 4)], record, tmp_path) == 0
    assert (tmp_path / "said").read_text("ascii").split() == ["2", "3", "4"]


def test_incomplete_line_is_not_counted() -> None:
    assert count_done_tasks(b"") == 0
    assert count_done_tasks(b"1\n2\n1") == 2
    assert count_done_tasks(b"1\n\0\0\n1\nx\n2\n") == 2
    assert count_done_tasks(b"1=1\n1=2\n=3\n3=\n4=44\n12=12\n1=1\n") == 2


@given(st.binary(max_size=40))
def test_any_file_can_be_counted(text: bytes) -> None:
    assert 0 <= count_done_tasks(text) <= text.count(b"\n")


def test_a_folder_holds_a_thousand_at_most() -> None:
    assert str(task_record_path(0)) == "tasks/00/0"
    assert len({task_record_path(job).parent for job in range(3000)}) == 3
