"""What accounting knows follows the ends of jobs: nothing waits for it, and every reader shows it once it is there."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.live.runs import SlurmSite, until

pytestmark = pytest.mark.live

CHAIN = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"])}


def slow_accounting(folder: Path, go: Path) -> dict[str, str]:
    """Return variables by which ``sacct`` answers only once there is such a file."""
    folder.mkdir()
    shim = folder / "sacct"
    # No longer than a minute and a half, as nobody ends it when a test fails.
    wait = f'n=0; while ! test -e "{go}" && test $n -lt 900; do sleep 0.1; n=$((n + 1)); done'
    wait = f'case "$*" in *--jobs=*) {wait};; esac'
    shim.write_text(f'#!/bin/sh\n{wait}\nexec "{shutil.which("sacct")}" "$@"\n', "utf-8")
    shim.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def events_of(site: SlurmSite, run: str) -> list[dict[str, Any]]:
    ran = site.cli("events", run, "--json")
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_children_start_and_the_run_ends_before_accounting_answers(kept_site: SlurmSite, tmp_path: Path) -> None:
    go = tmp_path / "go"
    env = slow_accounting(tmp_path / "bin", go)
    ran = kept_site.submit("runQuantumCommand: 'true'\n", CHAIN, env=env)
    assert ran.returncode == 0, ran.stderr
    run = ran.json["submit_dir"]
    before = [event["event"] for event in events_of(kept_site, run)]
    assert (before.count("started"), before[-1]) == (3, "finished")
    (attempt,) = kept_site.attempts(run, "a")
    assert (attempt["peak_memory_b"], attempt["cpu_s"], attempt["extra"]) == (None, None, {}), "not known yet"
    go.touch()
    until(lambda: sum(event["event"] == "facts" for event in events_of(kept_site, run)) == 3, "the facts of all jobs")
    assert [event["event"] for event in events_of(kept_site, run)][-4:] == ["finished", "facts", "facts", "facts"]
    for job in CHAIN:
        (attempt,) = kept_site.attempts(run, job)
        assert attempt["cpu_s"] is not None
        assert attempt["extra"]["State"] == "COMPLETED"
    assert "processor" in kept_site.cli("explain", run, "a").stdout
    verified = kept_site.cli("verify", run)
    assert verified.returncode == 0, verified.stdout
    assert "journal/0001.late.jsonl" in kept_site.cli("verify", run, "--list").stdout


def test_a_restart_is_not_refused_while_facts_are_collected(kept_site: SlurmSite, tmp_path: Path) -> None:
    go = tmp_path / "go"
    env = slow_accounting(tmp_path / "bin", go)
    done = tmp_path / "done"
    ran = kept_site.submit(f"runQuantumCommand: test -e {done}\nnumberOfRetries: 0\n", env=env)
    assert ran.json["state"] == "FAILED"
    done.touch()
    again = kept_site.cli("restart", ran.json["submit_dir"], "--wait", "--json", timeout=120)
    assert again.returncode == 0, again.stderr
    assert kept_site.report(ran.json["submit_dir"])["state"] == "SUCCEEDED"
