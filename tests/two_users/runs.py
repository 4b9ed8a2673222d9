"""Runs of a user, and what others find of them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.two_users.accounts import Account
from tests.waiting import rest
from tests.workflows import wfformat

LOOKS = (
    ("report", "--id"),
    ("status",),
    ("logs", "@", "t0"),
    ("explain", "@", "t0"),
    ("show-job", "@", "t0"),
    ("events",),
    ("draw",),
)
"""Commands that look at a run; ``@`` stands for it, and else it comes last."""

ORDERS = (
    ("cancel",),
    ("pause",),
    ("unpause",),
    ("throttle", "--max", "1"),
    ("hold", "@", "t0"),
    ("release",),
    ("set", "@", "requestMemory=1G"),
)
"""Commands that leave an intervention."""

ACTS = (("submit",), ("resume",), ("resume", "--take-over"), ("restart",), ("drive", "--by", "resume"))
"""Commands that start the jobs of a run."""


_FIRST_UID = 200_000


def words(command: tuple[str, ...], run: Path) -> list[str]:
    """Return a command with the run in its place."""
    named = [str(run) if word == "@" else word for word in command]
    return named if "@" in command else [*named, str(run)]


def write_configuration(user: Account, command: str, *, more: str = "") -> Path:
    """Write a configuration of one task into a user's home."""
    (user.home / "graph.json").write_text(json.dumps(wfformat({"t0": ("A", [])})), "utf-8")
    path = user.home / "run.yaml"
    path.write_text(f"wfformat: graph.json\nrunQuantumCommand: {json.dumps(command)}\n{more}", "utf-8")
    return path


def submit(user: Account, command: str = "true", *, more: str = "", wait: bool = True) -> Path:
    """Submit a run of one job as a user, and return its directory."""
    path = write_configuration(user, command, more=more)
    done = user("submit", path, "--json", *(["--wait"] if wait else []))
    assert done.returncode in {0, 19}, done.stderr
    return Path(done.json["submit_dir"])


def submit_and_kill(user: Account, command: str, *, more: str = "") -> Path:
    """Submit a run, and kill its engine, keeper and job: the run is UNKNOWN from then on."""
    run = submit(user, command, more=more, wait=False)
    wait_for(lambda: user("status", run, "--json").json.get("counts", {}).get("RUNNING"))
    kill_processes_of(user)
    wait_for(lambda: user("status", run).returncode == 10)
    return run


def kill_processes_of(user: Account) -> None:
    """Kill every process of a user made by the test, whose number no other process of the machine has."""
    assert user.uid >= _FIRST_UID
    for entry in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            if Path("/proc", entry).stat().st_uid == user.uid:
                os.kill(int(entry), signal.SIGKILL)


def tree(folder: Path) -> dict[str, tuple[int, int, int, int, bytes]]:
    """Return type, owner, time and content of everything below a folder."""
    found = {}
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path)] = (status.st_mode, status.st_uid, status.st_ino, status.st_mtime_ns, content)
    return found


def wait_for(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if condition():
            return
        assert time.monotonic() < deadline, "it did not happen"
        rest(began, 0.1)
