"""Daemons of a cluster that end while a test goes on, and come back."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.live.pools import SlurmPool
from tests.live.runs import until
from tests.live.sge_pools import SgePool


@contextmanager
def stopped(pool: SlurmPool | SgePool, daemon: str, by: signal.Signals = signal.SIGTERM) -> Iterator[None]:
    """End a daemon while the block lasts, and start it again.

    Unless it is killed, it writes its state. A controller that cannot forgets what it started last, and repeats it.
    """
    end_process(pool.pid(daemon), by)
    try:
        yield
    finally:
        start_missing(pool)


def start_missing(pool: SlurmPool | SgePool, **variables: str) -> None:
    """Start the daemons of a cluster that do not run; `variables` are more of its recipe."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    env = {**pool.env, "PATH": path, **pool.made_with, **variables}
    subprocess.run([pool.recipe], env=env, check=True, timeout=120, stdout=subprocess.DEVNULL)
    until(pool.is_up, "the controller is back")


def end_process(pid: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Send a process a signal, and wait for its end."""
    os.kill(pid, by)
    until(partial(_has_ended, pid), f"the end of process {pid}")


def kill_all(pids: Iterable[int]) -> None:
    """Kill processes of which some may end by the death of the others."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        until(partial(_has_ended, pid), f"the end of process {pid}")


def step_processes(pid: int) -> list[int]:
    """Return a process of a job and its ancestors, up to and with the slurmstepd that started the job."""
    found = [pid]
    while not _name(found[-1]).startswith("slurmstepd"):
        found.append(_parent(found[-1]))
        assert found[-1] > 1, f"no slurmstepd started process {pid}"
    return found[::-1]


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[1])


def _has_ended(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return True
    # Its parent may be late to collect it.
    return stat.rpartition(")")[2].split()[0] == "Z"
