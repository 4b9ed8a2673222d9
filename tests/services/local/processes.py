"""Processes that tests start, end and look at: engines, keepers, jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from longshore.contract.service import RunPaths
from longshore.keeper.protocol import MemberOrder
from longshore.model.event import Ended, Lost, Started
from longshore.services.local.keeper_client import LocalClient
from longshore.services.local.keeper_file import GuardFile, KeeperFile
from longshore.system.host import boot_id, host_name, process_start_s

Attempt = tuple[int, int]
WRITTEN_BY_HAND = "0000.1.jsonl"
NOBODY = 2**22 + 1
"""A number that no process can have (see `pid_max` in proc(5))."""

ENGINE = """
import json, sys, time
from pathlib import Path
from longshore.contract.service import RunPaths
from longshore.services.local.keeper_file import GuardFile
from longshore.services.local.keeper_client import LocalClient
client = LocalClient(RunPaths(Path(sys.argv[1])), 1)
client.start("tag-1", json.loads(sys.argv[2]))
while True:
    client.wait(1.0)
    client.poll()
"""
"""An engine that starts jobs and then does nothing but look after them."""


class Inbox:
    """All that a client has reported so far."""

    def __init__(self, client: LocalClient) -> None:
        self.client = client
        self.events: list[Started | Ended | Lost] = []
        self.never: list[Attempt] = []

    def poll(self) -> None:
        events, never = self.client.poll()
        self.events += events
        self.never += never

    def until(self, done: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 120
        self.poll()
        while not (found := done()):
            assert time.monotonic() < deadline, (self.events, self.never)
            self.client.wait(0.02)
            self.poll()
        return found

    def end(self, job: int) -> Ended | Lost:
        event: Ended | Lost = self.until(lambda: self.ends(job))[0]
        return event

    def ends(self, job: int) -> list[Ended | Lost]:
        return [event for event in self.events if event.j == job and not isinstance(event, Started)]

    def start(self, job: int) -> None:
        self.until(lambda: [event for event in self.events if event.j == job])


def member(run: RunPaths, job: int, *argv: str) -> MemberOrder:
    variables = {"LONGSHORE_JOB_RUN_MARK": str(run.root), "LONGSHORE_JOB_INDEX": f"{job}.1"}
    log = str(run.root / f"{job}.log")
    return {"j": job, "a": 1, "argv": argv, "e": 0, "v": variables, "cwd": str(run.root), "log": log}


def keepers(run: RunPaths) -> list[int]:
    """Process numbers of the keepers, oldest first."""
    return [json.loads(path.read_text("utf-8").splitlines()[0])["pid"] for path in sorted(run.keeper.glob("*.jsonl"))]


def kill_keeper(run: RunPaths) -> None:
    """Kill the first keeper, and see it dead with all its threads, and so its pipes closed."""
    pid = keepers(run)[0]
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 120
    file = KeeperFile(min(run.keeper.glob("*.jsonl")))
    while not is_gone(pid) or file.is_keeper_alive():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def kill_guard(run: RunPaths) -> None:
    """Kill the guard of the first keeper, and see it dead."""
    pid = json.loads(min(run.keeper.glob("*.jsonl")).read_text("utf-8").splitlines()[0])["guard"]
    os.kill(pid, signal.SIGKILL)
    file = GuardFile(min(run.keeper.glob("*.guard")))
    deadline = time.monotonic() + 120
    while not is_gone(pid) or file.is_guard_alive():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def tmp_folder(run: RunPaths) -> Path:
    first = json.loads(min(run.keeper.glob("*.jsonl")).read_text("utf-8").splitlines()[0])
    return Path(first["tmp"])


def is_gone(pid: int) -> bool:
    return process_start_s(pid) is None


def write_records(run: RunPaths, *records: dict[str, Any], boot: str | None = None, host: str | None = None) -> Path:
    """A file as a keeper of an earlier life left it."""
    path = run.keeper / WRITTEN_BY_HAND
    first = {
        "r": "keeper",
        "pid": NOBODY,
        "host": host or host_name(),
        "boot": boot or boot_id(),
        "tmp": str(run.root / f"longshore-{os.getuid()}-x"),
    }
    path.write_text("".join(json.dumps(record) + "\n" for record in (first, *records)), "utf-8")
    return path


def up_of(pid: int) -> float:
    up = process_start_s(pid)
    assert up is not None
    return up


Engine = Callable[..., "subprocess.Popen[bytes]"]
