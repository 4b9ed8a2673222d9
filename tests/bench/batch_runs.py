"""Runs of empty jobs on a batch system beside the same without Longshore: what the measurements of each share."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tests.bench.processes import cpu_s, installed_environment
from tests.waiting import engine_of
from tests.workflows import wfformat

from longshore.contract.service import RunPaths
from longshore.rundir.run_directory import read_snapshot

POLL_S = 0.2
CHAIN = (1,) * 10
"""Jobs per level of a chain."""
LEVELS = (20,) * 5
"""Jobs per level of a graph in which each job waits for all of the level before."""
_COLLECT_S = 10.0
"""Longest time that an engine collects what accounting knows after the end of its run."""


class BatchBench(ABC):
    """A cluster and runs on it.

    Parameters
    ----------
    folder
        Where runs go.
    environment
        Variables by which the programs find the cluster.
    search_path
        Where the programs are.
    """

    programs: ClassVar[tuple[str, ...]]
    """Programs whose calls are counted: those that submit, list the queue and ask accounting come first."""
    service: ClassVar[str]
    dependency: ClassVar[str]
    """How the batch system itself lets a job wait for others."""

    def __init__(self, folder: Path, environment: dict[str, str], search_path: str) -> None:
        self._folder = folder
        self._calls = folder / "calls"
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in self.programs:
            real = shutil.which(name, path=search_path)
            text = f'#!/bin/sh\necho "{name} $*" >>"{self._calls}"\nexec "{real}" "$@"\n'
            (self.bin / name).write_text(text, "utf-8")
            (self.bin / name).chmod(0o755)
        home = folder / "home"
        self._env = {
            **installed_environment(folder),
            **environment,
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            **{name: str(home / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")},
        }
        self._sites = home / "XDG_CONFIG_HOME" / "longshore" / "sites"
        self._sites.mkdir(parents=True)
        self._runs = 0
        self.run_lines = ""
        """More lines of the configurations of runs."""

    def set_variables(self, variables: Mapping[str, str]) -> None:
        """Set variables of the environment from which runs are submitted."""
        self._env |= variables

    @abstractmethod
    def site_lines(self) -> str:
        """Return the lines of the service's map that select the cluster, indented."""

    @abstractmethod
    def submit_bare(self, width: int, after: str) -> str:
        """Submit an array of empty jobs, which waits for another unless that is empty; return its id."""

    @abstractmethod
    def is_in_queue(self, job: str) -> bool:
        """Whether a job is in the queue."""

    def submit(self, *levels: int, own: str = "", command: str = "true") -> Path:
        """Submit a run of equal jobs, which do nothing by default; each waits for all of the level before.

        `own` has more lines of the service's map.
        """
        self._runs += 1
        self._calls.write_text("", "utf-8")
        (self._sites / "cluster.yaml").write_text(
            f"title: A cluster\nservice: {self.service}\n{self.service}:\n{self.site_lines()}{own}", "utf-8"
        )
        folder = self._folder / f"run{self._runs}"
        folder.mkdir()
        tasks: dict[str, tuple[str, list[str]]] = {}
        parents: list[str] = []
        for level, width in enumerate(levels):
            names = [f"t{level}_{number}" for number in range(width)]
            tasks |= dict.fromkeys(names, (f"L{level}", parents))
            parents = names
        (folder / "graph.json").write_text(json.dumps(wfformat(tasks)), "utf-8")
        (folder / "run.yaml").write_text(
            f"computeSite: cluster\nwfformat: graph.json\nrequestMemory: 50\nrunQuantumCommand: '{command}'\n"
            f"{self.run_lines}",
            "utf-8",
        )
        ran = subprocess.run(
            [sys.executable, "-m", "longshore", "submit", "run.yaml", "--json"],
            cwd=folder,
            env=self._env,
            check=True,
            capture_output=True,
            text=True,
        )
        return Path(json.loads(ran.stdout)["submit_dir"])

    def cancel(self, run: Path) -> None:
        """Cancel a run."""
        command = [sys.executable, "-m", "longshore", "cancel", str(run)]
        subprocess.run(command, env=self._env, check=True, capture_output=True)

    def calls(self) -> Counter[str]:
        """Return calls of each program since the latest submission."""
        lines = self._calls.read_text("utf-8").splitlines()
        return Counter(line.split()[0] for line in lines if not line.endswith(("--version", "--helpformat")))

    def bare_s(self, *levels: int) -> float:
        """Return seconds of bare arrays, each after the one before, until the queue is empty."""
        began = time.monotonic()
        job = ""
        for width in levels:
            job = self.submit_bare(width, job)
        while self.is_in_queue(job):
            time.sleep(POLL_S)
        return time.monotonic() - began

    def run_s(self, *levels: int) -> tuple[float, float, float]:
        """Return seconds of a run with and without preparation, and of its engine."""
        began = time.monotonic()
        run = self.submit(*levels)
        prepared = time.monotonic()
        engine_s = wait_for_end(run)
        return time.monotonic() - began, time.monotonic() - prepared, engine_s


