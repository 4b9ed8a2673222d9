"""Reads processor time and peak memory of processes from /proc."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int | str = "self") -> float | None:
    """Return processor seconds of a process without its children; ``None`` when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_mb(pid: int | str = "self") -> float | None:
    """Return the peak memory of a process in MB; ``None`` when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:")), None)


def installed_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which a command starts like an installed one: modules are compiled once.

    Parameters
    ----------
    folder
        Where the compiled modules go, and what commands remember.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "XDG_STATE_HOME": str(folder / "state")}


def run_apart(measure: Callable[..., T], *arguments: object) -> T:
    """Call a function in a process of its own, so that its peak memory is its own, and return its result."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()
