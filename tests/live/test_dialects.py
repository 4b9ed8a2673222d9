"""What every dialect of the batch kit must do on its real scheduler; success and failure are in ``test_runs``."""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.live.failing_programs import failing_programs
from tests.live.runs import DialectSite, many, until
from tests.waiting import engine_of

pytestmark = pytest.mark.live

GRAPH = {
    **{f"a{number}": ("A", []) for number in range(3)},
    **{f"b{number}": ("B", [f"a{number}"]) for number in range(3)},
    "c": ("C", ["b0", "b1"]),
    "d": ("D", ["a0", "a1", "a2"]),
}
FINAL = "finalJob: {whenRun: ALWAYS, command1: echo last, requestMemory: 50}\n"


def waiting_command(notes: Path, go: Path) -> str:
    """Return a command that notes its job, and ends well once there is a file."""
    return f"echo {{jobName}} >> {notes}; while ! test -e {go}; do sleep 0.2; done"


def test_its_cluster_answers(dialect_site: DialectSite) -> None:
    done = dialect_site.cli("ping", "--config", dialect_site.write(""), "--json")
    assert done.returncode == 0, done.stdout
    assert done.json["message"] == "the controller answers"
    assert done.json["capacity"]["cpus"] == dialect_site.node_processors


def test_more_memory_until_it_is_enough(dialect_site: DialectSite) -> None:
    # Six processes of 10 MB exceed the limit together: a single one could not get more than a ulimit. They keep it long
    # enough to be seen, as memory is looked at once a second. The last command keeps the shell from becoming the sleep.
    hog = "(x=$(head -c 10000000 /dev/zero | tr '\\0' a); sleep 4; :)"
    ran = dialect_site.submit(
        f"memoryMultiplier: 4\nnumberOfRetries: 2\nrunQuantumCommand: |\n  {' & '.join([hog] * 6)}; wait\n"
    )
    assert ran.returncode == 0, ran.stderr
    first, second = dialect_site.attempts(ran.json["submit_dir"], "a")
    assert (first["cause"], second["cause"]) == ("OOM", None)
    assert [dialect_site.memory_mb(each) for each in (first, second)] == [50, 200]


def test_equal_jobs_are_one_array_of_which_cancel_leaves_nothing(dialect_site: DialectSite) -> None:
    # A few members wait.
    number = dialect_site.processors + 4
    run = dialect_site.begin("runQuantumCommand: sleep 600\n", many(number))
    until(lambda: dialect_site.counts(run).get("RUNNING", 0) >= dialect_site.processors, "all processors are busy")
    assert len(dialect_site.tasks(run)) == number
    assert len(list((run / "batches").glob("*.json"))) == 1
    done = dialect_site.cli("cancel", run, "--json")
    assert done.returncode == 0, done.stderr
    assert dialect_site.ended(run)["state"] == "DELETED"
    assert dialect_site.counts(run) == {"DELETED": number}
    assert dialect_site.tasks(run) == []
    (attempt,) = dialect_site.attempts(run, "t0")
    assert attempt["cause"] == "CANCELLED"


def test_what_is_held_by_hand_is_shown_until_it_is_released(dialect_site: DialectSite) -> None:
    notes, go, busy = dialect_site.folder / "notes", dialect_site.folder / "go", dialect_site.processors
    run = dialect_site.begin(f"runQuantumCommand: {waiting_command(notes, go)}\n", many(busy + 2))
    until(lambda: dialect_site.counts(run) == {"RUNNING": busy, "PENDING": 2}, "all processors are busy")
    held = dialect_site.tasks(run, waiting=True)[0]
    dialect_site.hold(held)
    until(lambda: dialect_site.counts(run).get("HELD") == 1, "one is held")
    report = dialect_site.report(run)
    assert report["state"] == "RUNNING"
    reason, program = dialect_site.held_reason, dialect_site.release_program
    until(
        lambda: any(reason in note and program in note for note in dialect_site.report(run)["notes"]),
        "it is told how a person lets it go",
    )
    (name,) = [job["name"] for job in report["jobs"] if job["state"] == "HELD"]
    explained = dialect_site.cli("explain", run, name).stdout
    assert f"{name} " in explained
    assert "is HELD" in explained
    assert reason in explained
    go.touch()
    until(lambda: dialect_site.report(run)["state"] == "HELD", "all that is left is held")
    dialect_site.release(held)
    assert dialect_site.ended(run)["state"] == "SUCCEEDED"
    assert sorted(notes.read_text("utf-8").split()) == sorted(many(busy + 2))


