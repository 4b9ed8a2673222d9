"""Commands that look at runs read the submit directories that the real BPS made."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.services.htcondor.bps.submit_directories import CALIB, COADD, copied

from longshore.rundir.registry import read_entries
from longshore.rundir.run_directory import read_card
from longshore.services.htcondor.bps.mirror import mirror_directory

STATES = {
    "finished": ("SUCCEEDED", {"SUCCEEDED": 8}),
    "failed": ("FAILED", {"FAILED": 1, "PRUNED": 1, "SUCCEEDED": 6}),
    "groups": ("FAILED", {"FAILED": 1, "PRUNED": 1, "SUCCEEDED": 6}),
    "restarted": ("FAILED", {"FAILED": 1, "PRUNED": 1, "SUCCEEDED": 6}),
}


def report(cli: Cli, folder: Path) -> dict[str, Any]:
    """The report of a directory, read as JSON."""
    ran = cli("report", folder, "--json")
    assert ran.returncode in {0, 10, 16, 19}, ran.stderr
    found: dict[str, Any] = ran.json["runs"][0]
    return found


def tree(folder: Path) -> dict[str, int]:
    """Each file of a directory, with the time of its last change."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize("name", STATES)
def test_states_are_those_of_bps(name: str, cli: Cli, tmp_path: Path) -> None:
    folder = copied(name, tmp_path)
    before = tree(folder)
    found = report(cli, folder)
    state, counts = STATES[name]
    assert found["state"] == state
    assert {key: count for key, count in found["counts"].items() if count} == counts
    assert list(found["labels"]) == ["pipetaskInit", "isr", "calib", "coadd", "finalJob"]
    assert (found["operator"], found["project"], found["campaign"]) == ("someone", "dev", "quick")
    assert found["path"] == str(folder)
    assert tree(folder) == before


def test_a_run_whose_schedd_does_not_answer_has_the_states_of_its_logs(cli: Cli, tmp_path: Path) -> None:
    ran = cli("report", copied("running", tmp_path), "--json")
    found = ran.json["runs"][0]
    assert {key: count for key, count in found["labels"]["calib"].items() if count} in ({"RUNNING": 2}, {"UNKNOWN": 2})
    assert found["labels"]["isr"]["SUCCEEDED"] == 2


def test_a_cancelled_run_may_have_jobs_left_until_the_schedd_answers(cli: Cli, tmp_path: Path) -> None:
    found = report(cli, copied("cancelled", tmp_path))
    assert {key: count for key, count in found["counts"].items() if count} == {"DELETED": 4, "SUCCEEDED": 4}
    assert any("unknown whether it still runs" in note for note in found["notes"])


def test_the_report_says_what_the_files_do_not_tell(cli: Cli, tmp_path: Path) -> None:
    text = cli("report", copied("finished", tmp_path)).stdout
    assert "BPS submitted it" in text
    assert "do not tell data IDs" in text


def test_status_has_the_exit_status_of_the_state(cli: Cli, tmp_path: Path) -> None:
    assert cli("status", copied("finished", tmp_path)).returncode == 0
    assert cli("status", copied("failed", tmp_path)).returncode == 19


def test_a_failure_has_its_log(cli: Cli, tmp_path: Path) -> None:
    folder = copied("failed", tmp_path)
    assert cli("logs", folder, CALIB).stdout == "calib 01a214e4-5386-713a-a264-3f6f7f50ca53\n"
    listed = cli("logs", folder, "--failed", "--paths").stdout
    assert str(folder / "jobs" / "calib" / "1") in listed


def test_attempts_of_both_submissions_have_logs(cli: Cli, tmp_path: Path) -> None:
    folder = copied("restarted", tmp_path)
    paths = {cli("logs", folder, CALIB, "--attempt", str(number), "--paths").stdout for number in (1, 2)}
    assert len(paths) == 2
    assert all(Path(path.strip()).is_file() for path in paths)


def test_explain_names_the_cause(cli: Cli, tmp_path: Path) -> None:
    text = cli("explain", copied("failed", tmp_path), COADD).stdout
    assert "PRUNED" in text
    assert CALIB in text


