"""Runs many cases in processes of their own, and shrinks what fails."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from tests.fuzz.cases import ROOT, Files, make_case
from tests.fuzz.targets import Finding, run_case

BATCH = 250
"""Cases of a process."""
_BLOCKED_S = 120.0
"""Time after which a process without an answer is blocked: processor time is bounded elsewhere."""
_RUN = """wfformat: graph.json
runQuantumCommand: 'case {label} in b) exit 3;; esac'
numberOfRetries: 1
"""
_TASKS = [
    {"name": label, "id": label, "parents": parents}
    for label, parents in (("a", []), ("b", []), ("c", ["a"]), ("d", ["b"]))
]


@dataclass(frozen=True, kw_only=True)
class FailedCase:
    """A case that failed; `seed` and `number` make it again."""

    kind: str
    seed: int
    number: int
    finding: Finding


def make_runs(folder: Path) -> Path:
    """Write the run directories that cases of the kind ``journal`` damage: one of today's format, and an older one."""
    runs = folder / "runs"
    runs.mkdir(parents=True)
    document = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": _TASKS}}}
    (folder / "graph.json").write_text(json.dumps(document), "utf-8")
    (folder / "run.yaml").write_text(_RUN, "utf-8")
    env = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
    command = [sys.executable, "-m", "longshore", "submit", "run.yaml", "--wait", "--set", f"submitPath={runs}/new"]
    subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True)
    assert (runs / "new" / "run.json").exists()
    for old in sorted(ROOT.glob("tests/golden/old_run*/**/run.json")):
        subprocess.run(["cp", "-r", old.parent, runs / f"old-{old.parent.name}"], check=True)
    return runs


def run_cases(kind: str, seed: int, begin: int, end: int, folder: Path, runs: Path | None) -> Iterator[FailedCase]:
    """Run cases, and yield those that failed."""
    while begin < end:
        stop = min(end, begin + BATCH)
        command = [sys.executable, "-m", "tests.fuzz.worker", kind, str(seed), str(begin), str(stop), str(folder)]
        if runs:
            command.append(str(runs))
        begun = begin
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            timer = Timer(_BLOCKED_S, worker.kill)
            timer.start()
            for line in worker.stdout:
                timer.cancel()
                timer = Timer(_BLOCKED_S, worker.kill)
                timer.start()
                record = json.loads(line)
                begun = record.get("begun", begun)
                if "case" in record:
                    finding = Finding(signature=record["signature"], text=record["text"])
                    yield FailedCase(kind=kind, seed=seed, number=record["case"], finding=finding)
            timer.cancel()
            assert worker.stderr is not None
            words = worker.stderr.read()
        if worker.returncode:
            finding = Finding(signature=f"the process died with {worker.returncode}", text=words[-2000:])
            yield FailedCase(kind=kind, seed=seed, number=begun, finding=finding)
            begin = begun + 1
        else:
            begin = stop


def shrink(case: FailedCase, folder: Path, runs: Path | None, *, most: int = 400) -> Files:
    """Return the files of a case, the first as small as `most` trials make it, that still fail the same way."""
    files = make_case(case.kind, case.seed, case.number, runs)
    name = next(iter(files))

    def fails(content: bytes) -> bool:
        found = run_case(case.kind, {**files, name: content}, folder / "case", runs)
        return found is not None and found.signature == case.finding.signature

    content = files[name]
    if case.finding.signature.startswith(("TooSlow", "the process died")) or not fails(content):
        return files
    for split, join in (
        (lambda text: text.splitlines(keepends=True), b"".join),
        (lambda text: [bytes([b]) for b in text], b"".join),
    ):
        content, most = _without_parts(split(content), join, fails, most)
    return {**files, name: content}


def _without_parts(
    parts: list[bytes], join: Callable[[list[bytes]], bytes], fails: Callable[[bytes], bool], most: int
) -> tuple[bytes, int]:
    """Leave out runs of parts, long ones first, as long as it still fails."""
    size = max(1, len(parts) // 2)
    while size and most > 0:
        begin = 0
        while begin < len(parts) and most > 0:
            most -= 1
            if fails(join(fewer := parts[:begin] + parts[begin + size :])):
                parts = fewer
            else:
                begin += size
        size //= 2
    return join(parts), most
