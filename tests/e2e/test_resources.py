"""What jobs ask for, and what this machine gives them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import Tasks, WriteRun

FOUR: Tasks = {f"t{number}": ("T", []) for number in range(4)}


def most_at_once(path: Path) -> int:
    """The largest number of jobs between their ``+`` and their ``-``."""
    now = most = 0
    for sign in path.read_text("utf-8").split():
        now += 1 if sign == "+" else -1
        most = max(most, now)
    return most


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("resources: {cpus: 4, licA: 1}\nrequestResources: {licA: 1}", 1),
        ("resources: {cpus: 4, licA: 5}\nrequestResources: {licA: 2}", 2),
        ("resources: {cpus: 4}", 4),
        ("resources: {cpu: 2}", 2),
        ("resources: {cpus: 4}\nrequestCpus: 2", 2),
        ("resources: {cpus: 4, mem: 1 GiB}\nrequestMemory: 600", 1),
        ("resources: {cpus: 4, memory: 1 GiB}\nrequestMemory: 512 MiB", 2),
        ("resources: {cpus: 4, tmp: 1 GiB}\nrequestDisk: 600", 1),
    ],
)
def test_jobs_share_a_pool(text: str, most: int, cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    command = "echo + >> signs; sleep 0.15; echo - >> signs"
    ran = cli("submit", write_run(f"{text}\nrunQuantumCommand: '{command}'\n", FOUR).name, "--wait")
    assert ran.returncode == 0, ran.stderr
    assert most_at_once(tmp_path / "signs") == most


@pytest.mark.parametrize(
    ("text", "error", "way_out"),
    [
        ("requestCpus: 100000", r"run\.yaml:2:14: job 'a' asks for 100000 of 'cpus'", "resources: {cpus: ...}"),
        ("requestMemory: 99999 GiB", r"run\.yaml:2:16: job 'a' asks for .* of 'memory'", "resources: {memory: ...}"),
        ("requestResources: {licA: 1}", r"run\.yaml:2:26: job 'a' asks for 1 of 'licA'", "resources: {licA: 1}"),
        ("requestResources: {licA: 3}\nresources: {licA: 2}", "asks for 3 of 'licA', and there are only 2", "licA"),
        ("requestDisk: 2 GiB\nresources: {disk: 1 GiB}", "asks for 2048 MiB of 'disk'.*only 1024 MiB", "disk"),
        ("pipetask: {A: {requestCpus: 9}}\nresources: {cpus: 8}", r"run\.yaml:2:29: .*'cpus'.*only 8", "Ask for less"),
    ],
)
def test_what_can_never_be_given_is_refused(
    text: str, error: str, way_out: str, cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    ran = cli("submit", write_run(text + "\n").name)
    assert ran.returncode == 7
    first, second = ran.said
    assert re.search(error, first), first
    assert way_out in second
    assert not (tmp_path / "submit").exists()


def test_a_request_of_many_jobs_is_refused_once(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run("requestCpus: 100000\n", FOUR).name)
    assert len(ran.said) == 2


def test_what_nobody_asked_for_is_lowered(cli: Cli, write_run: WriteRun) -> None:
    path = write_run("resources: {mem: 512}\nrunQuantumCommand: 'echo $LONGSHORE_JOB_MEMORY_MB'\n")
    ran = cli("submit", path.name, "--wait")
    assert ran.returncode == 0
    assert "'requestMemory' is 2048 MiB by default; lowered to the available 512 MiB" in ran.stderr


def test_what_has_no_effect_is_said_once(cli: Cli, write_run: WriteRun) -> None:
    text = "runQuantumCommand: 'true'\nqueue: long\nmailTo: me@here\nrequestWalltime: 60\n"
    ran = cli("submit", write_run(text), "--wait")
    assert ran.returncode == 0
    assert ran.stderr.count("'queue' has no effect") == ran.stderr.count("'mailTo' has no effect") == 1
    assert "'requestWalltime' has" not in ran.stderr


def test_a_request_above_its_own_cap_is_told(cli: Cli, write_run: WriteRun) -> None:
    text = "runQuantumCommand: 'echo memory $LONGSHORE_JOB_MEMORY_MB'\nrequestMemory: 64\nrequestMemoryMax: 48\n"
    ran = cli("submit", write_run(text), "--wait")
    assert ran.returncode == 0
    said = "jobs of 'A' ask for 48 MiB and not for the 64 MiB of 'requestMemory', because 'requestMemoryMax' or"
    assert ran.stderr.count(said) == 1
    assert "memory 48\n" in cli("logs", "@last", "a").stdout
