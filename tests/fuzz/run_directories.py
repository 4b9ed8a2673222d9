"""Makes the run directories that cases change: runs that are over, were restarted, lost their engine, or are old."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.fuzz.kind import ROOT

from longshore.contract.executor import WaitReasons
from longshore.contract.service import RunPaths
from longshore.rundir.run_directory import write_waiting
from longshore.services.batch.records import BatchRecord, BatchRecords

_RUN = """wfformat: graph.json
runQuantumCommand: 'case {label} in b) exit 3;; esac'
numberOfRetries: 1
"""
_TASKS = [
    {"name": label, "id": label, "parents": parents}
    for label, parents in (("a", []), ("b", []), ("c", ["a"]), ("d", ["b"]))
]


def make_runs(folder: Path) -> Path:
    """Write the run directories into a folder, and return that folder."""
    runs = folder / "runs"
    runs.mkdir(parents=True)
    document = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": _TASKS}}}
    (folder / "graph.json").write_text(json.dumps(document), "utf-8")
    (folder / "run.yaml").write_text(_RUN, "utf-8")
    for name in ("new", "new-again"):
        _call_longshore(folder, "submit", "run.yaml", "--wait", "--set", f"submitPath={runs / name}")
        assert (runs / name / "journal" / "end.json").exists()
    _call_longshore(folder, "restart", str(runs / "new-again"))
    _call_longshore(folder, "report", "--watch", "--id", str(runs / "new-again"))
    assert len(list((runs / "new-again" / "journal").glob("0*.jsonl"))) == 2
    _make_abandoned_run(folder, runs)
    for old in sorted(ROOT.glob("tests/golden/old_run*/**/run.json")):
        subprocess.run(["cp", "-r", old.parent, runs / f"old-{old.parent.name}"], check=True)
    return runs


def _call_longshore(folder: Path, *words: str) -> None:
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
    command = [sys.executable, "-m", "longshore", *words]
    subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, timeout=60)


def _make_abandoned_run(folder: Path, runs: Path) -> None:
    """Make a run without the end of its journal, with an intervention, a batch and reasons why jobs wait."""
    run = RunPaths(runs / "new-abandoned")
    shutil.copytree(runs / "new-again", run.root)
    (run.journal / "end.json").unlink()
    last = run.journal / "0002.jsonl"
    lines = last.read_bytes().splitlines(keepends=True)
    last.write_bytes(b"".join(lines[: len(lines) // 2]))
    _call_longshore(folder, "hold", str(run.root), "--label", "b")
    records = BatchRecords(run)
    records.write(BatchRecord(tag="t", name="k7f3a-t", members=((0, 1), (1, 1)), at=1.0, id=29))
    ends = records.files("t").ends
    ends.mkdir(parents=True)
    (ends / "0.1").write_bytes(b'\n{"j":0,"a":1,"status":3,"run":1.5,"host":"node7"}\n')
    write_waiting(run, WaitReasons())
