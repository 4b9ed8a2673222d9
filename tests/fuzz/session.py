"""Runs many cases in processes of their own, and shrinks what fails."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

from tests.fuzz.kind import ROOT, Files
from tests.fuzz.kinds import KINDS, make_case
from tests.fuzz.targets import Finding, run_case

BATCH = 250
"""Cases of a process."""
_BLOCKED_S = 120.0
"""Time after which a process without an answer is blocked: processor time is bounded elsewhere."""
_PYTHON = sys.executable


@dataclass(frozen=True, kw_only=True)
class FailedCase:
    """A case that failed; `seed` and `number` make it again."""

    kind: str
    seed: int
    number: int
    finding: Finding


@dataclass(kw_only=True)
class CaseCounts:
    """How many cases ran, how many got past the parser, and how many no step refused."""

    run: int = 0
    read: int = 0
    accepted: int = 0

    def __str__(self) -> str:
        shares = (100 * count / (self.run or 1) for count in (self.read, self.accepted))
        return "{} cases, {:.0f} % past the parser, {:.0f} % accepted".format(self.run, *shares)


def run_cases(
    kind: str, seed: int, numbers: range, folder: Path, runs: Path, counts: CaseCounts
) -> Iterator[FailedCase]:
    """Run cases, count them, and yield those that failed."""
    begin = numbers.start
    while begin < numbers.stop:
        stop = min(numbers.stop, begin + BATCH)
        command = [_PYTHON, "-m", "tests.fuzz.worker", kind, str(seed), str(begin), str(stop), str(folder), str(runs)]
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
                counts.run += "begun" in record
                counts.read += record.get("read", False)
                counts.accepted += record.get("accepted", False)
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


def shrink(case: FailedCase, folder: Path, runs: Path, *, most: int = 400) -> Files:
    """Return the files of a case, the first as small as `most` trials make it, that still fail the same way."""
    files = make_case(case.kind, case.seed, case.number, runs)
    name = next(iter(files))

    def fails(content: bytes) -> bool:
        found = run_case(KINDS[case.kind], {**files, name: content}, folder / "case").finding
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
