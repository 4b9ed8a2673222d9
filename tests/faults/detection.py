"""Damages the files of runs at random, and counts damages that nothing tells.

``python -m tests.faults.detection --cases 100000`` prints a table of all kinds, and each damage that was not told.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.faults.damages import KINDS, DamagedFiles, damage_files, is_crash
from tests.faults.places import in_memory
from tests.faults.scenarios import SCENARIOS
from tests.faults.small_run import Effect, SmallRun
from tests.waiting import eventually

from longshore.config.plugins import shipped_path
from longshore.contract.executor import BatchMember
from longshore.contract.service import RunPaths
from longshore.engine.job_wrapper import WRAPPER, BatchFiles
from longshore.errors import LongshoreError
from longshore.runstate.open_run import open_run
from longshore.runstate.verify import Check, verify_run
from longshore.services.batch.records import BatchRecord, BatchRecords

GROWING: Final = ("journal/", "keeper/")
"""Folders of files that a run without an end still writes."""

MOST_PRINTED: Final = 40
OUTCOMES: Final = ("told", "crash", "void", "silent")
"""What becomes of a damage: it is told; it is what a crash leaves; it is behind a seal, where nothing counts; none."""


class BaseRun(NamedTuple):
    """A run whose files are damaged."""

    name: str
    root: Path
    files: Mapping[str, bytes]
    """What is covered."""
    is_over: bool


@dataclass
class Tally:
    """Numbers of damages by kind and outcome."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    silent: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """Return a table of all kinds."""
        rows = [" " * 24 + "".join(f"{outcome:>8}" for outcome in OUTCOMES)]
        for kind in (*KINDS, "all"):
            numbers = [
                sum(count for (of, end), count in self.counts.items() if end == outcome and kind in {of, "all"})
                for outcome in OUTCOMES
            ]
            rows.append(f"{kind:24}" + "".join(f"{number:8}" for number in numbers))
        return "\n".join(rows)


def make_runs(place: Path, names: Sequence[str]) -> list[BaseRun]:
    """Make real runs: ended ones, and one that was killed."""
    runs = []
    for name in names:
        run = SmallRun(place / name)
        run.prepare_folders()
        if name in UNFINISHED:
            UNFINISHED[name](run)
        else:
            SCENARIOS[name](run)
            assert run.wait_for_end(), name
        files = {path: (run.root / path).read_bytes() for path in covered_files(run.root)}
        assert not find_damages(run.root), f"{name} is damaged from the start: {find_damages(run.root)}"
        runs.append(BaseRun(name, run.root, files, name not in UNFINISHED))
    return runs


def _leave_unfinished(run: SmallRun) -> None:
    run.write(slow=["b"])
    answer = run.command("submit", "run.yaml")
    assert answer.status == 0, answer
    # An end that only the keeper knows yet would be told as a loss of the journal.
    eventually(lambda: Effect("start", "b", 1) in run.effects() and not find_damages(run.root))
    run.kill()


def _leave_batch(run: SmallRun) -> None:
    """Leave a run with a batch, of whose members one ended and two have just begun."""
    _leave_unfinished(run)
    paths = RunPaths(run.root)
    shutil.copy(shipped_path("bin", WRAPPER.name), run.root / WRAPPER)
    members = [
        BatchMember(
            job=job,
            attempt=1,
            name="n",
            command=f"exit {job}",
            environment={},
            working_directory="/",
            log=f"logs/n/{job}",
        )
        for job in range(3)
    ]
    # One that the journal has, for a batch is submitted only after its intent is on the disk.
    lines = (paths.journal / "0001.jsonl").read_text("utf-8").splitlines()
    tag = next(event["tag"] for event in map(json.loads, lines) if event["e"] == "submitting")
    record = BatchRecord(tag=tag, name=tag, members=((0, 1), (1, 1), (2, 1)), at=1.0, id=29)
    BatchRecords(paths).write(record, members)
    batch = BatchFiles(paths, tag)
    # Ends that the journal lacks would be noted.
    subprocess.run(["/bin/sh", "-c", batch.command(1)], check=False)
    for job in (1, 2):
        (batch.ends / f"{job}.1.began").touch()


UNFINISHED: Final[dict[str, Callable[[SmallRun], None]]] = {"unfinished": _leave_unfinished, "batch": _leave_batch}
"""Runs without an end."""


class _Silent:
    """Receives what a verification says on its way."""

    def note(self, text: str) -> None:
        pass

    def stage(self, text: str) -> None:
        pass


def covered_files(root: Path) -> list[str]:
    """Return the files whose content is vouched for, relative to the run directory."""
    covered = verify_run(open_run(str(root)), _Silent()).covered
    return sorted(path for path, check in covered.items() if check is not Check.FORM)


def find_damages(root: Path) -> list[str]:
    """Return what a verification says of a run beyond its being intact."""
    try:
        result = verify_run(open_run(str(root)), _Silent())
    except LongshoreError as error:
        return [str(error)]
    return [*map(str, result.damages), *result.notes]


def try_damages(
    runs: Sequence[BaseRun],
    cases: int,
    *,
    seed: int = 0,
    find: Callable[[Path], Sequence[str]] = find_damages,
) -> Tally:
    """Damage the files of the runs in so many ways, and count what is told."""
    tally = Tally()
    for number in range(cases):
        dice = Random(f"{seed}.{number}")
        run = dice.choice(runs)
        damaged = damage_files(run.files, dice, others=[other.files for other in runs if other is not run])
        if not damaged.changes:
            continue
        with_damage = _write(run, damaged.changes)
        try:
            told = find(run.root)
        finally:
            _write(run, {path: run.files[path] for path in with_damage})
        outcome = "told" if told else _excuse(run, damaged)
        tally.counts[damaged.kind, outcome] += 1
        if outcome == "silent":
            tally.silent.append(f"case {number} of seed {seed}: {run.name}: {damaged.kind} {list(damaged.changes)}")
    return tally


def _write(run: BaseRun, changes: Mapping[str, bytes | None]) -> list[str]:
    for path, content in changes.items():
        if content is None:
            (run.root / path).unlink()
        else:
            (run.root / path).write_bytes(content)
    return list(changes)


def _excuse(run: BaseRun, damaged: DamagedFiles) -> str:
    """Return the outcome of a damage that was not told."""
    lives = [path for path in run.files if path.startswith("journal/") and path.endswith(".jsonl")]
    sealed = lives if run.is_over else lives[:-1]
    changes = damaged.changes.items()
    if all(path in sealed and (content or b"").startswith(run.files[path]) for path, content in changes):
        return "void"
    if all(_is_same_end(path, run.files[path], content) for path, content in changes):
        return "void"
    # That no record is left of a batch or of an end equals that there was none so far.
    if all(content is None and path.startswith(("batches/", "ends/")) for path, content in changes):
        return "crash"
    # Only the newest files of a run without an end grow.
    newest = {max((path for path in run.files if path.startswith(folder)), default="") for folder in GROWING}
    if not run.is_over and all(path in newest and is_crash(run.files[path], content) for path, content in changes):
        return "crash"
    return "silent"


def _is_same_end(path: str, before: bytes, after: bytes | None) -> bool:
    """Return whether the last line of an end record is the same: what precedes it was for the time before the end."""
    return path.startswith("ends/") and (after or b"").splitlines()[-1:] == before.splitlines()[-1:]


def main() -> int:
    """Try damages, print a table, and return 1 if one was not told."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.detection")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", nargs="*", default=[*SCENARIOS, *UNFINISHED])
    options = parser.parse_args()
    place = in_memory()
    os.environ["XDG_STATE_HOME"] = str(place / "state")
    try:
        runs = make_runs(place, options.runs)
        begin = time.monotonic()
        tally = try_damages(runs, options.cases, seed=options.seed)
        for line in tally.silent[:MOST_PRINTED]:
            sys.stdout.write(f"{line}\n")
        files = sum(len(run.files) for run in runs)
        seconds = time.monotonic() - begin
        sys.stdout.write(f"{tally}\n{options.cases} damages of {files} files, {seconds:.0f} s\n")
        return bool(tally.silent)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    sys.exit(main())
