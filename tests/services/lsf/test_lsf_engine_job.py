"""An engine that is a job of LSF's stand-ins: it is warned, started again, and goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

from tests.live.runs import many, until
from tests.services.lsf.lsf_site import LsfSite


def lives(run: Path) -> int:
    """Return how many engines there have been."""
    return len(list((run / "journal").glob("[0-9]*.jsonl")))


def engine_id(run: Path) -> str:
    """Return the id of the engine's job."""
    return str(json.loads((run / "wms" / "engine-job.json").read_bytes())["id"])


def test_an_engine_near_its_time_limit_is_started_again_and_goes_on(lsf_site: LsfSite) -> None:
    lsf_site.describe(lsf="engineAs: job\nengineJob: {time: '10:00:00', application: small}")
    notes, go = lsf_site.folder / "notes", lsf_site.folder / "go"
    run = lsf_site.begin(
        f"runQuantumCommand: 'echo {{jobName}} >> {notes}; until test -e {go}; do sleep 0.1; done'\n", many(2)
    )
    until(lambda: notes.exists() and len(notes.read_text("utf-8").split()) == 2, "both run")
    # What LSF sends two minutes before the limit.
    lsf_site.order("bkill", "-s", "USR1", engine_id(run))
    until(lambda: lives(run) == 2, "the engine is started again")
    go.touch()
    assert lsf_site.ended(run)["state"] == "SUCCEEDED"
    assert sorted(notes.read_text("utf-8").split()) == ["t0", "t1"], "nothing ran twice"
    script = next(text for text in lsf_site.log() if "-engine" in text)
    wanted = ("-r", "-Q 99", "-wa USR1", "-wt 2", "-W 600", "-app small", "-M 1024MB")
    assert set(wanted) <= {line.removeprefix("#BSUB ") for line in script.splitlines()}


def test_an_engine_that_waits_is_alive_and_can_be_cancelled(lsf_site: LsfSite) -> None:
    busy = lsf_site.begin("runQuantumCommand: sleep 300\n", many(8), name="busy")
    until(lambda: lsf_site.counts(busy).get("RUNNING") == 8, "all slots are busy")
    lsf_site.describe(lsf="engineAs: job")
    ran = lsf_site.submit("runQuantumCommand: 'true'\n", wait=False, name="late")
    run = Path(ran.json["submit_dir"])
    assert any("waits in the queue" in note for note in ran.json["notes"])
    assert lsf_site.report(run)["state"] == "RUNNING"
    assert lsf_site.cli("cancel", run).returncode == 0
    assert lsf_site.ended(run)["state"] == "DELETED"
    assert lsf_site.tasks(run) == []
