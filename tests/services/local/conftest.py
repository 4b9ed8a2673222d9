"""A run on this machine, its client, and processes beside it."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.services.local.processes import ENGINE, WRITTEN_BY_HAND, Inbox, up_of

from longshore.contract.service import RunPaths
from longshore.keeper.program.kernel import signal_group
from longshore.services.local.keeper_client import LocalClient
from longshore.services.local.keeper_file import KeeperFile
from longshore.system.host import is_same_process

_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(autouse=True)
def ordinary_process() -> Iterator[None]:
    """Undo what a client makes of its process: orphans of other tests are none of its business."""
    yield
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunPaths]:
    run = RunPaths(tmp_path / "run")
    run.keeper.mkdir(parents=True)
    yield run
    for path in run.keeper.glob("*.jsonl"):
        if path.name == WRITTEN_BY_HAND:
            # What stands in there was started by nobody, and must not be signalled.
            continue
        file = KeeperFile(path)
        file.read()
        for start in file.running.values():
            if start.pid > 1 and is_same_process(start.pid, start.up):
                signal_group(start.pid, signal.SIGKILL)


@pytest.fixture
def inbox(run: RunPaths) -> Iterator[Inbox]:
    client = LocalClient(run, 1)
    yield Inbox(client)
    client.close()


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is nobody's job."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def engine(run: RunPaths) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    engines: list[subprocess.Popen[bytes]] = []

    def start(*members: dict[str, Any]) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", ENGINE, str(run.root), json.dumps(members)])
        engines.append(process)
        deadline = time.monotonic() + 120
        while sum(path.read_text("utf-8").count('"start"') for path in run.keeper.glob("*.jsonl")) < len(members):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return process

    yield start
    for process in engines:
        process.kill()
        process.wait()


@pytest.fixture
def stranger() -> Iterator[int]:
    """Number of a process that is not even a child of ours."""
    line = "setsid sleep 60 >/dev/null & echo $!"
    said = subprocess.run(["/bin/sh", "-c", line], stdout=subprocess.PIPE, check=True).stdout
    pid = int(said)
    up = up_of(pid)
    yield pid
    if pid > 1 and is_same_process(pid, up):
        os.kill(pid, signal.SIGKILL)
