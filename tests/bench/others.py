"""Times the layered graph in other programs that run graphs, each with a log per job."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from tests.bench.graphs import parents_of, write_ninja

KNOWN = ("ninja", "make", "posix_spawn", "Parsl", "HyperQueue", "Snakemake")
"""Names of the programs."""

Write = Callable[[Path, int, int, str], list[str]]
"""Writes a program's files into a folder, given size, slots and command, and returns its argument vector."""


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """A program to compare with.

    Attributes
    ----------
    name, version
        Of the program.
    write
        Prepares a round.
    """

    name: str
    version: str
    write: Write

    def round(self, folder: Path, size: int, slots: int, command: str) -> tuple[float, float]:
        """Return jobs per second, and processor milliseconds per job of program and jobs together."""
        took, used, printed = self._run(folder, size, slots, command)
        if found := re.search(r"^seconds ([\d.]+)$", printed, re.MULTILINE):
            # What it says itself, without the time to import it.
            took = float(found[1])
        return size / took, used * 1000 / size

    def whole(self, folder: Path, size: int, slots: int, command: str) -> float:
        """Return the seconds from the start of the program to its end."""
        return self._run(folder, size, slots, command)[0]

    def _run(self, folder: Path, size: int, slots: int, command: str) -> tuple[float, float, str]:
        (folder / "logs").mkdir()
        argv = self.write(folder, size, slots, command)
        before = children_s()
        began = time.perf_counter()
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
        took = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"{self.name} failed: {(done.stderr or done.stdout)[-500:]}")
        if (logs := sum(1 for _ in (folder / "logs").rglob("*.log"))) < size:
            raise SystemExit(f"{self.name} wrote {logs} logs for {size} jobs")
        return took, children_s() - before, done.stdout


def children_s() -> float:
    """Return the processor time of all processes that this one started and that are over."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def installed_programs(python: str) -> Iterator[Other]:
    """Yield the installed programs, ninja first.

    Parameters
    ----------
    python
        An interpreter that may have Parsl, HyperQueue and Snakemake.
    """
    for name, write in (("ninja", _ninja), ("make", _make)):
        if path := shutil.which(name):
            yield Other(name=name, version=_first_line([path, "--version"]), write=write)
    limit = "in a bare loop: a log per job, no order, no records"
    yield Other(name="posix_spawn", version=limit, write=_script(sys.executable, _POSIX_SPAWN))
    for name, module, script in (("Parsl", "parsl", _PARSL), ("HyperQueue", "hyperqueue", _HYPERQUEUE)):
        code = f"import {module}; from importlib.metadata import version; print(version('{module}'))"
        if version := _first_line([python, "-c", code]):
            yield Other(name=name, version=version, write=_script(python, script))
    if version := _first_line([python, "-m", "snakemake", "--version"]):
        yield Other(name="Snakemake", version=version, write=_snakemake(python))


def _first_line(argv: list[str]) -> str:
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    return answer.stdout.strip().partition("\n")[0] if answer.returncode == 0 else ""


def _ninja(folder: Path, size: int, slots: int, command: str) -> list[str]:
    write_ninja(folder / "build.ninja", size, command)
    return ["ninja", "-j", str(slots)]


def _make(folder: Path, size: int, slots: int, command: str) -> list[str]:
    lines = [f"all: job_{job}\njob_{job}: {_names(job)}\n\t{command} > logs/$@.log 2>&1" for job in range(size)]
    (folder / "Makefile").write_text("\n".join(lines) + "\n", "utf-8")
    return ["make", "-s", "-r", f"-j{slots}", "all"]


def _names(job: int) -> str:
    return " ".join(f"job_{parent}" for parent in parents_of(job))


def _snakemake(python: str) -> Write:
    def write(folder: Path, size: int, slots: int, command: str) -> list[str]:
        _write_given(folder, size, slots, command)
        (folder / "Snakefile").write_text(_SNAKEFILE, "utf-8")
        return [python, "-m", "snakemake", "--cores", str(slots), "--quiet", "all"]

    return write


def _write_given(folder: Path, size: int, slots: int, command: str) -> None:
    given = {"slots": slots, "command": command, "parents": [parents_of(job) for job in range(size)]}
    (folder / "given.json").write_text(json.dumps(given), "utf-8")


def _script(python: str, script: str) -> Write:
    def write(folder: Path, size: int, slots: int, command: str) -> list[str]:
        _write_given(folder, size, slots, command)
        (folder / "script.py").write_text(script, "utf-8")
        return [python or sys.executable, "script.py"]

    return write


_POSIX_SPAWN = """
import json, os, shutil, time

given = json.load(open("given.json"))
command = given["command"]
needs_shell = any(sign in command for sign in ";&|<>$")
argv = ["/bin/sh", "-c", command] if needs_shell else command.split()
program = shutil.which(argv[0])
running, began = 0, time.perf_counter()
for number in range(len(given["parents"])):
    if running == given["slots"]:
        os.wait()
        running -= 1
    log = os.open(f"logs/{number}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.posix_spawn(program, argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, log, n) for n in (1, 2)])
    os.close(log)
    running += 1
for _ in range(running):
    os.wait()
print("seconds", time.perf_counter() - began)
"""

_PARSL = """
import json, time, parsl
from parsl import bash_app
from parsl.config import Config
from parsl.executors.threads import ThreadPoolExecutor

given = json.load(open("given.json"))
parsl.load(Config(executors=[ThreadPoolExecutor(max_threads=given["slots"])], initialize_logging=False))

@bash_app
def job(command, inputs=(), stdout=None, stderr=None):
    return command

began = time.perf_counter()
futures = []
for number, parents in enumerate(given["parents"]):
    log = (f"logs/{number}.log", "a")
    futures.append(job(given["command"], inputs=[futures[parent] for parent in parents], stdout=log, stderr=log))
for future in futures:
    future.result()
print("seconds", time.perf_counter() - began)
"""

_HYPERQUEUE = """
import json, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

given = json.load(open("given.json"))
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=given["slots"]))
    client = cluster.client()
    began = time.perf_counter()
    run = Job(max_fails=0)
    tasks = []
    needs_shell = any(sign in given["command"] for sign in ";&|<>$")
    argv = ["sh", "-c", given["command"]] if needs_shell else given["command"].split()
    for number, parents in enumerate(given["parents"]):
        log = f"logs/{number}.log"
        tasks.append(run.program(argv, stdout=log, stderr=log, deps=[tasks[parent] for parent in parents]))
    client.wait_for_jobs([client.submit(run)])
    print("seconds", time.perf_counter() - began)
"""

_SNAKEFILE = """
import json

given = json.load(open("given.json"))
parents = given["parents"]

rule all:
    input: expand("done/{number}", number=range(len(parents)))

rule job:
    input: lambda wildcards: [f"done/{parent}" for parent in parents[int(wildcards.number)]]
    output: touch("done/{number}")
    log: "logs/{number}.log"
    params: command=given["command"]
    shell: "{params.command} > {log} 2>&1"
"""
