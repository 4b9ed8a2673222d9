"""What goes wrong at a real Grid Engine: dead daemons, a dead engine, failures in native mode, and refusals."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.live.daemons import stopped
from tests.live.runs import CHAIN, many, until
from tests.live.sge_pools import SgeSite
from tests.waiting import engine_of

pytestmark = pytest.mark.live


def test_daemons_that_are_killed_fail_nothing(sge_site: SgeSite) -> None:
    notes = sge_site.folder / "notes"

    def command(name: str) -> str:
        return f"echo {{jobName}} >> {notes}; while ! test -e {sge_site.folder / name}; do sleep 0.2; done"

    run = sge_site.begin(
        f"numberOfRetries: 0\npipetask:\n  A: {{runQuantumCommand: '{command('first')}'}}\n"
        f"  B: {{runQuantumCommand: '{command('last')}'}}\n  C: {{runQuantumCommand: '{command('second')}'}}\n",
        {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", [])},
    )
    until(lambda: notes.exists() and len(notes.read_text("utf-8").split()) == 2, "two run")
    # Nothing is sent to the dead host: Grid Engine repeats a lost transfer (state "t") after 300 s.
    sge_site.pool.run("qmod", "-d", "*")
    with stopped(sge_site.pool, "execd", signal.SIGKILL):
        # Its jobs go on, and end, while their host is silent.
        (sge_site.folder / "first").touch()
        until(lambda: sge_site.counts(run).get("SUCCEEDED") == 1, "the end of the first is seen all the same")
    sge_site.pool.run("qmod", "-e", "*")
    until(lambda: len(notes.read_text("utf-8").split()) == 3, "what follows it runs once the host is back")
    # No fixed time: it is away until the run says so and has seen an end, which proves what a minute would.
    with stopped(sge_site.pool, "qmaster", signal.SIGKILL):
        until(
            lambda: any("the workload manager does not answer" in note for note in sge_site.report(run)["notes"]),
            "it is told that nobody answers",
        )
        (sge_site.folder / "second").touch()
        until(lambda: sge_site.counts(run).get("SUCCEEDED") == 2, "another end is seen")
    (sge_site.folder / "last").touch()
    assert sge_site.ended(run)["state"] == "SUCCEEDED"
    assert sorted(notes.read_text("utf-8").split()) == ["a", "b", "c"]


def test_a_queue_that_is_disabled_spends_no_attempt(sge_site: SgeSite) -> None:
    def attempts(run: Path, job: str) -> list[int]:
        return [each["number"] for each in sge_site.attempts(run, job)]

    sge_site.pool.run("qmod", "-d", "*")
    try:
        run = sge_site.begin("numberOfRetries: 0\nrunQuantumCommand: 'true'\n", many(4))
        until(lambda: sge_site.counts(run) == {"PENDING": 4}, "Grid Engine takes them, and they wait")
        # What no queue has is the request's fault, also now.
        asked = "numberOfRetries: 3\nrunQuantumCommand: 'true'\ndirectives: ['-l h_vmem=900G']\n"
        refused = sge_site.submit(asked, {"a": ("A", [])})
        assert refused.returncode == 19, refused.stderr
        assert attempts(Path(refused.json["submit_dir"]), "a") == [1]
    finally:
        sge_site.pool.run("qmod", "-e", "*")
    assert sge_site.ended(run)["state"] == "SUCCEEDED"
    assert attempts(run, "t0") == [1]


def test_an_engine_killed_with_500_jobs_in_the_queue(sge_site: SgeSite) -> None:
    # No queue takes any, so that all are still there.
    sge_site.pool.run("qmod", "-d", "*")
    try:
        sge_site.describe("limits: {arraySize: 125}\n")
        run = sge_site.begin("runQuantumCommand: 'true'\n", many(500))
        until(lambda: len(sge_site.tasks(run)) >= 250, "half of them are in the queue")
        os.kill(engine_of(run), signal.SIGKILL)
        resumed = sge_site.cli("resume", run, "--json")
        assert resumed.returncode == 0, resumed.stderr
        until(lambda: sge_site.counts(run) == {"PENDING": 500}, "all are handed over")
        # What a qsub that is not back yet was given counts as handed over, too.
        until(lambda: len(sge_site.tasks(run)) >= 500, "all are in the queue")
        tasks = sge_site.tasks(run)
        # Each once: those of the life that was killed were adopted.
        assert len(tasks) == len(set(tasks)) == 500
        assert sge_site.cli("cancel", run).returncode == 0
        assert sge_site.ended(run)["state"] == "DELETED"
        assert sge_site.counts(run) == {"DELETED": 500}
        assert sge_site.tasks(run) == []
    finally:
        sge_site.pool.run("qmod", "-e", "*")


def test_what_follows_a_failure_in_native_mode_is_not_run(sge_site: SgeSite) -> None:
    """Grid Engine starts it all the same: its wrapper looks for the success of its parents."""
    notes, go = sge_site.folder / "notes", sge_site.folder / "go"
    sge_site.configure(sge_site.native)
    # Arrays whose tasks correspond; of one, a task that fails, and one that a person deletes.
    tasks = {
        **{f"a{number}": ("A", []) for number in range(3)},
        **{f"b{number}": ("B", [f"a{number}"]) for number in range(3)},
        "c": ("C", ["b0", "b1"]),
        "d": ("D", ["b2"]),
    }
    run = sge_site.begin(
        f"runQuantumCommand: 'echo {{jobName}} >> {notes}; while ! test -e {go}; do sleep 0.2; done;"
        " test {jobName} != a1'\n",
        tasks,
    )
    until(lambda: notes.exists() and len(notes.read_text("utf-8").split()) == 3, "three run")
    deleted = sge_site.tasks(run)[0]
    sge_site.pool.run("qdel", deleted)
    # It would end by itself before Grid Engine comes to end it.
    until(lambda: deleted not in sge_site.tasks(run), "one is deleted")
    go.touch()
    assert sge_site.ended(run)["state"] == "FAILED"
    assert sge_site.counts(run) == {"SUCCEEDED": 3, "FAILED": 1, "DELETED": 1, "PRUNED": 3}
    assert sorted(notes.read_text("utf-8").split()) == ["a0", "a1", "a2", "b2", "d"]
    until((run / "wms" / "native-collected.json").exists, "the journal is written")
    assert sge_site.counts(run) == {"SUCCEEDED": 3, "FAILED": 1, "DELETED": 1, "PRUNED": 3}


def test_a_native_run_leaves_nothing_when_it_is_cancelled(sge_site: SgeSite) -> None:
    sge_site.configure(sge_site.native)
    notes = sge_site.folder / "notes"
    run = sge_site.begin(f"runQuantumCommand: 'echo {{jobName}} >> {notes}; sleep 600'\n", CHAIN)
    until(lambda: sge_site.counts(run).get("RUNNING") == 2, "two run")
    assert sge_site.cli("cancel", run).returncode == 0
    assert sge_site.ended(run)["state"] == "DELETED"
    until(lambda: not sge_site.tasks(run), "nothing is left")
    assert sge_site.counts(run) == {"DELETED": 4}
    assert sorted(notes.read_text("utf-8").split()) == ["a", "d"]