def test_show_job_has_command_and_request(cli: Cli, tmp_path: Path) -> None:
    folder = copied("finished", tmp_path)
    shown = cli("show-job", folder, CALIB, "--json").json
    assert shown["command"].startswith("/bin/sh /data/ok.sh")
    assert shown["request"]["memory_b"] == 100 * 1024 * 1024
    assert shown["environment"] == {}
    assert shown["working_directory"] == str(folder)


def test_events_of_a_restart_go_on_from_those_before(cli: Cli, tmp_path: Path) -> None:
    ran = cli("events", copied("restarted", tmp_path))
    names = [line.split('"event":"')[1].split('"')[0] for line in ran.stdout.splitlines()]
    assert names.count("life") == 2
    assert names.count("restarted") == 1
    assert names.count("failed") == 2
    assert names[-1] == "finished"


def test_a_directory_is_drawn(cli: Cli, tmp_path: Path) -> None:
    assert "calib" in cli("draw", copied("groups", tmp_path)).stdout


def test_groups_are_barriers(cli: Cli, tmp_path: Path) -> None:
    folder = copied("groups", tmp_path)
    text = cli("explain", folder, "finalJob").stdout
    assert "SUCCEEDED" in text
    assert cli("events", folder).stdout.count('"event":"started"') == 7


def test_an_adopted_directory_has_an_id(cli: Cli, tmp_path: Path) -> None:
    folder = copied("finished", tmp_path)
    ran = cli("adopt", tmp_path)
    assert (ran.returncode, f"in '{folder}'" in ran.stdout) == (0, True), ran.stderr
    name = ran.stdout.split()[2]
    assert cli("status", name).returncode == 0
    assert str(folder) in cli("report", name).stdout


def test_other_directories_are_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.dag").write_text("JOB a a.sub\n", "utf-8")
    ran = cli("report", tmp_path)
    assert "is not a run directory" in ran.stderr
    ran = cli("adopt", tmp_path)
    assert "a submit directory of BPS" in ran.stderr


def test_a_removed_directory_is_named(cli: Cli, tmp_path: Path) -> None:
    folder = copied("finished", tmp_path)
    name = cli("adopt", folder).stdout.split()[2]
    shutil.rmtree(folder)
    ran = cli("report", name)
    assert f"'{folder}' is no submit directory any more" in ran.stderr


def test_a_changed_directory_is_read_anew(cli: Cli, tmp_path: Path) -> None:
    folder = copied("failed", tmp_path / "a")
    assert report(cli, folder)["state"] == "FAILED"
    shutil.rmtree(folder)
    copied("finished", tmp_path / "b").rename(folder)
    assert report(cli, folder)["state"] == "SUCCEEDED"


def test_a_prepared_directory_was_never_submitted(cli: Cli, tmp_path: Path) -> None:
    folder = copied("finished", tmp_path)
    for path in [*folder.glob("*.dag.*"), *folder.glob("*.info.json")]:
        path.unlink()
    text = cli("report", folder).stdout
    assert f"never submitted; only the tool that made '{folder}' can submit it" in text


@pytest.mark.parametrize("words", [["--set", "requestMemory=5000"], ["--from", "isr"]])
def test_a_restart_takes_no_changes(words: list[str], cli: Cli, tmp_path: Path) -> None:
    ran = cli("restart", copied("failed", tmp_path), *words)
    assert ran.returncode != 0
    assert not list(tmp_path.rglob("backups"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
@pytest.mark.parametrize("words", [("cancel",), ("restart",), ("adopt", "--trust", "--yes")])
def test_a_directory_of_another_user_is_only_looked_at(words: tuple[str, ...], cli: Cli, tmp_path: Path) -> None:
    folder = copied("failed", tmp_path)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 12345, 12345)
    assert report(cli, folder)["state"] == "FAILED"
    ran = cli(*words[:1], folder, *words[1:])
    assert ran.returncode != 0
    assert "belongs to the user '12345'" in ran.stderr
    assert "runuser" in ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of another user")
def test_directories_of_another_user_have_ids_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ids = set()
    for folder in (copied("failed", tmp_path), copied("failed", tmp_path / "other")):
        for path in (folder, *folder.rglob("*")):
            # Before the first id, as directories of BPS may be.
            os.utime(path, (1.7e9, 1.7e9))
            os.chown(path, 12345, 12345)
        mirror = mirror_directory(folder)
        assert mirror is not None
        ids.add(read_card(mirror).id)
    assert len(ids) == 2
    assert list(read_entries()) == []
