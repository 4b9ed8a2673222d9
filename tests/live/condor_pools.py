"""Starts a real HTCondor pool on loopback for tests, and stops it again."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
_PROGRAMS = ("apt-get", "apt-cache", "dpkg-deb", "flock")
_UP_S = 240.0
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "longshore-tests"
"""Where its programs are unpacked to: the user's cache, and not that of a test, which begins empty."""


@dataclass(frozen=True, kw_only=True)
class CondorPool:
    """A pool that runs.

    Attributes
    ----------
    root
        Where its files are.
    path
        ``PATH`` with its programs in front.
    made_with
        The variables that say to its recipe what to start.
    """

    root: Path
    path: str
    made_with: Mapping[str, str]

    @property
    def config(self) -> Path:
        """Its configuration."""
        return self.root / "condor_config"

    @property
    def env(self) -> dict[str, str]:
        """The environment in which its programs find it."""
        return {**os.environ, "CONDOR_CONFIG": str(self.config), "PATH": self.path}

    def run(self, *words: str, check: bool = True) -> str:
        """Run one of HTCondor's programs, and return what it printed."""
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=check, timeout=60).stdout

    def queue(self, *attributes: str, constraint: str = "true") -> list[list[str]]:
        """What is in the queue: the attributes of each job."""
        text = self.run("condor_q", "-allusers", "-constraint", constraint, "-af:,", *attributes)
        return [[word.strip() for word in line.split(",")] for line in text.splitlines()]

    def pid(self, daemon: str) -> int:
        """Number of a daemon's process (``schedd``, ``startd``, ...)."""
        for line in self.run("pgrep", "-a", "-f", f"condor_{daemon}").splitlines():
            number = int(line.split()[0])
            try:
                variables = Path(f"/proc/{number}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"CONDOR_CONFIG={self.config}".encode() in variables:
                return number
        raise AssertionError(f"there is no condor_{daemon} of '{self.root}'")

    def stop(self) -> None:
        """Stop the daemons; the queue stays."""
        subprocess.run([HERE / "condor-down"], env={**os.environ, **self.made_with}, check=True, timeout=_UP_S)

    def start(self) -> None:
        """Start the daemons."""
        subprocess.run(
            [HERE / "condor-up"],
            env={**os.environ, **self.made_with},
            check=True,
            timeout=_UP_S,
            stdout=subprocess.DEVNULL,
        )


def need_condor() -> None:
    """Skip the test where the recipe or the bindings are missing, or fail it where pools are required."""
    why = ""
    if platform.machine() != "x86_64":
        why = f"there are no packages for {platform.machine()}"
    elif missing := [name for name in _PROGRAMS if not shutil.which(name)]:
        why = f"{', '.join(missing)} not found"
    elif os.geteuid() == 0 and not _can_unshare():
        why = "as root it needs user namespaces"
    elif find_spec("htcondor2") is None:
        # Not imported here: it reads its configuration when it is, and that is to be the pool's.
        why = "the Python package 'htcondor' is not installed"
    if why and os.environ.get("LONGSHORE_POOLS") == "required":
        pytest.fail(f"LONGSHORE_POOLS is 'required', but htcondor: {why}")
    if why:
        pytest.skip(f"htcondor: {why}")


def _can_unshare() -> bool:
    return (
        subprocess.run(["unshare", "-U", "--map-user=1000", "true"], check=False, capture_output=True).returncode == 0
    )


@contextmanager
def condor(root: Path, **variables: str) -> Iterator[CondorPool]:
    """A pool of eight processors on this machine, as long as the block lasts."""
    need_condor()
    made_with = {"POOL_ROOT": str(root), "POOL_CPUS": "8", "POOL_CACHE": str(_CACHE), **variables}
    env = {**os.environ, **made_with}
    try:
        up = subprocess.run(
            [HERE / "condor-up"], env=env, check=False, timeout=_UP_S, text=True, stdout=-1, stderr=subprocess.STDOUT
        )
        if up.returncode:
            words = up.stdout.strip().splitlines()
            if os.environ.get("LONGSHORE_POOLS") != "required":
                pytest.skip(f"htcondor: {words[-1] if words else 'it does not start'}")
            pytest.fail(f"htcondor does not start: {up.stdout}")
        bins = next(line for line in up.stdout.splitlines() if line.startswith("export PATH="))
        front = bins.partition("=")[2].removesuffix(':"$PATH"')
        yield CondorPool(root=root, path=f"{front}:{os.environ.get('PATH', '')}", made_with=made_with)
    finally:
        subprocess.run([HERE / "condor-down", "--purge"], env=env, check=False, timeout=_UP_S)
