"""Ordered groups on a real pool: a failure in the first, blocking and not, and restarts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.live.condor_runs import SITE, CondorSite
from tests.live.runs import until

pytestmark = pytest.mark.live

VISITS = """\
requestMemory: 50
numberOfRetries: 0
payloadName: {name}
pipeline:
  dimensions: {{visit: [1, 2, 3], detector: [1, 2]}}
  tasks:
    isr:
      dimensions: [visit, detector]
      command: "{isr} && echo {{visit}} >> {notes}"
    calibrate: {{dimensions: [visit], after: isr, command: "echo {{visit}} >> {notes}"}}
    sum: {{dimensions: [], after: calibrate, command: "echo sum >> {notes}"}}
ordering:
  by_visit: {{labels: "isr, calibrate", dimensions: visit, blocking: {blocking}}}
"""
FAILS = "test {visit}{detector} != 11 || test -e MENDED"
GOES_ON = {"SUCCEEDED": 7, "FAILED": 1, "PRUNED": 2}
BLOCKED = {"SUCCEEDED": 1, "FAILED": 1, "PRUNED": 8}


def _write(site: CondorSite, name: str, isr: str, *, blocking: bool, service: str = SITE) -> Path:
    path = site.folder / f"{name}.yaml"
    notes, truth = site.folder / f"{name}.notes", str(blocking).lower()
    path.write_text(service + VISITS.format(name=name, isr=isr, notes=notes, blocking=truth), "utf-8")
    return path


def _begin(site: CondorSite, name: str, isr: str, *, blocking: bool) -> Path:
    ran = site.cli("submit", _write(site, name, isr, blocking=blocking), "--json")
    assert ran.returncode == 0, ran.stderr
    return Path(ran.json["submit_dir"])


def _notes(site: CondorSite, name: str) -> list[str]:
    return (site.folder / f"{name}.notes").read_text("utf-8").split()


def test_a_failure_blocks_the_next_group_only_in_blocking_orderings(condor_site: CondorSite) -> None:
    isr = FAILS.replace("MENDED", str(condor_site.folder / "mended"))
    runs = {
        name: _begin(condor_site, name, isr, blocking=blocking)
        for name, blocking in (("loose", False), ("strict", True))
    }
    for name, counts in (("loose", GOES_ON), ("strict", BLOCKED)):
        assert condor_site.ended(runs[name])["state"] == "FAILED"
        assert condor_site.counts(runs[name]) == counts
        assert _here(condor_site, name, isr) == counts
    assert _notes(condor_site, "loose") == sorted(_notes(condor_site, "loose"))
    said = condor_site.cli("explain", runs["strict"], "isr_2_1").stdout
    assert "isr_1_1 (FAILED: exit code 1" in said
    assert "cancelled" not in said
    _again(condor_site, runs)


def _here(site: CondorSite, name: str, isr: str) -> dict[str, int]:
    """What comes of the same run without HTCondor."""
    service = "wmsServiceClass: local\ncomputeSite: here\nsite: {here: {}}\n"
    path = _write(site, f"{name}_here", isr, blocking=name == "strict", service=service)
    ran = site.cli("submit", path, "--json", "--wait", timeout=120)
    assert ran.returncode == 19, ran.stderr
    return site.counts(ran.json["submit_dir"])


def _again(site: CondorSite, runs: dict[str, Path]) -> None:
    """Once what failed can succeed, a restart does what is left, in the order of the groups."""
    (site.folder / "mended").touch()
    before = {name: len(_notes(site, name)) for name in runs}
    for run in runs.values():
        assert site.cli("restart", run, "--json").returncode == 0
    for run in runs.values():
        assert site.ended(run)["state"] == "SUCCEEDED"
        assert site.counts(run) == {"SUCCEEDED": 10}
    assert _notes(site, "loose")[before["loose"] :] == ["1", "1", "sum"]
    left = _notes(site, "strict")[before["strict"] :]
    assert left == ["1", "1", "2", "2", "2", "3", "3", "3", "sum"]


def test_a_cancelled_run_leaves_no_barrier_script_behind(condor_site: CondorSite) -> None:
    run = _begin(condor_site, "slow", "sleep 600", blocking=False)
    until(lambda: condor_site.counts(run).get("RUNNING") == 2, "the first group runs")
    until(lambda: _programs(run), "the gate waits")
    assert condor_site.cli("cancel", run, "--json").returncode == 0
    assert condor_site.ended(run)["state"] == "DELETED"
    until(lambda: not _programs(run), "the gate is gone")


def test_a_barrier_survives_a_killed_schedd(condor_site: CondorSite) -> None:
    go = condor_site.folder / "go"
    run = _begin(condor_site, "killed", f"until test -e {go}; do sleep 0.3; done", blocking=False)
    until(lambda: condor_site.counts(run).get("RUNNING") == 2, "the first group runs")
    (before,) = until(lambda: _programs(run), "the gate waits")
    os.kill(condor_site.pool.pid("schedd"), signal.SIGKILL)
    until(lambda: _programs(run) not in ([], [before]), "another gate waits", patience_s=120)
    go.touch()
    assert condor_site.ended(run)["state"] == "SUCCEEDED"
    assert _notes(condor_site, "killed") == sorted(_notes(condor_site, "killed"))


def _programs(run: Path) -> list[int]:
    """Numbers of the gates of a run that wait."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_gate(path, run / "wms")]


def _is_gate(process: Path, folder: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        return (process / "cwd").resolve() == folder and any(word.endswith(b"gate") for word in words)
    except OSError:
        return False


def test_a_barrier_script_that_fails_fails_the_run(condor_site: CondorSite) -> None:
    go = condor_site.folder / "go"
    run = _begin(condor_site, "shut", f"until test -e {go}; do sleep 0.3; done", blocking=False)
    (gate,) = until(lambda: _programs(run), "the gate waits")
    os.kill(gate, signal.SIGKILL)
    go.touch()
    assert condor_site.ended(run)["state"] == "FAILED"
    assert condor_site.counts(run)["SUCCEEDED"] > 1
    said = condor_site.cli("explain", run, "isr_2_1").stdout
    assert "DAGMan ended with exit code 1: PRE Script of node wms_noop_g0 died on signal 9" in said, said
    assert "cancelled" not in said
