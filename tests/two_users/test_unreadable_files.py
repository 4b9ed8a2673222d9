"""A file that its user may not read is named, whichever command meets it; root would read it all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.two_users.accounts import Account
from tests.two_users.runs import submit, submit_and_kill


@pytest.fixture
def killed(ann: Account) -> Path:
    """An unfinished run, whose records an engine would rely on."""
    return submit_and_kill(ann, "sleep 600")


def close(path: Path) -> None:
    path.chmod(0)


@pytest.mark.parametrize("name", ["run.json"])
def test_a_file_that_may_not_be_read_is_named(ann: Account, killed: Path, name: str) -> None:
    close(killed / name)
    for words in (("report", "--id", killed), ("verify", killed), ("resume", killed)):
        done = ann(*words)
        told = done.stdout + done.stderr
        assert done.returncode not in {0, 1}, (words, told)
        assert name.rpartition("/")[2] in told, (words, told)
        assert "Permission denied" in told, (words, told)
        assert "Traceback" not in told
        assert "unexpected" not in told


def test_batch_records_and_end_records_that_may_not_be_read_are_named(ann: Account, killed: Path) -> None:
    for name in ("batches/k1-1-9.json", "ends/k1-1-9/0.1"):
        (killed / name).parent.mkdir(parents=True)
        (killed / name).touch()
        close(killed / name)
    for words in (("report", "--id", killed), ("verify", killed)):
        told = (done := ann(*words)).stdout + done.stderr
        for name in ("batches/k1-1-9.json", "ends/k1-1-9/0.1"):
            assert f"'{killed / name}': it cannot be read: Permission denied" in told


def test_a_snapshot_that_may_not_be_read_is_as_if_absent(ann: Account, killed: Path) -> None:
    close(killed / "status.json")
    assert ann("report", "--id", killed, "--json").json["runs"][0]["counts"]["UNKNOWN"] == 1


def test_a_run_that_may_not_be_read_hides_no_other(ann: Account, killed: Path) -> None:
    other = submit(ann)
    close(killed / "journal" / "0001.jsonl")
    done = ann("report", "--json")
    assert "Traceback" not in done.stderr
    assert str(other) in done.stdout


def test_a_closed_run_is_opened_by_its_user_and_doctor_tells_of_it(ann: Account, bob: Account) -> None:
    run = submit(ann)
    close(run)
    way_out = f"It is yours: chmod u+rwx {run}"
    for words in (("report", run), ("stats", run), ("export", run, "--format", "csv"), ("verify", run)):
        done = ann(*words)
        assert done.returncode == 5, (words, done.stderr)
        assert f"'{run}' cannot be read: Permission denied" in done.stderr
        assert way_out in done.stderr
    found = ann("doctor", "--problems").stdout
    assert "1 registered run that cannot be read" in found
    assert way_out in found
    assert f"'{run}' is closed to you: ask its owner, the user '{ann.uid}'" in bob("report", run).stderr


def test_an_archive_that_may_not_be_read_is_not_called_damaged(ann: Account) -> None:
    run = submit(ann)
    archive = run.with_name(f"{run.name}.tar.xz")
    assert ann("archive", run, "--remove").returncode == 0
    close(archive)
    done = ann("stats", archive)
    assert done.returncode == 5
    assert f"'{archive}' cannot be read: Permission denied" in done.stderr
    assert f"It is yours: chmod u+rw {archive}" in done.stderr
    archive.unlink()
    assert f"there is no archive '{archive}'" in ann("report", "@last").stderr


def test_a_report_in_a_closed_folder_is_a_file_that_cannot_be_written(ann: Account, bob: Account) -> None:
    run = submit(ann)
    bob.home.chmod(0o700)
    for words in (("report", run, "--html"), ("export", run, "--format", "csv", "--output")):
        done = ann(*words, bob.home / "x")
        assert done.returncode == 7, done.stderr
        assert f"cannot write '{bob.home}/x': Permission denied" in done.stderr


def test_a_closed_folder_of_state_is_told_once_per_area_with_the_way_to_open_it(ann: Account) -> None:
    submit(ann)
    close(ann.state)
    found = ann("doctor", "--problems").stdout
    assert f"It is yours: chmod u+rwx {ann.state}" in found
    assert "FOLDER" not in found
    assert "the check failed" not in found
    assert "cannot be read: Permission denied" in found
    close(ann.state.parent)
    found = ann("doctor", "--problems").stdout
    assert f"It is yours: chmod u+rwx {ann.state.parent}" in found
    assert "the check failed" not in found


def test_clean_names_closed_folders_once_and_one_reason_per_run(ann: Account) -> None:
    run = submit(ann)
    run.chmod(0o555)
    done = ann("clean", run, "--yes")
    (line,) = done.stderr.splitlines()
    assert "more file" in line
    assert "are not removed" in line
    assert "Permission denied" in line
    run.chmod(0o755)
    logs = run / "logs"
    close(logs)
    done = ann("clean", run, "--yes")
    assert done.returncode == 1
    assert done.stderr == f"longshore: '{logs}' was not looked into, so its content stays: Permission denied\n"
    assert ann("clean", run, "--json").json["unread"] == {str(logs): "Permission denied"}


def test_an_archive_in_a_closed_folder_names_the_file_and_the_way_out(ann: Account, bob: Account) -> None:
    run = submit(bob)
    done = ann("archive", run)
    assert done.returncode == 7
    assert f"'{run}.tar.xz': Permission denied" in done.stderr
    assert "--output FILE" in done.stderr
