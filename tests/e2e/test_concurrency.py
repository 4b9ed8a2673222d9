"""Limits on jobs that run at once: over several runs, with other jobs going on, after a crash, and by category."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.command import Cli
from tests.e2e.overlap import RECORD, most_at_once, signs
from tests.waiting import eventually
from tests.workflows import Tasks, WriteRun

from longshore.rundir.find_run import find_run
from longshore.rundir.run_directory import read_snapshot

SIX: Tasks = {f"t{number}": ("T", []) for number in range(6)} | {"free": ("F", [])}
COMMON = (
    "resources: {cpus: 8, memory: 100 GiB}\nrequestMemory: 10\nconcurrencyLimits: {db_limit: 2}\n"
    f"runQuantumCommand: '{RECORD.replace('{w}', '{word}')}'\n"
    "pipetask: {F: {runQuantumCommand: 'date +%s.%N > free-{word}'}, T: {concurrencyLimit: db_limit}}\n"
)


def run_of(write_run: WriteRun, word: str, text: str = COMMON, tasks: Tasks = SIX) -> str:
    return write_run(f"word: {word}\nsubmitPath: submit/{word}\n{text}", tasks, name=f"{word}.yaml").name


def is_over(folder: Path, word: str) -> bool:
    found = read_snapshot(find_run(str(folder / "submit" / word)))
    return found is not None and found.finished


def test_two_runs_never_exceed_a_limit_together_and_both_come_to_their_end(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    # However busy this machine is, the first has most of its work to do when the second comes.
    until = COMMON.replace("sleep 0.4", "until [ -e submit/second/status.json ]; do sleep 0.1; done; sleep 0.4")
    many: Tasks = {**SIX, **{f"more{number}": ("T", []) for number in range(20)}}
    assert cli("submit", run_of(write_run, "first", until, many)).returncode == 0
    assert cli("submit", run_of(write_run, "second")).returncode == 0
    eventually(lambda: is_over(tmp_path, "first") and is_over(tmp_path, "second"))
    found = signs(tmp_path / "signs")
    assert len(found) == 2 * (26 + 6)
    assert most_at_once(tmp_path / "signs") == 2
    first, second = ([when for when, _, word in found if word == name] for name in ("first", "second"))
    assert first[0] < second[-1]
    assert second[0] < first[-1], "neither waits for the end of the other"
    for word in ("first", "second"):
        assert float((tmp_path / f"free-{word}").read_text("utf-8")) < found[-1][0], "other jobs go on"


def test_a_job_says_which_limit_it_waits_for_and_who_has_it(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    text = COMMON.replace("sleep 0.4", "sleep 60")
    assert cli("submit", run_of(write_run, "first", text)).returncode == 0
    holder = cli("report", "--id", "@last", "--json").json["runs"][0]["id"]
    eventually(lambda: (tmp_path / "signs").exists() and len(signs(tmp_path / "signs")) == 2)
    assert cli("submit", run_of(write_run, "second", text)).returncode == 0
    eventually(lambda: "db_limit" in cli("explain", "@last", "t0").stdout.split("History")[0])
    eventually((tmp_path / "free-second").exists)
    said = cli("explain", "@last", "t0").stdout
    assert f"It waits for the limit 'db_limit', of which 2 may be taken at once: 2 by run {holder}." in said
    assert "There is room for it now" not in said
    document = cli("explain", "@last", "t0", "--json").json
    assert document["limits"] == [{"name": "db_limit", "max": 2, "taken": {holder: 2}}]
    eventually(
        lambda: "your other runs take all of the limit 'db_limit', which is 2" in cli("report", "--id", "@last").stdout
    )
    for word in ("second", "first"):
        assert cli("cancel", tmp_path / "submit" / word).returncode == 0
    eventually(lambda: is_over(tmp_path, "first") and is_over(tmp_path, "second"))


@pytest.mark.full
def test_a_crash_frees_what_no_job_has_and_keeps_what_jobs_have(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    text = COMMON.replace("sleep 0.4", "sleep 4")
    assert cli("submit", run_of(write_run, "first", text)).returncode == 0
    eventually(lambda: (tmp_path / "signs").exists() and len(signs(tmp_path / "signs")) == 2)
    snapshot = read_snapshot(find_run(str(tmp_path / "submit/first")))
    assert snapshot
    os.kill(snapshot.pid, signal.SIGKILL)
    assert cli("submit", run_of(write_run, "second", text), "--wait", timeout=280).returncode == 0
    assert most_at_once(tmp_path / "signs") == 2
    assert len([word for _, _, word in signs(tmp_path / "signs") if word == "first"]) == 4
    assert cli("resume", tmp_path / "submit/first").returncode == 0
    eventually(lambda: is_over(tmp_path, "first"))
    assert most_at_once(tmp_path / "signs") == 2
    assert len(signs(tmp_path / "signs")) == 2 * 12


def test_a_category_bounds_the_jobs_of_one_run(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    text = COMMON.replace("concurrencyLimit: db_limit", "category: heavy") + "maxJobs: {heavy: 1}\n"
    ran = cli("submit", run_of(write_run, "only", text), "--wait")
    assert ran.returncode == 0, ran.stderr
    assert most_at_once(tmp_path / "signs") == 1
    assert "1 job of the category 'heavy' runs, and 'maxJobs' allows no more" in ran.stderr
    assert "should be limited" not in ran.stderr


def test_a_limit_without_a_number_is_told_of(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("prepare", write_run("runQuantumCommand: 'true'\nconcurrencyLimit: tape:2\ncategory: heavy\n"))
    assert ran.returncode == 0
    for words in ("concurrencyLimits: {tape: N}", "maxJobs: {heavy: N}"):
        assert f"jobs run unlimited, because a limit that they name has no number; see '{words}'" in ran.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "concurrencyLimit: 'db limit'",
            "run.yaml:3:19: 'concurrencyLimit' has 'db limit', which is not the name of a limit",
        ),
        ("concurrencyLimits: {db_limit: 0}", "'concurrencyLimits.db_limit'"),
        ("concurrencyLimits: 4", "'concurrencyLimits' must be"),
        ("maxJobs: {heavy: some}", "'maxJobs.heavy'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(cli: Cli, write_run: WriteRun, text: str, message: str) -> None:
    ran = cli("prepare", write_run(f"runQuantumCommand: 'true'\n{text}\n"))
    assert ran.returncode == 3
    assert message in ran.stderr
