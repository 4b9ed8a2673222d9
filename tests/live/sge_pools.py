"""Starts and stops a real Grid Engine on loopback for tests, and writes the site of a user beside it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.live.pools import HERE, free_ports, last_words, need
from tests.live.runs import LiveSite

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

    def run(self, *words: str, check: bool = True) -> str:
        """Run a program and return its output."""
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=check, timeout=60).stdout

    def pid(self, daemon: str) -> int:
        """Return a daemon's process id."""
        return int((self.root / "run" / f"{daemon}.pid").read_text("ascii"))


@contextmanager
def sge(root: Path) -> Iterator[SgePool]:
    """Run a cluster for the block."""
    need("sge")
    env: dict[str, str] = {}
    try:
        said = []
        for attempt in range(_TRIES):
            made_with = {"ROOT": str(root), "PORT_BASE": str(free_ports(2, behind=attempt))}
            env = {**os.environ, **made_with}
            up = subprocess.run(
                [HERE / "sge-up"], env=env, check=False, timeout=_UP_S, text=True, stdout=subprocess.DEVNULL,
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
class SgeSite(LiveSite):
    """A user's site on a cluster.

    Attributes
    ----------
    profile
        The site's profile.
    """

    head = "computeSite: cluster\n"

    pool: SgePool
    profile: Path

    def describe(self, text: str = "", own: str = "", *, poll: str = "pollInterval: 0.5") -> None:
        """Write the profile with additional keys of the site and of its map ``sge``."""
        lines = (
            f'bin: "{PROGRAMS}"', f'root: "{self.pool.root}"', "mem_resource: h_vmem", "parallelEnvironment: smp", poll,
            *own.splitlines(),
        )  # fmt: skip
        keys = "".join(f"  {line}\n" for line in lines if line)
        self.profile.parent.mkdir(parents=True, exist_ok=True)
        self.profile.write_text(f"title: A cluster\nservice: sge\n{text}sge:\n{keys}", "utf-8")

    def queue(self) -> str:
        """Return what qstat prints of all jobs."""
        return self.pool.run("qstat", "-u", "*", "-g", "d")
