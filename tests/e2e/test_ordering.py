"""Groups of jobs that run one after another on the local service: order, failures, restart, cancellation, reports."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from tests.command import Cli
from tests.e2e.conftest import LeftBehind

PIPELINE = """\
pipeline:
  dimensions: {visit: [3, 1, 20], detector: [1, 2]}
  tasks:
    isr: {dimensions: [visit, detector], command: "echo isr-{visit}-{detector} >> notes"}
    cal:
      dimensions: [visit]
      command: "echo cal-{visit} >> notes; [ ! -e fail-{visit} ]"
    other: {dimensions: [detector], command: "echo other-{detector} >> notes"}
  relations: {}
requestMemory: 10
numberOfRetries: 0
resources: {cpus: 2}
submitPath: submit
templateDataId: "{visit}_{detector}"
"""
PIPELINE = PIPELINE.replace("  relations: {}\n", "")


@pytest.fixture
def write(tmp_path: Path) -> Path:
    """A run of three visits, whose groups are to come in the order of their numbers."""
    return tmp_path / "run.yaml"


def ordered(path: Path, more: str = "implementation: noop", labels: str = "isr, cal") -> Path:
    text = f"{PIPELINE}ordering: {{by_visit: {{labels: '{labels}', dimensions: visit, {more}}}}}\n"
    path.write_text(text, "utf-8")
    return path


def said(folder: Path) -> list[str]:
    return (folder / "notes").read_text("utf-8").split()


def ended(cli: Cli, folder: Path) -> int:
    """Exit status of `status`, once the run is over."""
    deadline = time.monotonic() + 120
    while (status := cli("status", folder / "submit").returncode) == 15:
        assert time.monotonic() < deadline
    return status


def visits(folder: Path) -> list[str]:
    """The visits in the order in which their jobs ran, each once for a row of its jobs."""
    found = [word.split("-")[1] for word in said(folder) if not word.startswith("other")]
    return [visit for number, visit in enumerate(found) if not number or found[number - 1] != visit]


@pytest.mark.parametrize("how", ["implementation: noop", "implementation: group", "blocking: true"])
def test_one_group_runs_after_the_other(cli: Cli, write: Path, tmp_path: Path, how: str) -> None:
    ran = cli("submit", ordered(write, how), "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    assert visits(tmp_path) == ["1", "3", "20"]
    assert len(said(tmp_path)) == 3 * 3 + 2
    (run,) = cli("report", tmp_path / "submit", "--json").json["runs"]
    assert run["counts"]["SUCCEEDED"] == run["expected"] == 11, "what stands between groups is no job"


@pytest.mark.parametrize(
    ("how", "after", "states"),
    [
        ("implementation: noop", [], "PRUNED"),
        ("implementation: group, blocking: true", [], "PRUNED"),
        ("implementation: group", ["20"], "SUCCEEDED"),
    ],
)
def test_after_a_group_that_failed(
    cli: Cli, write: Path, tmp_path: Path, how: str, after: list[str], states: str
) -> None:
    (tmp_path / "fail-3").touch()
    ran = cli("submit", ordered(write, how), "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    assert visits(tmp_path) == ["1", "3", *after]
    (run,) = cli("report", "--id", tmp_path / "submit", "--json").json["runs"]
    jobs = run["jobs"]
    of_last = {job["state"] for job in jobs if "20" in job["name"]}
    assert of_last == {states}
    assert {job["state"] for job in jobs if job["label"] == "other"} == {"SUCCEEDED"}
    if states == "PRUNED":
        explained = cli("explain", tmp_path / "submit", "cal_20_").stdout
        assert "cal_3_" in explained
    (tmp_path / "fail-3").unlink()
    again = cli("restart", tmp_path / "submit")
    assert again.returncode == 0, again.stderr
    assert ended(cli, tmp_path) == 0
    assert said(tmp_path).count("cal-3") == 2
    assert said(tmp_path).count("cal-20") == 1
    assert said(tmp_path).count("isr-3-1") == 1
    if states == "PRUNED":
        assert visits(tmp_path)[-1] == "20"


def test_a_job_behind_a_group_says_so_and_can_be_cancelled(cli: Cli, write: Path, tmp_path: Path) -> None:
    path = ordered(write)
    path.write_text(path.read_text("utf-8").replace("[ ! -e fail-{visit} ]", "sleep 60"), "utf-8")
    assert cli("submit", path).returncode == 0
    explained = cli("explain", tmp_path / "submit", "isr_20_1")
    assert "It comes after the group 'visit 3' of 'by_visit', of which 3 last jobs have not succeeded yet." in (
        explained.stdout
    )
    document = cli("explain", tmp_path / "submit", "isr_20_1", "--json").json
    assert document["comes_after"] == [{"group": "'visit 3' of 'by_visit'", "must_succeed": True, "left": 3}]
    assert document["waits_for"] == []
    assert cli("cancel", tmp_path / "submit").returncode == 0
    assert ended(cli, tmp_path) == 16
    (run,) = cli("report", tmp_path / "submit", "--json").json["runs"]
    assert sum(run["counts"].values()) == 11


def test_a_picture_shows_jobs_only(cli: Cli, write: Path, tmp_path: Path) -> None:
    path = ordered(write)
    assert cli("prepare", path).returncode == 0
    drawn = cli("draw", tmp_path / "submit", "--json")
    assert drawn.returncode == 0, drawn.stderr
    assert {box["label"]: box["jobs"] for box in json.loads(drawn.stdout)["boxes"]} == {"isr": 6, "cal": 3, "other": 2}


def test_what_is_wrong_is_said_and_nothing_left(cli: Cli, write: Path, left_behind: LeftBehind) -> None:
    ran = cli("submit", ordered(write, labels="isr, other, nothing"))
    assert ran.returncode == 7
    assert "run.yaml:14:22" in ran.stderr
    assert "the job 'other_" in ran.stderr
    assert "lacks 'visit', which the order 'by_visit' needs" in ran.stderr
    assert "'ordering.by_visit.labels' names 'nothing', but no job has such a label" in ran.stderr
    assert not left_behind()
