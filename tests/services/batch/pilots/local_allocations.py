"""A source of allocations that starts a pilot program on this machine; it outlives the engines of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.faults.mount import Mount

from longshore.contract.service import RunPaths, Unreachable
from longshore.services.batch.pilots.allocations import AllocationNews, PilotSettings
from longshore.services.batch.pilots.program import PROGRAM, program_files


class LocalAllocations:
    """Allocations of this machine; the same object serves all lives of an engine."""

    def __init__(self, root: Path, settings: PilotSettings) -> None:
        self.root, self.settings = root, settings
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.is_unreachable = False
        self.obeys = True
        """Whether cancelling has an effect."""
        self.mount: Mount | None = None
        """How pilots see their mailboxes; as they are by default."""
        self.gone: dict[int, str] = {}
        """Allocations that are gone, told in every life."""

    def open(self, run: RunPaths, life: int) -> None:
        """Do nothing: the state is in this object."""

    def request(self, count: int) -> None:
        """Start pilots."""
        for _ in range(count):
            number = len(self.processes) + 1
            (mailbox,) = self.mailboxes(number)
            mailbox.mkdir(parents=True)
            words = [mailbox, 0, self.settings.cpus, self.settings.memory_b, "-", self.settings.lease_s, 60]
            program = self.root / "pilots" / "program"
            if not program.exists():
                program.mkdir()
                for name, content in program_files().items():
                    (program / name).write_bytes(content)
            command = [sys.executable, "-I", "-S", "-B", str(program / PROGRAM)]
            env = {**os.environ, **(self.mount.variables() if self.mount else {})}
            self.processes[number] = subprocess.Popen([*command, *map(str, words)], start_new_session=True, env=env)

    def poll(self) -> AllocationNews | Unreachable:
        """Return how the processes stand."""
        if self.is_unreachable:
            return Unreachable(why="no answer")
        for number, process in self.processes.items():
            if number not in self.gone and process.poll() is not None:
                self.gone[number] = "the allocation ended"
        running = [number for number in self.processes if number not in self.gone]
        return AllocationNews(running=running, gone=dict(self.gone))

    def cancel(self, numbers: Collection[int]) -> None:
        """Kill pilots with their jobs."""
        for number in numbers if self.obeys else ():
            self.kill(number)

    def kill(self, number: int) -> None:
        """Kill a pilot; its guard kills the jobs."""
        process = self.processes[number]
        process.kill()
        process.wait()

    def mailboxes(self, number: int) -> Sequence[Path]:
        """Return the mailbox."""
        return [self.root / "pilots" / "mail" / f"{number:05}.0"]

    def close(self) -> None:
        """Do nothing: allocations go on."""

    def alive(self) -> list[int]:
        """Return the allocations whose pilots live."""
        return [number for number, process in self.processes.items() if process.poll() is None]
