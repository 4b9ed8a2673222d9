"""Statistics of a run on HTCondor, and its second report with every job, which comes from a cache."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import until
from tests.workflows import Tasks

pytestmark = pytest.mark.live

TASKS: Tasks = {"a1": ("A", []), "a2": ("A", []), "b": ("B", ["a1", "a2"])}


def test_a_finished_run_has_statistics_and_is_reported_again(condor_site: CondorSite) -> None:
    ran = condor_site.submit(
        "numberOfRetries: 1\nrunQuantumCommand: 'sleep 1'\n"
        "pipetask: {B: {runQuantumCommand: 'mkdir ${PWD}/seen || exit 0; exit 3'}}\n",
        TASKS,
    )
    assert ran.returncode == 0, ran.stderr
    run = ran.json["submit_dir"]
    (found,) = condor_site.cli("stats", run, "--json").json["runs"]
    labels = {entry["label"]: entry["statistics"] for entry in found["labels"]}
    assert (labels["B"]["attempts"], labels["B"]["retries"], labels["B"]["badput"]["attempts"]) == (2, 1, 1)
    assert labels["A"]["wait_s"]["known"] == labels["A"]["run_s"]["known"] == 2
    assert labels["A"]["run_s"]["min"] >= 1.0
    assert [entry["host"] for entry in found["hosts"]] != [None]

    first, again = (condor_site.cli("report", "--id", run, "--json").json["runs"] for _ in range(2))
    assert (Path(run) / "cache" / "details.json").exists()
    assert again == first
    assert {job["state"] for job in again[0]["jobs"]} == {"SUCCEEDED"}


def test_the_dashboard_follows_a_run(condor_site: CondorSite) -> None:
    gate = condor_site.folder / "gate"
    condor_site.begin(f"runQuantumCommand: 'while ! test -e {gate}; do sleep 0.2; done; echo done'\n")
    line = [sys.executable, "-m", "longshore", "dashboard", "--no-open"]
    with subprocess.Popen(line, cwd=condor_site.folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        address = process.stdout.readline().strip().partition(": ")[2]

        def page(name: str = "") -> str:
            with urllib.request.urlopen(f"{address}{name}", timeout=60) as answer:  # noqa: S310 - an address of our own
                text: str = answer.read().decode()
                return text

        try:
            (link,) = set(re.findall(r'href="(run/[^"]+)"', page()))
            until(lambda: "1 running" in page(link), "a running job on the page")
            assert 'class="badge b-RUNNING"' in page(link)
            gate.touch()
            until(lambda: 'class="badge b-SUCCEEDED"' in page(link), "the end of the run on the page")
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()
