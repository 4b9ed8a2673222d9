"""Runs on a real Grid Engine, through the command line: success, failure, memory, time, arrays, cancel and holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.runs import CHAIN, many, run_token, until
from tests.live.sge_pools import SgeSite
from tests.workflows import Tasks

pytestmark = pytest.mark.live


def test_a_graph_runs_in_arrays_under_names_of_its_run(sge_site: SgeSite) -> None:
    sge_site.describe(own='repo_key: "survey:x@y"')
    tasks = {**CHAIN, **many(6, "D")}
    ran = sge_site.submit("runQuantumCommand: echo $JOB_NAME $SGE_TASK_ID >> ${PWD}/notes\n", tasks)
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    assert sge_site.counts(run) == {"SUCCEEDED": 10}
    notes = (sge_site.folder / "notes").read_text("utf-8").split("\n")
    assert all(line.startswith(f"survey;xay{run_token(run)}") for line in notes if line)
    assert any(line.endswith(" 6") for line in notes), "an array"
    # Accounting is asked after the end of the run, too.
    extra = until(lambda: sge_site.attempts(run, "a")[0]["extra"], "what accounting has")
    assert (extra["qname"], extra["failed"]) == ("all.q", "0")


def test_the_causes_of_failures(sge_site: SgeSite) -> None:
    """Exit statuses, a signal, and the end of the time; what follows a failure is pruned."""
    ran = sge_site.submit(
        "numberOfRetries: 0\nrunQuantumCommand: exit 3\npipetask:\n  B: {runQuantumCommand: 'kill -SEGV $$'}\n"
        "  D: {requestWalltime: 3, runQuantumCommand: sleep 60}\n"
        # Grid Engine would start the one again, and put the other into the error state.
        "  E: {runQuantumCommand: exit 99}\n  F: {runQuantumCommand: exit 100}\n",
        {"a": ("A", []), "b": ("B", []), "c": ("C", ["a"]), "d": ("D", []), "e": ("E", []), "f": ("F", [])},
    )
    run = ran.json["submit_dir"]
    assert sge_site.counts(run) == {"FAILED": 5, "PRUNED": 1}
    (first,), (second,), (third,), *others = (sge_site.attempts(run, name) for name in "abdef")
    assert (first["cause"], first["exit_code"]) == ("EXIT", 3)
    assert (second["cause"], second["signal"]) == ("SIGNAL", 11)
    assert third["cause"] == "WALLTIME", third
    assert [(each["cause"], each["exit_code"]) for (each,) in others] == [("EXIT", 99), ("EXIT", 100)]


def test_what_no_host_can_serve_is_refused(sge_site: SgeSite) -> None:
    text = "requestResources: {gpu: 5}\nrunQuantumCommand: 'true'\n"
    refused = sge_site.cli("submit", sge_site.write(text))
    assert refused.returncode == 7, refused.stderr
    assert "because it offers only hc:gpu=2" in refused.stderr
    # Whoever submits all the same gets the refusal of qsub itself.
    ran = sge_site.submit(text)
    run = ran.json["submit_dir"]
    assert sge_site.counts(run) == {"FAILED": 1}
    shown = sge_site.cli("explain", run, "a")
    assert "no suitable queues" in shown.stdout
    details = sge_site.cli("ping", "--config", sge_site.folder / "run.yaml", "--json").json["details"]
    assert details["projects"] == "none"
    assert (
        details["partitions"] == "all.q: up, 1 host, 8 slots, any time; short.q: up, 1 host, 8 slots, at most 0:10:00"
    )
    assert details["qacct"] == "works"


def test_a_deleted_a_held_and_a_broken_job(sge_site: SgeSite) -> None:
    """Those that are deleted end as cancelled; the others are told, wait, and go on once a person lets them."""
    tasks: Tasks = {"deleted": ("A", []), "held": ("B", []), "broken": ("C", []), "killed": ("D", [])}
    # Two start when the test lets them; the folder of the third is missing.
    missing = sge_site.folder / "missing"
    text = (
        "numberOfRetries: 0\nrunQuantumCommand: 'true'\npipetask:\n"
        "  A: {directives: ['-h'], requestMemory: 60}\n  B: {directives: ['-h']}\n"
        f"  C: {{directives: ['-wd {missing}']}}\n  D: {{runQuantumCommand: sleep 600}}\n"
    )
    run = sge_site.begin(text, tasks)
    until(lambda: sge_site.queue().count("hqw") == 2 and "Eqw" in sge_site.queue(), "two holds and an error")
    ids = {line.split()[0]: line for line in sge_site.queue().splitlines()[2:]}
    held = [number for number, line in ids.items() if "hqw" in line]
    (broken,) = (number for number, line in ids.items() if "Eqw" in line)
    until(lambda: sge_site.counts(run).get("RUNNING") == 1, "one runs")
    (running,) = ids.keys() - {*held, broken}

    def reasons() -> str:
        return sge_site.cli("report", run).stdout

    until(lambda: "Eqw" in reasons() and "hqw" in reasons(), "the reasons")
    sge_site.pool.run("qdel", held[0], running)
    sge_site.pool.run("qrls", held[1])
    # Grid Engine had begun to start it, which is no reason to show it as one that runs.
    until(lambda: sge_site.report(run)["state"] == "HELD", "all that is left is held")
    assert sge_site.counts(run) == {"HELD": 1, "SUCCEEDED": 1, "DELETED": 2}
    assert "is HELD" in sge_site.cli("explain", run, "broken").stdout
    missing.mkdir()
    # Its exit status is 1 even when it cleared the error.
    sge_site.pool.run("qmod", "-cj", broken, check=False)
    report = sge_site.ended(run)
    assert (report["state"], sge_site.counts(run)) == ("DELETED", {"SUCCEEDED": 2, "DELETED": 2})
    causes = sorted(str(sge_site.attempts(run, name)[0]["cause"]) for name in tasks)
    assert causes == ["CANCELLED", "CANCELLED", "None", "None"]
