"""Prints how long `submit` and a whole run of real LSST tasks take beside the real BPS, in one HTCondor pool.

Usage: python -m tests.bench.beside_bps [--rounds N] [--only submit|run] [--visits N] [--detectors N]

Runs with the environment `.venv-lsst`; BPS has its own, `.venv-bps`. Both have the same repository, pipeline and pool,
and take turns. A round of `submit` alone ends with the removal of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.bench.figures import note_figure
from tests.bps_environment import find_environment
from tests.live.condor_pools import CondorPool, condor

DATA = Path(__file__).resolve().parents[1] / "data" / "lsst"
_END_S = 1800
_POLL_S = 0.1
_RUN = """\
pipelineYaml: pipeline.yaml
payload:
  payloadName: demo
  output: "u/NAME/ROUND"
  butlerConfig: "REPO"
  inCollection: DemoCam/raw/all
  dataQuery: "skymap='demosky'"
wmsServiceClass: lsst.ctrl.bps.htcondor.HTCondorService
memoryLimit: 4096
requestMemory: 512
finalJob: {requestCpus: 1, requestMemory: 512}
"""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One of the two: its name, the folder of its programs, and its variables."""

    name: str
    programs: Path
    env: Mapping[str, str]

    def call(self, program: str, *words: str, folder: Path) -> str:
        """Run one of its programs, and return what it printed."""
        done = subprocess.run(
            [self.programs / program, *words], cwd=folder, env=self.env, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SystemExit(f"{program} {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


class Round(NamedTuple):
    """Seconds of one run: until `submit` returned, its processor time, and until the pool had no job of the run."""

    submitted: float
    busy: float
    ended: float


def measure(each: Contender, pool: CondorPool, folder: Path, number: int, *, whole: bool) -> Round:
    """Submit a run, and wait until it is over; without `whole` it is removed at once."""
    text = _RUN.replace("NAME", each.name).replace("ROUND", str(number)).replace("REPO", str(folder / "repo"))
    (folder / "run.yaml").write_text(text, "utf-8")
    began, busy = time.monotonic(), _processor_s()
    each.call(each.name, "submit", "run.yaml", folder=folder)
    submitted, busy = time.monotonic() - began, _processor_s() - busy
    if not whole:
        pool.run("condor_rm", "-all")
    while pool.queue("ClusterId"):
        if time.monotonic() - began > _END_S:
            raise SystemExit(f"the run of {each.name} has not ended within {_END_S} s")
        time.sleep(_POLL_S)
    if whole:
        require_success(each, folder, number)
    return Round(submitted, busy, time.monotonic() - began)


def require_success(each: Contender, folder: Path, number: int) -> None:
    """End the benchmark if the run of a round failed: runs that fail are fast."""
    (path,) = (folder / "submit" / "u" / each.name / str(number)).rglob("*.metrics")
    found = json.loads(path.read_text("utf-8"))
    if found["exitcode"] or found["jobs_failed"]:
        raise SystemExit(f"the run of {each.name} failed: {found}")


def _processor_s() -> float:
    """Processor time of all programs that this process started and that are over; jobs of the pool are none of them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def contenders(pool: CondorPool, folder: Path) -> list[Contender]:
    """Return BPS and Longshore, each with an environment of its own."""
    bps = find_environment()
    if bps is None:
        raise SystemExit("there is no environment with the real BPS: `bin/test --all` makes it")
    home = {name: str(folder / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    ours = Path(sys.executable).parent

    def variables(programs: Path, path: str, given: Mapping[str, str]) -> dict[str, str]:
        return {
            **given,
            **home,
            # Modules are compiled once, as in an installation.
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
            "CONDOR_CONFIG": str(pool.config),
            # Jobs of BPS name their program by a variable, which DAGMan does not get by default.
            "_CONDOR_DAGMAN_MANAGER_JOB_APPEND_GETENV": "True",
            # BPS puts the submit directory below it.
            "PWD": str(folder),
            "PATH": os.pathsep.join([str(programs), pool.path]),
            "PYTHONPATH": path,
            "CTRL_MPEXEC_DIR": str(programs.parent),
            "DAF_BUTLER_DIR": str(programs.parent),
        }

    return [
        Contender(
            name="bps",
            programs=bps.folder / "bin",
            env=variables(bps.folder / "bin", str(folder), bps.variables()),
        ),
        Contender(name="longshore", programs=ours, env=variables(ours, str(folder), os.environ)),
    ]


def print_ratio(what: str, seconds: Mapping[str, list[float]], goal: float) -> None:
    """Print the medians of both, and their ratio beside its goal."""
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    for name, each in seconds.items():
        print(f"  {what:10} {name:10} {medians[name]:7.2f} s  ({', '.join(f'{one:.2f}' for one in sorted(each))})")
    note_figure(
        f"small LSST pipeline on HTCondor: {what}", f"{medians['longshore']:.2f} s", f"BPS: {medians['bps']:.2f} s"
    )
    print(f"  {what:10} {'ratio':10} {medians['longshore'] / medians['bps']:7.2f}    (goal {goal})")


def main() -> None:
    """Make a repository and a pool, and let both take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["submit", "run"], default="run")
    parser.add_argument("--visits", type=int, default=3)
    parser.add_argument("--detectors", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="beside-bps-") as name:
        folder = Path(name)
        for file in ("demo_tasks.py", "pipeline.yaml"):
            shutil.copy(DATA / file, folder)
        size = [str(options.visits), str(options.detectors)]
        subprocess.run([sys.executable, DATA / "make_repo.py", "repo", *size], cwd=folder, check=True)
        with condor(folder / "pool", POOL_CPUS="2") as pool:
            _take_turns(pool, folder, options.rounds, whole=options.only == "run")


def _take_turns(pool: CondorPool, folder: Path, rounds: int, *, whole: bool) -> None:
    both = contenders(pool, folder)
    for each in both:  # compiles modules, and makes caches
        measure(each, pool, folder, rounds, whole=False)
    rounds_of: dict[str, list[Round]] = {each.name: [] for each in both}
    for number in range(rounds):
        for each in both if number % 2 else both[::-1]:
            done = measure(each, pool, folder, number, whole=whole)
            rounds_of[each.name].append(done)
            print(
                f"  round {number}: {each.name:10} submit {done.submitted:6.2f} s,"
                f" {done.busy:6.2f} s of a processor, end {done.ended:7.2f} s",
                flush=True,
            )
    print_ratio("submit", {name: [each.submitted for each in all_of] for name, all_of in rounds_of.items()}, 0.8)
    print_ratio("processor", {name: [each.busy for each in all_of] for name, all_of in rounds_of.items()}, 0.8)
    if whole:
        print_ratio("whole run", {name: [each.ended for each in all_of] for name, all_of in rounds_of.items()}, 0.95)


if __name__ == "__main__":
    main()
