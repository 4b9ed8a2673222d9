"""Stand-ins for Slurm's programs: they run scripts as processes of this machine, and show what a test says.

Files in their folder say what happens. ``reason``: jobs wait for it. ``failed``: jobs that run end as NODE_FAIL.
``booted``: when nodes booted. ``accounting``: there is accounting; ``recorded``: it has all jobs that are over.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

NAMES = ("sbatch", "squeue", "sacct", "scontrol", "scancel")
STARTED = "2026-11-20T14:06:30"
_FIELDS = "JobID JobIDRaw State ExitCode Start End ElapsedRaw TotalCPU MaxRSS ReqMem NodeList Reason WorkDir"


class _Task(NamedTuple):
    name: str
    stem: Path

    @property
    def state(self) -> str:
        for state in ("CANCELLED", "NODE_FAIL"):
            if self.stem.with_suffix(f".{state}").exists():
                return state
        if not self.stem.with_suffix(".pid").exists():
            return "PENDING"
        status = self.stem.with_suffix(".exit")
        if not (status.exists() and status.read_text("utf-8")):
            return "RUNNING"
        return "COMPLETED" if status.read_text("utf-8").strip() == "0" else "FAILED"


def write_programs(folder: Path) -> dict[str, str]:
    """Write the programs, and return the variables by which they are found."""
    folder.mkdir()
    for name in NAMES:
        path = folder / name
        path.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {folder} {name} "$@"\n', "utf-8")
        path.chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def fail_nodes(folder: Path) -> None:
    """Kill all jobs that run, with their wrappers, and show them as NODE_FAIL."""
    for task in _tasks(folder):
        if task.state == "RUNNING":
            task.stem.with_suffix(".NODE_FAIL").touch()
            os.killpg(int(task.stem.with_suffix(".pid").read_text("utf-8")), signal.SIGKILL)


def _tasks(folder: Path) -> Iterator[_Task]:
    for path in sorted(folder.glob("*.name")):
        yield _Task(path.read_text("utf-8"), path.with_suffix(""))


def _sbatch(folder: Path) -> str:
    script = sys.stdin.read()
    number = len(list(folder.glob("*.sh"))) + 1
    path = folder / f"{number}.sh"
    path.write_text(script, "utf-8")
    name = re.search(r"^#SBATCH --job-name=(\S+)", script, re.MULTILINE)
    array = re.search(r"^#SBATCH --array=0-(\d+)", script, re.MULTILINE)
    assert name
    for index in range(int(array[1]) + 1) if array else [None]:
        stem = folder / (str(number) if index is None else f"{number}_{index}")
        stem.with_suffix(".name").write_text(name[1], "utf-8")
        if (folder / "reason").exists():
            continue
        words = ["/bin/sh", "-c", f"/bin/sh {path}; echo $? >{stem}.exit"]
        env = {**os.environ, "SLURM_ARRAY_TASK_ID": str(index or 0)}
        quiet = subprocess.DEVNULL
        process = subprocess.Popen(words, env=env, start_new_session=True, stdin=quiet, stdout=quiet, stderr=quiet)
        stem.with_suffix(".pid").write_text(str(process.pid), "utf-8")
    return str(number)


def _squeue(folder: Path) -> Iterator[str]:
    reason = (folder / "reason").read_text("utf-8") if (folder / "reason").exists() else "None"
    for task in _tasks(folder):
        waits = task.state == "PENDING"
        start, node = ("N/A", "") if waits else (STARTED, "n1")
        yield f"{task.stem.name}|7|{task.state}|{reason if waits else 'None'}|{start}|{node}|{task.name}"


def _sacct(folder: Path, words: list[str]) -> Iterator[str]:
    if "--helpformat" in words:
        yield _FIELDS
    elif (folder / "recorded").exists():
        asked = next((word.partition("=")[2].split(",") for word in words if word.startswith("--format=")), [])
        for task in _tasks(folder):
            if task.state == "COMPLETED":
                known = {"JobID": task.stem.name, "JobIDRaw": "7", "State": task.state, "ExitCode": "0:0"}
                known |= {"Start": STARTED, "End": STARTED, "TotalCPU": "00:01.250", "WorkDir": "/"}
                yield "\x1f".join(known.get(field, "") for field in asked)


def _scontrol(folder: Path, words: list[str]) -> Iterator[str]:
    if "config" in words:
        kind = "slurmdbd" if (folder / "accounting").exists() else "none"
        yield f"AccountingStorageType = accounting_storage/{kind}\nMaxArraySize = 1001"
    elif "job" in words:
        for task in _tasks(folder):
            if task.stem.name == words[-1]:
                yield f"JobId={words[-1]} JobState={task.state} ExitCode=0:0 StartTime={STARTED} BatchHost=n1"
    elif "node" in words and (folder / "booted").exists():
        yield f"NodeName={words[-1]} State=IDLE BootTime={(folder / 'booted').read_text('utf-8')}"


def _scancel(folder: Path, words: list[str]) -> Iterator[str]:
    for task in _tasks(folder):
        if task.state == "PENDING" and {task.stem.name, task.stem.name.partition("_")[0]} & set(words):
            task.stem.with_suffix(".CANCELLED").touch()
    yield from ()


def main(folder: Path, program: str, words: list[str]) -> None:
    """Be one of the programs."""
    if "--version" in words:
        lines = iter(["slurm-wlm 22.05.8"])
    elif program == "sbatch":
        lines = iter([_sbatch(folder)])
    elif program == "squeue":
        lines = _squeue(folder)
    else:
        lines = {"sacct": _sacct, "scontrol": _scontrol, "scancel": _scancel}[program](folder, words)
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
