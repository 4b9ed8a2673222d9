"""Pilots on several nodes of an allocation: each runs jobs, one that dies is seen, and a cancel ends all."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.live.runs import DialectSite, many, until
from tests.live.sge_pools import SgeSite
from tests.waiting import engine_of

from longshore.services.batch.pilots.pilot_link import CheckedReader

pytestmark = pytest.mark.live

PACKED = """packing: pilot
pilot: {cpus: 2, memory: 200, count: 1, nodes: 2, walltime: 600, idle: 10}
numberOfRetries: 0
retryOnLost: 3
"""
SITES = {"slurm": "bare_site", "sge": "sge_nodes_site", "lsf": "lsf_site"}


@pytest.fixture(params=SITES.values(), ids=list(SITES))
def site(request: pytest.FixtureRequest) -> DialectSite:
    """A user's site of several nodes on each batch system in turn."""
    found: DialectSite = request.getfixturevalue(request.param)
    return found


def records(run: Path, mailbox: str) -> list[dict[str, Any]]:
    """Return what a pilot recorded so far."""
    try:
        text = CheckedReader(run / "pilots" / "mail" / mailbox / "records").read()
    except OSError:
        return []
    return [json.loads(line) for line in text.splitlines()]


def begun(run: Path, mailbox: str) -> int:
    """Return how many jobs a pilot began."""
    return sum(len(record["m"]) for record in records(run, mailbox) if record["r"] == "got")


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for_engine(run: Path) -> None:
    """Wait until the engine of a run is over, without the commands that `DialectSite.ended` repeats."""
    engine = engine_of(run)
    until(lambda: not lives(engine), "the end of the engine")


def test_a_pilot_that_dies_is_seen_and_its_jobs_run_again(site: DialectSite) -> None:
    run = site.begin(
        f"{PACKED}runQuantumCommand: 'sleep 0.3; echo {{jobName}} $OF_SUBMITTER >> ${{PWD}}/notes'\n",
        many(60),
        env={"OF_SUBMITTER": "a'b"},
    )
    until(lambda: begun(run, "00001.0") > 4 and begun(run, "00001.1") > 4, "both pilots run jobs")
    pilot = next(record for record in records(run, "00001.1") if record["r"] == "pilot")
    os.kill(pilot["pid"], signal.SIGKILL)
    wait_for_engine(run)
    assert site.ended(run)["state"] == "SUCCEEDED"
    assert site.counts(run) == {"SUCCEEDED": 60}
    ran = [line.split() for line in (site.folder / "notes").read_text("utf-8").splitlines()]
    assert {name for name, _ in ran} == {f"t{number}" for number in range(60)}
    # The environment of the submission reached all nodes.
    assert {value for _, value in ran} == {"a'b"}
    again = [job for job in (f"t{number}" for number in range(60)) if begins_twice(run, job)]
    assert 1 <= len(again) <= 8
    assert [attempt["cause"] for attempt in site.attempts(run, again[0])] == ["LOST", None]
    assert begun(run, "00002.0") + begun(run, "00002.1") >= len(again)


def begins_twice(run: Path, job: str) -> bool:
    """Whether a job had more than one attempt."""
    number = int(job.removeprefix("t"))
    mailboxes = [path.name for path in (run / "pilots" / "mail").iterdir()]
    taken = [
        attempt for mailbox in mailboxes for record in records(run, mailbox) if record["r"] == "got"
        for attempt in record["m"] if attempt[0] == number
    ]  # fmt: skip
    return len(taken) > 1


def test_a_parallel_environment_that_cannot_start_pilots_is_told(sge_nodes_site: SgeSite) -> None:
    site = sge_nodes_site
    path = site.write(PACKED.replace("cpus: 2", "cpus: 1"), many(2))
    asked = site.cli("ping", "--config", path)
    assert "on several hosts with 1 processor each: its allocation_rule is '2'" in asked.stdout
    site.describe()
    assert "'sge.nodesEnvironment' is missing" in site.cli("ping", "--config", path).stdout
    site.describe(own="nodesEnvironment: smp")
    refused = site.cli("submit", site.write(PACKED, many(2)))
    assert refused.returncode != 0
    assert "the parallel environment 'smp' cannot start pilots on several hosts: its control_slaves is FALSE" in (
        refused.stderr
    )


def test_a_cancel_ends_the_pilots_of_all_nodes(site: DialectSite) -> None:
    run = site.begin(f"{PACKED}runQuantumCommand: sleep 300\n", many(10))
    until(lambda: begun(run, "00001.0") == begun(run, "00001.1") == 2, "both pilots run jobs")
    pids = [records(run, f"00001.{node}")[0]["pid"] for node in (0, 1)]
    assert all(map(lives, pids))
    assert site.cli("cancel", run).returncode == 0
    wait_for_engine(run)
    assert site.ended(run)["state"] == "DELETED"
    until(lambda: not any(map(lives, pids)), "the pilots are gone")
    until(lambda: not site.tasks(run), "the allocation is over")