def wait_for_end(run: Path) -> float:
    """Wait for the end of a run and return the engine's last known processor seconds."""
    used_s = 0.0
    while True:
        snapshot = read_snapshot(RunPaths(run))
        if snapshot is not None and snapshot.finished:
            return used_s
        if snapshot is not None:
            used_s = cpu_s(engine_of(run)) or used_s
        time.sleep(POLL_S)


def compare_array(bench: BatchBench, options: argparse.Namespace) -> None:
    """Print a run of empty jobs beside a bare array of the same size, in alternating rounds."""
    # The first start of each program compiles its modules, which an installation has done.
    bench.run_s(1)
    rounds = _Rounds()
    for number in range(options.rounds):
        calls = rounds.measure(bench, number, [options.jobs])
    # The interval between two questions is 2 s at the least: no more calls of each than that.
    most = rounds.longest_s / 2 + 2
    submit, queue, accounting = bench.programs[:3]
    print(
        f"calls that ask: {calls[queue]} {queue}, {calls[accounting]} {accounting}, at most one each interval, "
        f"which would be {most:.0f}; that hand over: {calls[submit]} {submit}"
    )
    print(f"{options.jobs} jobs of true: {rounds.summary('array', 1.15)}; newest round: {format_calls(calls)}")


def compare_chain(bench: BatchBench, options: argparse.Namespace) -> None:
    """Print a chain of empty jobs beside bare jobs that wait for each other."""
    _compare_levels(bench, options, f"chain of {len(CHAIN)}", CHAIN)


def compare_levels(bench: BatchBench, options: argparse.Namespace) -> None:
    """Print levels of empty jobs that wait for all of the level before, beside bare arrays that wait for each other."""
    _compare_levels(bench, options, f"{len(LEVELS)} levels of {LEVELS[0]} that join", LEVELS)


def _compare_levels(bench: BatchBench, options: argparse.Namespace, title: str, levels: Sequence[int]) -> None:
    # The first start of each program compiles its modules, which an installation has done.
    bench.run_s(1)
    rounds = _Rounds()
    for number in range(options.rounds):
        rounds.measure(bench, number, levels)
        # Its engine may still collect what accounting knows.
        time.sleep(_COLLECT_S)
        print(f"    {format_calls(bench.calls())}")
    print(f"{title}: {rounds.summary(bench.dependency, 1.5)}")


class _Rounds:
    """Rounds that alternate between bare arrays and runs."""

    def __init__(self) -> None:
        self._bare: list[float] = []
        self._whole: list[float] = []
        self._prepared: list[float] = []

    @property
    def longest_s(self) -> float:
        """Seconds of the longest run."""
        return max(self._whole)

    def measure(self, bench: BatchBench, number: int, levels: Sequence[int]) -> Counter[str]:
        """Measure a round, print it, and return the calls of programs for the run."""
        # Which of both is first alternates: the load of the machine may rise or fall.
        if number % 2 == 0:
            self._bare.append(bench.bare_s(*levels))
        whole, prepared, engine_s = bench.run_s(*levels)
        calls = bench.calls()
        if number % 2 == 1:
            self._bare.append(bench.bare_s(*levels))
        self._whole.append(whole)
        self._prepared.append(prepared)
        print(
            f"  bare {self._bare[-1]:.1f} s, run {whole:.1f} s ({prepared:.1f} s without preparing it; its engine used "
            f"{engine_s:.1f} s of a processor); load {os.getloadavg()[0]:.1f}; {format_calls(calls)}",
            flush=True,
        )
        return calls

    def summary(self, title: str, target: float) -> str:
        """Return medians, and how many times as long as the bare one a run took."""
        bare, whole, prepared = map(statistics.median, (self._bare, self._whole, self._prepared))
        return (
            f"bare {title} {bare:.1f} s, run {whole:.1f} s, {whole / bare:.2f} times (target {target:.2f}); without "
            f"preparing it {prepared:.1f} s, {prepared / bare:.2f} times (medians of {len(self._bare)})"
        )


def format_calls(calls: Counter[str]) -> str:
    """Format numbers of calls."""
    return ", ".join(f"{number} {name}" for name, number in sorted(calls.items()))