def test_a_killed_engine_is_followed_by_one_that_adopts_what_runs(dialect_site: DialectSite) -> None:
    notes, go = dialect_site.folder / "notes", dialect_site.folder / "go"
    run = dialect_site.begin(f"runQuantumCommand: {waiting_command(notes, go)}\n", many(6))
    until(lambda: notes.exists() and len(notes.read_text("utf-8").split()) == 6, "all six run")
    os.kill(engine_of(run), signal.SIGKILL)
    resumed = dialect_site.cli("resume", run, "--json")
    assert resumed.returncode == 0, resumed.stderr
    go.touch()
    assert dialect_site.ended(run)["state"] == "SUCCEEDED"
    # Nothing was started twice.
    assert sorted(notes.read_text("utf-8").split()) == sorted(many(6))
    assert len(dialect_site.attempts(run, "t0")) == 1


def test_the_engine_runs_as_a_job_and_ends_with_the_run(dialect_site: DialectSite) -> None:
    dialect_site.configure(dialect_site.engine_job)
    ran = dialect_site.submit("runQuantumCommand: echo {jobName}\n", many(4), wait=False)
    assert ran.returncode == 0, ran.stderr
    assert any(f"of {dialect_site.title}" in note and "the engine is job" in note for note in ran.json["notes"])
    run = Path(ran.json["submit_dir"])
    assert dialect_site.ended(run)["state"] == "SUCCEEDED"
    assert dialect_site.counts(run) == {"SUCCEEDED": 4}
    until(lambda: not dialect_site.tasks(run), "the engine's job is over")


def test_a_native_run_comes_to_its_end_by_itself(dialect_site: DialectSite) -> None:
    if not dialect_site.native:
        pytest.skip(f"{dialect_site.title} has no dependencies")
    dialect_site.configure(dialect_site.native)
    done = dialect_site.submit(f"runQuantumCommand: echo {{jobName}}\n{FINAL}", GRAPH)
    assert done.returncode == 0, done.stderr
    notes = " ".join(done.json["notes"])
    assert "no job is tried again" in notes
    assert "9 jobs are in" in notes
    run = done.json["submit_dir"]
    assert dialect_site.counts(run) == {"SUCCEEDED": 9}
    until((Path(run) / "wms" / "native-collected.json").exists, "the journal is written")
    assert dialect_site.report(run)["state"] == "SUCCEEDED"
    assert dialect_site.counts(run) == {"SUCCEEDED": 9}
    lines = dialect_site.cli("events", run).stdout.splitlines()
    assert sum('"ended"' in line for line in lines) == 9
    assert dialect_site.cli("explain", run, "c").returncode == 0


def test_programs_of_which_half_of_the_calls_fail(dialect_site: DialectSite, tmp_path: Path) -> None:
    notes, go, env = tmp_path / "notes", tmp_path / "go", failing_programs(dialect_site, tmp_path, seed=17)
    said = f"echo {{jobName}} >> {notes}"
    tasks = {"a": ("A", []), **{f"b{number}": ("B", ["a"]) for number in range(4)}, "c": ("C", ["b0", "b1"])}
    labels = f"pipetask:\n  A: {{runQuantumCommand: '{said}; while ! test -e {go}; do sleep 0.2; done'}}\n"
    labels += f"  C: {{runQuantumCommand: '{said}; exit 3'}}\n"
    path = dialect_site.write(f"numberOfRetries: 0\nrunQuantumCommand: {said}\n{labels}", tasks)
    ran = dialect_site.cli("--log-level", "DEBUG", "submit", path, "--json", env=env)
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    until(notes.exists, "the first job runs")
    (tmp_path / "switch").touch()
    go.touch()
    assert dialect_site.ended(run)["state"] == "FAILED"
    (tmp_path / "switch").unlink()
    # None is lost, none runs twice, and what failed is the job alone.
    assert dialect_site.counts(run) == {"SUCCEEDED": 5, "FAILED": 1}
    assert sorted(notes.read_text("utf-8").split()) == sorted(tasks)
    for job in tasks:
        (attempt,) = dialect_site.attempts(run, job)
        assert (attempt["cause"], attempt["exit_code"]) == (("EXIT", 3) if job == "c" else (None, 0))
    failures = Counter((tmp_path / "failures").read_text("utf-8").splitlines())
    assert failures.total() >= 3, failures
    log = (run / "engine.log").read_text("utf-8")
    for name in {line.split()[0] for line in failures}:
        number = failures[f"{name} refused"] + failures[f"{name} lost"]
        # The engine may end before the answer of its last call.
        told = re.findall(rf"{name} answered 1 in \S+ s: {re.escape(dialect_site.silence)}", log)
        assert number - 1 <= len(told) <= number, (name, failures)
