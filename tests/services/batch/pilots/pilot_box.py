"""A pilot program as a process of this machine, with the mailbox that an engine would write into."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

from tests.waiting import eventually

from longshore.services.batch.pilots.program import PROGRAM, program_files

GIB = 1 << 30
_TAIL = len(b',"c":"00000000"}')


class PilotBox:
    """A pilot of four processors, and its mailbox below `root`; a file server may take `sync_s` for each write."""

    def __init__(
        self, root: Path, *, until: str = "600", lease_s: str = "60", idle_s: str = "60", sync_s: str = ""
    ) -> None:
        self.root = root
        self.mail = root / "mail" / "00001.0"
        self.mail.mkdir(parents=True)
        self.generation = 1
        self._crc = 0
        program = root / "program"
        program.mkdir()
        for name, content in program_files().items():
            (program / name).write_bytes(content)
        if sync_s:
            kernel = program / "kernel.py"
            slow = f"fsync = staticmethod(lambda file: (time.sleep({sync_s}), os.fsync(file)))"
            text = kernel.read_text("utf-8")
            assert "fsync = staticmethod(os.fsync)" in text
            kernel.write_text(text.replace("fsync = staticmethod(os.fsync)", slow), "utf-8")
        amounts = ("0", "4", str(4 * GIB), until, lease_s, idle_s)
        self.words = [sys.executable, "-I", "-S", "-B", str(program / PROGRAM), str(self.mail), *amounts]
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self) -> subprocess.Popen[bytes]:
        """Start the program."""
        self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        return self.process

    def encode(self, order: dict[str, Any]) -> bytes:
        """Return the next line of the orders."""
        payload = json.dumps(order, separators=(",", ":"))[:-1].encode()
        crc = crc32(payload, self._crc)
        tail = b',"c":"%08x"}\n' % crc
        self._crc = crc32(tail, crc)
        return payload + tail

    def write(self, text: bytes, *, generation: int = 0) -> None:
        """Append to a file of orders, the newest by default."""
        with (self.mail / f"orders.{generation or self.generation}").open("ab") as file:
            file.write(text)

    def order(self, **order: Any) -> None:
        """Give an order."""
        self.write(self.encode(order))

    def begin_life(self) -> None:
        """Begin the next file of orders, as a new engine does."""
        self.generation += 1
        self._crc = 0
        self.write(b"")

    def hand(
        self, jobs: Iterable[int], command: str, *, cpus: int = 1, need: float | None = None, environment: int = 0
    ) -> None:
        """Hand jobs over whose command is a line of shell."""
        members = [
            {"j": job, "a": 1, "argv": ["/bin/sh", "-c", command], "log": str(self.root / f"{job}.log")} for job in jobs
        ]
        common = {"e": environment, "cwd": str(self.root), "v": {"MARK": "here"}}
        request = {"cpus": cpus, "memory": GIB // 4}
        self.order(o="run", b="tag", q=request, need=need, p=common, m=members)

    def records(self, kind: str = "") -> list[dict[str, Any]]:
        """Return the records of a kind, or all, after a check of their checksums."""
        path = self.mail / "records"
        text = path.read_bytes() if path.exists() else b""
        crc, found = 0, []
        for line in text.split(b"\n")[:-1]:
            payload, tail = line[:-_TAIL], line[-_TAIL:]
            crc = crc32(payload, crc)
            assert tail == b',"c":"%08x"}' % crc
            crc = crc32(tail + b"\n", crc)
            record = json.loads(line)
            found += [record] if not kind or record["r"] == kind else []
        return found

    def jobs(self, kind: str) -> list[int]:
        """Return the jobs that records of a kind name, in their sequence."""
        found: list[int] = []
        for record in self.records(kind):
            found += [record["j"]] if "j" in record else [job for job, _ in record["m"]]
        return found

    def wait(self, condition: Callable[[], Any]) -> None:
        """Wait for a condition."""
        assert eventually(condition)

    def closed(self) -> str:
        """Wait until the program has ended by itself, and return why."""
        assert self.process is not None
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return str(self.records("closed")[0]["why"])

    def end(self) -> None:
        """End the program, whatever it does."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
