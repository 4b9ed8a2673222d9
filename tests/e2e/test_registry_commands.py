"""The list of runs is read from the registry, which heals, forgets and adopts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.command import Cli
from tests.waiting import eventually
from tests.workflows import WriteRun

import longshore
from longshore.rundir.registry import state_folder

STATE = Path(".local/state/longshore/runs")


@pytest.fixture
def runs(cli: Cli, write_run: WriteRun) -> list[Any]:
    """Three finished runs, the second of which failed."""
    write_run("runQuantumCommand: 'true'\nproject: dev\n", name="good.yaml")
    write_run("runQuantumCommand: 'exit 3'\nproject: dev\nnumberOfRetries: 0\n", name="bad.yaml")
    return [cli("submit", name, "--wait", "--json").json for name in ("good.yaml", "bad.yaml", "good.yaml")]


def ids(cli: Cli, *args: str | Path) -> list[str]:
    return [run["id"] for run in cli("report", "--json", *args).json["runs"]]


def test_how_a_run_ended_is_kept_until_it_is_taken_up_again(
    cli: Cli, runs: list[Any], own_environment: Path, tmp_path: Path
) -> None:
    cold = cli("report", "--json").json["runs"]
    assert [run["state"] for run in cold] == ["SUCCEEDED", "FAILED", "SUCCEEDED"]
    entry = json.loads((own_environment / STATE / f"{runs[1]['id']}.json").read_text("utf-8"))
    assert entry["report"]["state"] == "FAILED"
    assert cli("report", "--json").json["runs"] == cold
    # Whatever becomes of the snapshot: it is not read any more.
    (Path(runs[1]["submit_dir"]) / "status.json").write_text("{", "utf-8")
    assert cli("report", "--json").json["runs"] == cold
    (tmp_path / "bad.yaml").touch()
    assert cli("restart", runs[1]["id"]).returncode == 0
    while cli("status", runs[1]["id"]).returncode == 15:
        pass
    again = next(run for run in cli("report", "--json").json["runs"] if run["id"] == runs[1]["id"])
    assert again["finished_at"] > cold[1]["finished_at"]


def test_runs_whose_directories_are_gone_are_forgotten_at_once(cli: Cli, runs: list[Any]) -> None:
    for run in runs[:2]:
        shutil.rmtree(run["submit_dir"])
    gone = ", ".join(run["id"] for run in runs[:2])
    assert f"removed or moved: {gone}; to forget them: longshore forget --missing" in cli("report").stderr
    assert [run["id"] for run in cli("forget", "--missing", "--json").json["runs"]] == [run["id"] for run in runs[:2]]
    assert cli("report").stderr == ""
    assert ids(cli) == [runs[2]["id"]]
    assert cli("forget").returncode == 2


def test_filters_and_fields(cli: Cli, runs: list[Any]) -> None:
    assert ids(cli, "--filter", "state=FAILED") == [runs[1]["id"]]
    assert ids(cli, "--filter", "state!=FAILED", "--filter", "project~d.v") == [runs[0]["id"], runs[2]["id"]]
    assert ids(cli, "--user", "nobody-of-that-name") == []
    shown = cli("report", "--format", "id,failed", "--tsv", "--no-header")
    assert shown.stdout.splitlines() == [f"{run['id']}\t{int(number == 1)}" for number, run in enumerate(runs)]
    wrong = cli("report", "--filter", "stat=FAILED")
    assert (wrong.returncode, "Did you mean 'state'?" in wrong.stderr) == (2, True)
    wrong = cli("report", "--format", "idd")
    assert (wrong.returncode, "Did you mean 'id'?" in wrong.stderr) == (2, True)
    assert cli("report", "@last", "--filter", "id=x").returncode == 2
    assert cli("report", "--watch").returncode == 2


def test_one_broken_run_does_not_hide_the_others(cli: Cli, runs: list[Any], own_environment: Path) -> None:
    folder = own_environment / STATE
    (Path(runs[0]["submit_dir"]) / "run.json").write_text('{"format": 99}', "utf-8")
    (folder / "k7torn.json").write_text("{", "utf-8")
    (folder / "k7rsvd.json").touch()
    shown = cli("report", "--json")
    # The first was never listed before, so that nothing is known of how it ended.
    assert [run["id"] for run in shown.json["runs"]] == [runs[1]["id"], runs[2]["id"]]
    first, second = shown.json["notes"]
    assert f"run '{runs[0]['id']}' cannot be shown" in first
    assert "format 99" in first
    assert "run 'k7torn' cannot be shown: its entry is torn" in second


def test_another_run_in_the_same_place_is_not_taken_for_the_first(
    cli: Cli, runs: list[Any], own_environment: Path
) -> None:
    first, second = runs[0], runs[2]
    shutil.rmtree(first["submit_dir"])
    shutil.copytree(second["submit_dir"], first["submit_dir"])
    assert ids(cli) == [runs[1]["id"], second["id"]]
    wrong = cli("report", first["id"])
    assert wrong.returncode == 5
    assert f"longshore forget {first['id']}" in wrong.stderr
    # The copy is named by its path, and does not take the id from the one it was copied from.
    assert cli("report", first["submit_dir"]).returncode == 0
    entry = json.loads((own_environment / STATE / f"{second['id']}.json").read_text("utf-8"))
    assert entry["path"] == second["submit_dir"]


def test_a_tree_of_runs_is_adopted(cli: Cli, runs: list[Any], own_environment: Path, tmp_path: Path) -> None:
    shutil.rmtree(own_environment / STATE)
    assert ids(cli) == []
    shutil.move(tmp_path / "submit", tmp_path / "elsewhere")
    done = cli("adopt", "elsewhere", "--json")
    assert done.returncode == 0
    assert sorted(run["id"] for run in done.json["runs"]) == sorted(run["id"] for run in runs)
    assert ids(cli) == [run["id"] for run in runs]
    text = cli("adopt", "elsewhere")
    assert text.stdout.count("Adopted run ") == 3
    assert cli("status", runs[1]["id"]).stdout == "FAILED\n"


def test_what_cannot_be_adopted(cli: Cli, runs: list[Any], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = cli("adopt", "empty", "nowhere", Path(runs[0]["submit_dir"]), "--json")
    assert done.returncode == 5
    assert [run["id"] for run in done.json["runs"]] == [runs[0]["id"]]
    assert "there is no run in" in done.json["failed"][0]["error"]["message"]
    assert "does not exist" in done.json["failed"][1]["error"]["message"]
    # Another user's run of the same id.
    copy = tmp_path / "copy"
    shutil.copytree(runs[0]["submit_dir"], copy)
    card = json.loads((copy / "run.json").read_text("utf-8"))
    (copy / "run.json").write_text(json.dumps({**card, "key": "ffffffff"}), "utf-8")
    other = cli("adopt", copy)
    assert other.returncode == 6
    assert f"longshore forget {runs[0]['id']}" in other.stderr
    assert cli("report", copy).returncode == 5, "its identity is not the one that was submitted"


def test_forgetting(cli: Cli, runs: list[Any], own_environment: Path) -> None:
    done = cli("forget", runs[0]["id"], runs[1]["submit_dir"])
    assert done.returncode == 0
    assert f"Forgot run {runs[0]['id']}; its directory stays: {runs[0]['submit_dir']}" in done.stdout
    assert ids(cli) == [runs[2]["id"]]
    assert Path(runs[0]["submit_dir"], "run.json").exists()
    again = cli("forget", runs[0]["id"])
    assert again.returncode == 5
    (own_environment / STATE / "k7torn.json").write_text("{", "utf-8")
    assert cli("forget", "k7torn", "--json").json["runs"] == [{"id": "k7torn", "path": None}]
    shutil.rmtree(runs[2]["submit_dir"])
    assert cli("forget", runs[2]["id"]).returncode == 0
    assert list((own_environment / STATE).iterdir()) == []


def test_hints_about_a_copy_name_the_copy_and_its_resume_names_the_original(
    cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    write_run(f"runQuantumCommand: 'while ! test -e {tmp_path}/go; do sleep 0.05; done'\n")
    run = cli("submit", "run.yaml", "--json").json
    try:
        copy = shutil.copytree(run["submit_dir"], tmp_path / "copy")
        # The copy's engine is not the one of the original, and the id leads to the original.
        seen = cli("status", copy)
        assert (seen.returncode, f"longshore resume {copy}" in seen.stderr) == (10, True)
        resumed = cli("resume", copy)
        assert resumed.returncode == 0
        assert f"this is a copy: the run '{run['id']}' is in '{run['submit_dir']}'" in resumed.stderr
        assert f"longshore adopt {copy}" in resumed.stderr
        assert cli("report", "--id", run["id"], "--json").json["runs"][0]["path"] == run["submit_dir"]
    finally:
        (tmp_path / "go").touch()
    eventually(lambda: cli("status", copy).returncode == 0)
    eventually(lambda: cli("status", run["submit_dir"]).returncode == 0)


def test_a_live_run_is_not_forgotten(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    write_run(f"runQuantumCommand: 'while ! test -e {tmp_path}/go; do sleep 0.05; done'\n")
    run = cli("submit", "run.yaml", "--json").json
    try:
        refused = cli("forget", run["id"])
        assert refused.returncode == 6
        assert f"longshore cancel {run['id']}" in refused.stderr
        assert cli("forget", run["id"], "--force").returncode == 0
        assert ids(cli) == []
        assert cli("status", run["submit_dir"]).stdout == "RUNNING\n"
    finally:
        (tmp_path / "go").touch()
    while cli("status", run["submit_dir"]).returncode == 15:
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_run_that_may_not_be_read(cli: Cli, runs: list[Any]) -> None:
    root = Path(runs[0]["submit_dir"])
    root.chmod(0)
    try:
        shown = cli("report")
        assert runs[0]["id"] in shown.stderr
        assert "Permission denied" in shown.stderr
    finally:
        root.chmod(0o755)


def test_one_run_that_cannot_be_read_does_not_hide_the_others(cli: Cli, runs: list[Any], own_environment: Path) -> None:
    journal = Path(runs[1]["submit_dir"]) / "journal"
    shutil.rmtree(journal)
    journal.symlink_to("journal")
    found = cli("report", "--json")
    assert [run["id"] for run in found.json["runs"]] == [runs[0]["id"], runs[2]["id"]]
    assert found.json["notes"][0].startswith(
        f"run '{runs[1]['id']}' cannot be shown: '{journal}/end.json' cannot be read: "
    )
    one = cli("status", runs[1]["id"])
    assert (one.returncode, "cannot be read" in one.stderr) == (5, True)
    registry = own_environment / STATE
    shutil.rmtree(registry)
    registry.symlink_to(registry.name)
    assert f"the registry '{registry}' cannot be read: " in cli("report").stderr, "none is not the same as not known"


def test_a_run_of_another_directory_is_looked_at_and_not_changed(cli: Cli, runs: list[Any], tmp_path: Path) -> None:
    newest = runs[-1]["id"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with TemporaryDirectory() as there:
        looked = cli("status", "@last", "--json", cwd=Path(there))
        assert (looked.json["id"], looked.stderr.count(newest)) == (newest, 1)
        for words in (["cancel"], ["forget"], ["archive"], ["clean"], ["notify"], ["adopt"], ["restart", "--dry-run"]):
            ran = cli(*words, "@last", cwd=Path(there))
            assert (ran.returncode, f"type its id: {newest}" in ran.stderr) == (5, True), words
        with contextlib.chdir(there):
            found = longshore.open("@last")
        assert found.id == newest
        for change in (found.cancel, found.restart, found.resume, found.pause):
            with pytest.raises(longshore.LongshoreError, match=f"type its id: {newest}"):
                change()
    assert cli("pause", "@last", cwd=elsewhere).returncode != 5, "a parent's run"
    for words in (["submit", "nothing.yaml"], ["submit", "--sett"], ["submitcmd", "nothing.yaml"]):
        assert cli(*words, cwd=elsewhere).returncode
        refused = cli("cancel", "@last", cwd=elsewhere)
        assert (refused.returncode, "was refused at" in refused.stderr) == (5, True), words
        assert cli("cancel", newest, cwd=elsewhere).returncode == 0
        shutil.rmtree(Path(state_folder(), "refused"))
