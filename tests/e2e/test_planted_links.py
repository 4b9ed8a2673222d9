"""A planted run directory full of links leads no write out of it, and the link is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import eventually
from tests.workflows import WriteRun


@pytest.fixture
def run(cli: Cli, write_run: WriteRun) -> Path:
    """A run whose only job failed."""
    ran = cli("submit", write_run("runQuantumCommand: 'false'\n"), "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    return Path(ran.json["submit_dir"])


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A user's folder, with a file that must not change."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("precious", "utf-8")
    return folder


def is_untouched(outside: Path) -> bool:
    return os.listdir(outside) == ["precious"] and (outside / "precious").read_text("utf-8") == "precious"


def plant(path: Path, target: Path) -> None:
    """Replace what is at a path, if anything, by a link."""
    if path.is_dir():
        path.rename(path.with_name(f"{path.name}-moved"))
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def test_names_that_can_be_guessed_are_not_used_for_drafts(cli: Cli, run: Path, outside: Path) -> None:
    cache = run / "cache"
    cache.mkdir(exist_ok=True)
    (cache / "report.json").unlink(missing_ok=True)
    for pid in range(os.getpid(), os.getpid() + 3000):
        for name in (f"cache/.report.json.{pid}", f".clock-{pid}", f".status.json.{pid}"):
            (run / name).symlink_to(outside / "precious")
    ran = cli("report", "--id", run)
    assert ran.returncode == 0, ran.stderr
    assert (cache / "report.json").is_file()
    assert not (cache / "report.json").is_symlink()
    assert is_untouched(outside)


@pytest.mark.parametrize("name", ["cache", "cache/report.json", "status.json"])
def test_looking_writes_nothing_through_a_link(cli: Cli, run: Path, outside: Path, name: str) -> None:
    (run / "cache").mkdir(exist_ok=True)
    plant(run / name, outside / "precious" if name.endswith(".json") else outside)
    ran = cli("report", "--id", run)
    assert ran.returncode == 0, ran.stderr
    assert "FAILED" in ran.stdout
    assert is_untouched(outside)


@pytest.mark.parametrize("name", ["engine.lock", "engine.log"])
def test_a_restart_writes_to_no_file_that_is_a_link(cli: Cli, run: Path, outside: Path, name: str) -> None:
    plant(run / name, outside / "precious")
    ran = cli("restart", "--id", run)
    assert ran.returncode not in {0, 19}, ran.stdout
    assert "Traceback" not in ran.stderr
    assert f"{run / name}" in ran.stderr
    assert "it is a link, and Longshore follows none below a run directory: remove it" in ran.stderr
    assert is_untouched(outside)


@pytest.mark.parametrize("name", ["steer", "journal"])
def test_a_restart_writes_into_no_folder_that_is_a_link(cli: Cli, run: Path, outside: Path, name: str) -> None:
    if name == "journal":
        (run / "journal").rename(outside.parent / "journal")
        outside = outside.parent / "journal"
    plant(run / name, outside)
    before = sorted(os.listdir(outside))
    ran = cli("restart", "--id", run)
    assert ran.returncode not in {0, 19}, ran.stdout
    assert "Traceback" not in ran.stderr
    assert "it is a link, and Longshore follows none below a run directory: remove it" in ran.stderr
    assert sorted(os.listdir(outside)) == before


def test_an_engine_whose_keeper_has_a_link_for_a_folder_ends_and_says_so(cli: Cli, run: Path, outside: Path) -> None:
    plant(run / "keeper", outside)
    cli("restart", "--id", run)
    assert eventually(lambda: f"'{run / 'keeper'}' cannot be used: it is a link" in (run / "engine.log").read_text())
    assert is_untouched(outside)


def test_links_above_a_run_directory_stay_allowed(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "scratch").symlink_to("real", target_is_directory=True)
    path = write_run(f"submitPath: {tmp_path}/scratch/run\n")
    ran = cli("submit", path, "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "real" / "run" / "run.json").is_file()
