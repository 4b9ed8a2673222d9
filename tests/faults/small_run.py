"""A small run of real processes below a folder, under the preloaded library, whose jobs say what they do."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.command import compiled_modules
from tests.faults.shim import Fault, Shim
from tests.workflows import wfformat

import longshore
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.reports.report import report_run
from longshore.runstate.open_run import open_run
from longshore.system.host import processes_with_variable

PACKAGE_PARENT: Final = Path(longshore.__file__).resolve().parent.parent
JOBS: Final = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["a"]), "d": ("D", ["b", "c"])}
_ROOT_VARIABLE: Final = "FAULTS_FOLDER"
LIMIT_S: Final = 60.0


class Effect(NamedTuple):
    """What a job says it did."""

    what: str
    """``start`` or ``done``."""
    job: str
    attempt: int


class Answer(NamedTuple):
    """What a command printed, and its exit status; ``None`` when it did not end in time."""

    status: int | None
    output: str
    errors: str


@dataclass(frozen=True)
class SmallRun:
    """A folder with a home and a run, recorded from outside of it."""

    place: Path

    @property
    def shim(self) -> Shim:
        """Files of the recording."""
        return Shim(self.base, self.place)

    @property
    def base(self) -> Path:
        """The folder that is recorded."""
        return self.place / "base"

    @property
    def work(self) -> Path:
        """The folder of the run directory."""
        return self.base / "work"

    @property
    def inputs(self) -> Path:
        """The folder of the submitted files, where commands run."""
        return self.place / "inputs"

    @property
    def root(self) -> Path:
        """The run directory."""
        return self.work / "run"

    def prepare_folders(self) -> None:
        """Make the folders that exist before a recording begins."""
        self.work.mkdir(parents=True)
        (self.base / "home").mkdir(parents=True)
        self.inputs.mkdir(parents=True)

    def write(self, *, failing: Sequence[str] = (), slow: Sequence[str] = (), retries: int = 5) -> None:
        """Write the input files; `failing` jobs fail at their first attempt, and `slow` ones take half a second."""
        (self.inputs / "graph.json").write_text(json.dumps(wfformat(JOBS)), "utf-8")
        note = '"$LONGSHORE_JOB_NAME" "$LONGSHORE_JOB_ATTEMPT"'
        fails = "|".join(f"{job}-1" for job in failing) or "none"
        sleeps = "|".join(slow) or "none"
        command = f"""
  echo start {note} >> "$FAULTS_EFFECTS"
  case "$LONGSHORE_JOB_NAME" in {sleeps}) sleep 0.5;; esac
  case "$LONGSHORE_JOB_NAME-$LONGSHORE_JOB_ATTEMPT" in {fails}) exit 7;; esac
  echo done {note} >> "$FAULTS_EFFECTS"
"""
        (self.inputs / "run.yaml").write_text(
            f"wfformat: graph.json\nsubmitPath: {self.root}\nrequestMemory: 10\nresources: {{cpus: 2}}\n"
            f"numberOfRetries: {retries}\nretryOnLost: 20\nrunQuantumCommand: |{command}",
            "utf-8",
        )

    def environment(self, fault: Fault | None = None, *, boot_id: str = "", shim: bool = True) -> dict[str, str]:
        """Return the environment of a command."""
        home = self.base / "home"
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(self.place),
            "PYTHONPATH": str(PACKAGE_PARENT),
            **compiled_modules(),
            **(self.shim.variables(fault, boot_id=boot_id) if shim else {_ROOT_VARIABLE: str(self.base)}),
        }

    def command(self, *words: str, env: dict[str, str] | None = None, limit_s: float = LIMIT_S) -> Answer:
        """Run a command of the program in the folder of the input files."""
        output, errors = self.place / "output", self.place / "errors"
        with output.open("wb") as to, errors.open("wb") as told:
            process = subprocess.Popen(
                [sys.executable, "-m", "longshore", *words],
                cwd=self.inputs,
                env=env or self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=to,
                stderr=told,
            )
            try:
                status: int | None = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                status = None
        return Answer(status, output.read_text("utf-8", "replace"), errors.read_text("utf-8", "replace"))

    def effects(self) -> list[Effect]:
        """Return what the jobs said so far, whole lines only."""
        try:
            lines = self.shim.effects.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [parse_effect(line) for line in lines]

    def processes(self) -> list[int]:
        """Return the processes of this run that still live, jobs among them."""
        return [pid for pid, _ in processes_with_variable(_ROOT_VARIABLE, str(self.base)) if pid != os.getpid()]

    def wait_for_end(self, limit_s: float = LIMIT_S) -> bool:
        """Wait until no process of the run is left; kill what remains at the end. Return whether all ended."""
        deadline = time.monotonic() + limit_s
        while self.processes():
            if time.monotonic() > deadline:
                self.kill()
                return False
            time.sleep(0.05)
        return True

    def kill(self) -> None:
        """Kill all processes of the run between two recorded calls, as a power failure does."""
        with self.recording_stopped():
            while pids := self.processes():
                for pid in pids:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.005)

    @contextlib.contextmanager
    def recording_stopped(self) -> Iterator[None]:
        """Let no process be between a call and its record."""
        if not self.shim.trace.exists():
            yield
            return
        with self.shim.trace.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            yield

    def report(self) -> RunReport:
        """Read the report of the run in this process."""
        return report_run(open_run(str(self.root)), details=True)


def count_jobs(report: RunReport) -> dict[JobState, int]:
    """Return the number of jobs per state that has any."""
    return {state: number for state, number in report.counts.items() if number}


def parse_effect(line: str) -> Effect:
    """Read a line that a job wrote."""
    what, job, attempt = line.split()
    return Effect(what, job, int(attempt))
