"""A keeper as the program it is, and jobs for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from longshore.keeper.program import FOLDER, PROGRAM

LIMITED = (
    "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY)); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)


class Keeper:
    """A keeper with its guard, and its end of the pipes."""

    def __init__(self, folder: Path, *, most_bytes: int | None = None) -> None:
        self.folder = folder
        self.records = folder / "records.jsonl"
        self.tmp = folder / "tmp"
        self.tmp.mkdir(mode=0o700)
        command = [sys.executable, "-I", "-S", str(FOLDER / PROGRAM), str(self.records), str(self.tmp)]
        if most_bytes is not None:
            command = [sys.executable, "-c", LIMITED, str(most_bytes), *command]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        self.order({"o": "env", "id": 0, "env": {"PATH": os.environ["PATH"]}})

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        unsent = memoryview(data)
        while unsent:
            unsent = unsent[self.process.stdin.write(unsent) :]

    def order(self, order: dict[str, Any]) -> None:
        self.write(json.dumps(order).encode() + b"\n")

    def member(self, job: int, *argv: str, **more: Any) -> dict[str, Any]:
        log = str(self.folder / "logs" / f"{job}.log")
        return {"j": job, "a": 1, "argv": argv, "e": 0, "v": {}, "cwd": str(self.folder), "log": log, **more}

    def run(self, *members: dict[str, Any], tag: str = "b") -> None:
        self.order({"o": "run", "b": tag, "m": members})

    def said(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Its records so far."""
        text = self.records.read_bytes() if self.records.exists() else b""
        records = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith(b"\n")]
        for record in records:
            del record["c"]
        return [record for record in records if kind in (None, record["r"])]

    @property
    def pid(self) -> int:
        """Process of the keeper, which its guard started."""
        pid: int = self.until(lambda: self.said("keeper"))[0]["pid"]
        return pid

    def until(self, done: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + 120
        while not (found := done()):
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.01)
        return found

    def end_of(self, job: int) -> dict[str, Any]:
        return next(iter(self.until(lambda: [end for end in self.said("end") if end["j"] == job])))

    def drain(self) -> int:
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(120)

    def kill(self) -> None:
        """End the keeper and its guard, which share a process group; its jobs have their own."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def log(self, job: int) -> bytes:
        return (self.folder / "logs" / f"{job}.log").read_bytes()


MIB = 1 << 20


HOG = (
    "import sys, time; held = bytearray(int(sys.argv[1]) << 20); held[::4096] = bytes(len(held[::4096])); "
    "time.sleep(float(sys.argv[2]))"
)
