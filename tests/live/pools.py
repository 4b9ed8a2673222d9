"""Starts and stops real schedulers on loopback for tests."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

import pytest

HERE = Path(__file__).resolve().parent
_PROGRAMS = {
    "slurm": ("slurmctld", "slurmd", "sbatch", "munged"),
    "slurmdbd": ("slurmdbd", "mariadbd", "sacct"),
    "sge": ("qsub", "sge_qmaster", "sge_execd"),
}
_UP_S = 150.0
_TRIES = 3
"""Attempts to start a pool: a free port may be taken before a daemon binds it."""
_PORTS = 20
_SHOWN = 5
"""Lines of each log in the error of a pool that did not start."""


@dataclass(frozen=True, kw_only=True)
class SlurmPool:
    """A running cluster.

    Attributes
    ----------
    root
        Where its files are.
    conf
        Its configuration.
    accounting
        Whether it has slurmdbd.
    made_with
        The variables that say to its recipe what to start.
    """

    root: Path
    conf: Path
    accounting: bool
    made_with: Mapping[str, str]

    recipe: ClassVar[Path] = HERE / "slurm-up"

    @property
    def env(self) -> dict[str, str]:
        """Return the environment in which Slurm's programs find the cluster."""
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def run(self, *words: str, check: bool = True) -> str:
        """Run a Slurm program and return its output."""
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=check, timeout=60).stdout

    def is_up(self) -> bool:
        """Whether the controller answers."""
        return "UP" in self.run("scontrol", "ping", check=False)

    def pid(self, daemon: str) -> int:
        """Return a daemon's process id."""
        return int((self.root / "run" / f"{daemon}.pid").read_text("ascii"))


def need(what: str) -> None:
    """Skip the test where programs are missing, or fail it where pools are required."""
    missing = [name for name in _PROGRAMS[what] if not _found(name)]
    why = f"{what}: {', '.join(missing)} not found"
    if os.geteuid() != 0:
        missing, why = ["root"], f"{what}: its daemons want root"
    if missing and os.environ.get("LONGSHORE_POOLS") == "required":
        pytest.fail(f"LONGSHORE_POOLS is 'required', but {why}")
    if missing:
        pytest.skip(why)


def _found(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/lib/gridengine")


@contextmanager
def slurm(root: Path, *, accounting: bool) -> Iterator[SlurmPool]:
    """Run a cluster of four nodes with four processors each for the block."""
    need("slurm")
    if accounting:
        need("slurmdbd")
    env: dict[str, str] = {}
    try:
        said = []
        for attempt in range(_TRIES):
            made_with = {
                "ROOT": str(root),
                "PORT_BASE": str(free_ports(_PORTS, behind=attempt)),
                "DBD": str(int(accounting)),
            }
            env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", **made_with}
            if why := _begin(env):
                said.append(f"on ports from {made_with['PORT_BASE']}: {why}\n{last_words(root / 'log')}")
                _end(env)
                continue
            yield SlurmPool(root=root, conf=root / "etc" / "slurm.conf", accounting=accounting, made_with=made_with)
            return
        pytest.fail("Slurm does not start " + "\n".join(said))
    finally:
        _end(env)


def _begin(env: Mapping[str, str]) -> str:
    """Start a cluster; return the error output if it does not start."""
    up = subprocess.run([SlurmPool.recipe], env=env, check=False, timeout=_UP_S, text=True, capture_output=True)
    return f"status {up.returncode}: {up.stderr.strip()}" if up.returncode else ""


def _end(env: Mapping[str, str]) -> None:
    subprocess.run([HERE / "slurm-down"], env={**env, "WIPE": "1"}, check=False, timeout=_UP_S)


def last_words(logs: Path) -> str:
    """Return the last lines of each daemon's log."""
    found = []
    for path in sorted(logs.glob("*")):
        lines = path.read_text("utf-8", "replace").splitlines()[-_SHOWN:]
        found += [f"  {path.name}: {line}" for line in lines]
    return "\n".join(found) or "  no daemon wrote a log"


def free_ports(number: int, *, behind: int = 0) -> int:
    """Return the first of ``number`` consecutive free ports on loopback."""
    # Workers that run at once look in ranges of their own: a port that is free now is soon taken.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 20_000 + 500 * (worker % 20)
    free = (
        base for base in range(first, first + 500, number) if all(_is_free(port) for port in range(base, base + number))
    )
    found = next(islice(free, behind, None), None)
    if found is None:
        raise OSError("no free ports in a row")
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
