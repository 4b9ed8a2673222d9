"""Jobs in pilots through the command line: many short ones, real workflows, cancel, and an engine that dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.command import Cli
from tests.live.runs import DIALECT_SITES, DialectSite, until
from tests.waiting import engine_of
from tests.workflows import Tasks

pytestmark = pytest.mark.live

PACKED = "packing: pilot\npilot: {cpus: 2, memory: 200, count: 2, walltime: 600, idle: 10}\n"
MONTAGE = str(Path(__file__).resolve().parents[2] / "doc" / "examples" / "montage" / "montage-2mass-005d")


@pytest.fixture(params=DIALECT_SITES.values())
def site(request: pytest.FixtureRequest) -> DialectSite:
    """A user's site on each batch system in turn."""
    found: DialectSite = request.getfixturevalue(request.param)
    return found


def many(count: int) -> Tasks:
    """Jobs that wait for nothing, and one that waits for the first."""
    return {**{f"t{number}": ("A", []) for number in range(count)}, "last": ("B", ["t0"])}


def test_many_short_jobs_in_few_allocations(site: DialectSite) -> None:
    run = site.begin(
        f"{PACKED}runQuantumCommand: 'echo {{jobName}} >> ${{PWD}}/notes'\n"
        "pipetask: {B: {packing: job, runQuantumCommand: 'exit 3'}}\nnumberOfRetries: 0\n",
        many(200),
    )
    assert site.ended(run)["state"] == "FAILED"
    assert site.counts(run) == {"SUCCEEDED": 200, "FAILED": 1}
    notes = (site.folder / "notes").read_text("utf-8").split()
    assert sorted(notes) == sorted(f"t{number}" for number in range(200)), "each ran once"
    (attempt,) = site.attempts(run, "t7")
    assert (attempt["exit_code"], attempt["cause"]) == (0, None)
    assert attempt["run_s"] is not None
    assert len(list((run / "pilots" / "mail").iterdir())) <= 2


def outputs_of(run: Path) -> dict[str, int]:
    """Return the sizes of the files that a replayed workflow made, by their paths."""
    folder = run / "data"
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["1000genome-chameleon-2ch-100k-001", MONTAGE], ids=["1000genome", "montage"])
def test_a_real_workflow_gives_what_it_gives_here(site: DialectSite, cli: Cli, name: str) -> None:
    packed = site.replay(name, PACKED)
    state = site.report(packed)
    assert state["state"] == "SUCCEEDED"
    assert len(list((packed / "pilots" / "mail").iterdir())) >= 1
    here = site.folder / "here.yaml"
    here.write_text((site.folder / "run.yaml").read_text("utf-8").replace(site.head, ""), "utf-8")
    ran = cli("submit", here, "--set", "packing=job", "--wait", "--json", timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert outputs_of(packed) == outputs_of(Path(ran.json["submit_dir"])) != {}


def test_a_cancelled_run_leaves_no_allocation(site: DialectSite) -> None:
    run = site.begin(f"{PACKED}runQuantumCommand: sleep 300\n", many(10))
    until(lambda: site.counts(run).get("RUNNING", 0) >= 2, "jobs run in a pilot")
    assert site.cli("cancel", run).returncode == 0
    assert site.ended(run)["state"] == "DELETED"
    until(lambda: not site.tasks(run), "the allocations are over")


def test_a_run_goes_on_after_its_engine_was_killed(site: DialectSite) -> None:
    run = site.begin(f"{PACKED}runQuantumCommand: 'sleep 0.2; echo {{jobName}} >> ${{PWD}}/notes'\n", many(60))
    until(lambda: site.counts(run).get("SUCCEEDED", 0) >= 5, "some jobs are over")
    os.kill(engine_of(run), signal.SIGKILL)
    assert site.cli("resume", run).returncode == 0
    assert site.ended(run)["state"] == "SUCCEEDED"
    notes = (site.folder / "notes").read_text("utf-8").split()
    assert sorted(notes) == sorted([*(f"t{number}" for number in range(60)), "last"]), "each ran once"
