"""Starts and stops a real Grid Engine on loopback for tests, and writes the site of a user beside it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
from tests.faults.shim import build_shim, require_compiler
from tests.live.pools import HERE, free_ports, last_words, need
from tests.live.runs import DialectSite, run_token

PROGRAMS = Path("/usr/lib/gridengine")
"""Folder of Debian's programs; those in the PATH are wrappers that find out the cluster by themselves."""
_UP_S = 60.0
_TRIES = 3


@dataclass(frozen=True, kw_only=True)
class SgePool:
    """A running cluster of one host with eight slots.

    Attributes
    ----------
    root
        Where its files are.
    made_with
        The variables that say to its recipe what to start.
    """

    root: Path
    made_with: Mapping[str, str]

    recipe: ClassVar[Path] = HERE / "sge-up"
    nodes_recipe: ClassVar[Path] = HERE / "sge-nodes-up"
    """Recipe of a cluster of two hosts."""

    @property
    def variables(self) -> dict[str, str]:
        """Return the variables by which the programs find its ports, which other clusters have in /etc/services."""
        base = int(self.made_with["PORT_BASE"])
        return {"SGE_QMASTER_PORT": str(base), "SGE_EXECD_PORT": str(base + 1)}

    @property
    def env(self) -> dict[str, str]:
        """Return the environment in which the programs find the cluster."""
        path = f"{PROGRAMS}:{os.environ['PATH']}"
        return {**os.environ, **self.variables, "SGE_ROOT": str(self.root), "SGE_CELL": "default", "PATH": path}

    @property
    def programs(self) -> Path:
        """Return the folder of the programs for the site of a user."""
        own = self.root / "bin"
        return own if own.is_dir() else PROGRAMS

    def run(self, *words: str, check: bool = True) -> str:
        """Run a program and return its output."""
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=check, timeout=60).stdout

    def is_up(self) -> bool:
        """Whether the qmaster answers."""
        return "NAME" in self.run("qconf", "-sc", check=False).upper()

    def pid(self, daemon: str) -> int:
        """Return a daemon's process id."""
        return int((self.root / "run" / f"{daemon}.pid").read_text("ascii"))


@contextmanager
def sge(root: Path) -> Iterator[SgePool]:
    """Run a cluster for the block."""
    with _cluster(root, [str(SgePool.recipe)], {}) as pool:
        yield pool


@contextmanager
def sge_of_two_hosts(root: Path) -> Iterator[SgePool]:
    """Run a cluster of two hosts for the block.

    Both are this machine: the second one has a name and a loopback address of its own, in namespaces of the kernel.
    """
    need("sge")
    require_compiler()
    probe = ["unshare", "--mount", "--uts", "true"]
    if subprocess.run(probe, check=False, capture_output=True).returncode:
        if os.environ.get("LONGSHORE_POOLS") == "required":
            pytest.fail("LONGSHORE_POOLS is 'required', but this container has no namespaces of its own")
        pytest.skip("this container has no namespaces of its own")
    shim = {"NODE_SHIM": str(build_shim(HERE / "node_address.c"))}
    with _cluster(root, ["unshare", "--mount", str(SgePool.nodes_recipe)], shim) as pool:
        yield pool


@contextmanager
def _cluster(root: Path, recipe: list[str], variables: Mapping[str, str]) -> Iterator[SgePool]:
    need("sge")
    env: dict[str, str] = {}
    try:
        said = []
        for attempt in range(_TRIES):
            made_with = {"ROOT": str(root), "PORT_BASE": str(free_ports(2, behind=attempt)), **variables}
            env = {**os.environ, **made_with}
            up = subprocess.run(
                recipe, env=env, check=False, timeout=_UP_S, text=True, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )  # fmt: skip
            if up.returncode == 0:
                yield SgePool(root=root, made_with=made_with)
                return
            said.append(f"on ports from {made_with['PORT_BASE']}: {up.stderr.strip()}\n{last_words(root / 'log')}")
            _end(env)
        pytest.fail("Grid Engine does not start " + "\n".join(said))
    finally:
        _end(env)


def _end(env: Mapping[str, str]) -> None:
    subprocess.run([HERE / "sge-down"], env={**env, "WIPE": "1"}, check=False, timeout=_UP_S)


@dataclass(frozen=True, kw_only=True)
class SgeSite(DialectSite):
    """A user's site on a cluster."""

    title = "Grid Engine"
    processors = 8
    node_processors = 8
    engine_job = "engineAs: job"
    native = "mode: native"
    held_reason = "held (hqw)"
    release_program = "qrls"
    program_names = ("qsub", "qstat", "qacct", "qdel", "qconf", "qalter")
    silence = "error: unable to send message to qmaster using port 6444 on host 'localhost': got send error"

    pool: SgePool

    def configure(self, own: str) -> None:
        """Write the profile with additional lines of the map ``sge``."""
        self.describe(own=own)

    def tasks(self, run: Path, *, waiting: bool = False) -> list[str]:
        """Return the ids of a run's tasks that are not over, or of those that wait."""
        jobs = re.findall(r"<job_list\b.*?</job_list>", self.pool.run("qstat", "-u", "*", "-g", "d", "-xml"), re.DOTALL)
        rows = [dict(re.findall(r"<(\w+)>([^<]*)</", job)) for job in jobs]
        return [
            ".".join(filter(None, (row["JB_job_number"], row.get("tasks"))))
            for row in rows
            if row["JB_name"].startswith(run_token(run)) and (not waiting or "q" in row["state"])
        ]

    def hold(self, task: str) -> None:
        """Hold a waiting task by hand."""
        self.pool.run("qhold", task)

    def release(self, task: str) -> None:
        """Release a held task by hand."""
        self.pool.run("qrls", task)

    @property
    def search_path(self) -> str:
        """Where the programs are."""
        return str(PROGRAMS)

    def use_programs(self, folder: Path) -> dict[str, str]:
        """Write the profile with the programs of a folder; no environment is needed."""
        self.describe(programs=folder)
        return {}

    def describe(
        self, text: str = "", own: str = "", *, poll: str = "pollInterval: 0.5", programs: Path | None = None
    ) -> None:
        """Write the profile with additional keys of the site and of its map ``sge``."""
        folder = programs or self.pool.programs
        lines = (
            f'bin: "{folder}"', f'root: "{self.pool.root}"', "mem_resource: h_vmem", "parallelEnvironment: smp", poll,
            *own.splitlines(),
        )  # fmt: skip
        keys = "".join(f"  {line}\n" for line in lines if line)
        self.profile.parent.mkdir(parents=True, exist_ok=True)
        self.profile.write_text(f"title: A cluster\nservice: sge\n{text}sge:\n{keys}", "utf-8")

    def queue(self) -> str:
        """Return what qstat prints of all jobs."""
        return self.pool.run("qstat", "-u", "*", "-g", "d")
