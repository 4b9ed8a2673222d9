"""Starts real schedulers on loopback for tests, and stops them again."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
_PROGRAMS = {"slurm": ("slurmctld", "slurmd", "sbatch", "munged"), "slurmdbd": ("slurmdbd", "mariadbd", "sacct")}
_UP_S = 150.0


@dataclass(frozen=True, kw_only=True)
class SlurmPool:
    """A cluster that runs.

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

    @property
    def env(self) -> dict[str, str]:
        """The environment in which Slurm's programs find it."""
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def run(self, *words: str, check: bool = True) -> str:
        """Run one of Slurm's programs, and return what it printed."""
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=check, timeout=60).stdout

    def pid(self, daemon: str) -> int:
        """Number of a daemon's process."""
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
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


@contextmanager
def slurm(root: Path, *, accounting: bool) -> Iterator[SlurmPool]:
    """A cluster of four nodes with four processors each, as long as the block lasts."""
    need("slurm")
    if accounting:
        need("slurmdbd")
    made_with = {"ROOT": str(root), "PORT_BASE": str(_free_ports(20)), "DBD": str(int(accounting))}
    env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", **made_with}
    try:
        subprocess.run([HERE / "slurm-up"], env=env, check=True, timeout=_UP_S, stdout=subprocess.DEVNULL)
        yield SlurmPool(root=root, conf=root / "etc" / "slurm.conf", accounting=accounting, made_with=made_with)
    finally:
        subprocess.run([HERE / "slurm-down"], env={**env, "WIPE": "1"}, check=False, timeout=_UP_S)


def _free_ports(number: int) -> int:
    """The first of so many ports of loopback in a row that nobody listens on."""
    # Workers that run at once look in ranges of their own: a port that is free now is soon taken.
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = 20_000 + 500 * (worker % 20)
    for base in range(first, first + 500, number):
        if all(_is_free(port) for port in range(base, base + number)):
            return base
    raise OSError("no free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
