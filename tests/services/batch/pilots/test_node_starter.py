"""The program that starts the pilots of an allocation: one per host, all of them ended if one fails."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import eventually

from longshore.services.batch.pilots.program import FOLDER, STARTER
from longshore.services.batch.pilots.program.node_starter import split_words

REMOTE = ("/bin/sh", "-c", 'host=$0; export host; exec "$@"')
"""Stands for a program that starts a command on another host."""


def begin(*hosts: str, command: str, nodes: int = 3, start: tuple[str, ...] = REMOTE) -> subprocess.Popen[str]:
    """Start it with a command of shell, which has the number of its node as $0."""
    words = [sys.executable, "-I", "-S", "-B", str(FOLDER / STARTER), str(nodes), "Ask for it."]
    words += [*start, "--", "/bin/sh", "-c", command, "--", *hosts]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_each_host_gets_its_number_and_the_first_one_is_this_host() -> None:
    started = begin("n1", "n1", "n2", "n3", "n2", command='echo "$0 ${host:-here}"')
    said, error = started.communicate(timeout=60)
    assert (started.returncode, error) == (0, "")
    assert sorted(said.splitlines()) == ["0 here", "1 n2", "2 n3"]


@pytest.mark.parametrize("failing", ["0", "2"])
def test_all_are_ended_if_one_fails(tmp_path: Path, failing: str) -> None:
    go = tmp_path / "go"
    command = (
        f"trap 'echo ended $0; exit 0' TERM; touch {tmp_path}/up$0\n"
        f"while ! test -e {go}; do sleep 0.05; done; test $0 != {failing} || exit 7; sleep 300 >/dev/null 2>&1 & wait"
    )
    started = begin("n1", "n2", "n3", command=command)
    eventually(lambda: len(list(tmp_path.glob("up*"))) == 3)
    go.touch()
    said, error = started.communicate(timeout=60)
    assert started.returncode == 7
    assert sorted(said.splitlines()) == [f"ended {node}" for node in "012" if node != failing]
    host = {"0": "n1", "2": "n3"}[failing]
    assert error.strip() == f"longshore: the pilot on '{host}' ended with status 7: the allocation ends"


def test_the_signal_of_a_scheduler_reaches_all(tmp_path: Path) -> None:
    command = f"trap 'echo told $0; exit 0' USR2; touch {tmp_path}/up$0; sleep 300 >/dev/null 2>&1 & wait"
    started = begin("n1", "n2", "n3", command=command)
    eventually(lambda: len(list(tmp_path.glob("up*"))) == 3)
    started.send_signal(signal.SIGUSR2)
    said, error = started.communicate(timeout=60)
    assert (started.returncode, error) == (0, "")
    assert sorted(said.splitlines()) == ["told 0", "told 1", "told 2"]


def test_another_number_of_hosts_is_told() -> None:
    started = begin("n1", "n1", command="echo began")
    said, error = started.communicate(timeout=60)
    assert (started.returncode, said) == (78, "")
    assert error == "longshore: the allocation needs 3 hosts, and has n1. Ask for it.\n"


def test_a_program_that_is_not_there_ends_all() -> None:
    started = begin("n1", "n2", "n3", command="exec sleep 300", start=("/nowhere/no-such-rsh",))
    _, error = started.communicate(timeout=60)
    assert started.returncode == 126
    # The second, where the search path has a directory that this user may not enter.
    why = r"(No such file or directory|Permission denied)"
    assert re.search(rf"'no-such-rsh' cannot start a pilot on 'n2': {why}", error)


def test_no_pilot_outlives_it(tmp_path: Path) -> None:
    started = begin(
        "n1", "n2", "n3", command=f"echo $$ > {tmp_path}/draft$0; mv {tmp_path}/draft$0 {tmp_path}/up$0; exec sleep 300"
    )
    eventually(lambda: len(list(tmp_path.glob("up*"))) == 3)
    pids = [int(path.read_text("ascii")) for path in tmp_path.glob("up*")]
    started.kill()
    started.communicate(timeout=60)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_words_are_parted_at_the_first_two_marks() -> None:
    assert split_words(["rsh", "--", "sh", "-c", "x", "--", "a", "b", "a"]) == (["rsh"], ["sh", "-c", "x"], ["a", "b"])
