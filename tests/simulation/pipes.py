"""Simulated pipes: their ends belong to processes, and close with them."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from itertools import count
from typing import Final

from tests.simulation.universe import Process, Universe

_CAPACITY_B: Final = 65_536
FIRST_NUMBER: Final = 1_000_000
"""Numbers of pipes' ends begin here, above those of files."""


class Pipe:
    """A pipe, and the processes that hold its ends."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.readers: set[Process] = set()
        self.writers: set[Process] = set()

    def is_readable(self) -> bool:
        """Return whether a read would not wait."""
        return bool(self.content) or not self.writers


class Pipes:
    """All pipes of a machine."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._numbers = count(FIRST_NUMBER)
        self._ends: dict[int, tuple[Pipe, bool]] = {}
        """Pipe per number, and whether it is the end to write to."""
        self._standard: dict[tuple[Process, int], int] = {}
        self._nonblocking: set[int] = set()

    def make(self, reader: Process, writer: Process) -> tuple[int, int]:
        """Make a pipe; return the numbers of its ends."""
        pipe = Pipe()
        pipe.readers.add(reader)
        pipe.writers.add(writer)
        numbers = next(self._numbers), next(self._numbers)
        self._ends[numbers[0]], self._ends[numbers[1]] = (pipe, False), (pipe, True)
        return numbers

    def put_at(self, process: Process, standard: int, number: int) -> None:
        """Make an end the standard input or output of a process."""
        self._standard[process, standard] = number

    def share(self, owner: Process, heir: Process) -> None:
        """Give a process the standard input and output of another as well."""
        for standard in (0, 1):
            number = self._standard.get((owner, standard))
            if number is not None:
                self._standard[heir, standard] = number
                pipe, is_writer = self._ends[number]
                (pipe.writers if is_writer else pipe.readers).add(heir)

    def find(self, number: int) -> int | None:
        """Return the number of the pipe's end that a number stands for; ``None`` if it is none."""
        process = self._universe.current
        if process is not None and number in (0, 1, 2):
            return self._standard.get((process, number))
        return number if number in self._ends else None

    def set_blocking(self, number: int, *, blocking: bool) -> None:
        """Set whether reads and writes wait."""
        found = self.find(number)
        if found is not None and not blocking:
            self._nonblocking.add(found)

    def read(self, number: int, size: int) -> bytes:
        """Read what is there; empty when nobody can write any more."""
        pipe, _ = self._ends[number]
        if not pipe.is_readable():
            if number in self._nonblocking:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self._universe.block(float("inf"), pipe.is_readable)
        data = bytes(pipe.content[:size])
        del pipe.content[: len(data)]
        return data

    def write(self, number: int, data: bytes) -> int:
        """Write, as much as there is room for."""
        pipe, _ = self._ends[number]
        if not pipe.readers:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        room = _CAPACITY_B - len(pipe.content)
        if not room:
            if number in self._nonblocking:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self._universe.block(float("inf"), lambda: len(pipe.content) < _CAPACITY_B or not pipe.readers)
            return self.write(number, data)
        pipe.content += data[:room]
        return min(room, len(data))

    def wait(self, numbers: Collection[int], timeout_s: float | None) -> list[int]:
        """Wait until one of the ends can be read; return those that can."""
        pipes = {number: self._ends[found][0] for number in numbers if (found := self.find(number)) is not None}

        def readable() -> list[int]:
            return [number for number, pipe in pipes.items() if pipe.is_readable()]

        if not readable():
            self._universe.block(float("inf") if timeout_s is None else timeout_s, lambda: bool(readable()))
        return readable()

    def close(self, number: int, process: Process) -> None:
        """Close an end that a process holds."""
        pipe, is_writer = self._ends[number]
        (pipe.writers if is_writer else pipe.readers).discard(process)

    def close_all_of(self, process: Process) -> None:
        """Close all ends that a process holds, as the kernel does when it dies."""
        for pipe, is_writer in self._ends.values():
            (pipe.writers if is_writer else pipe.readers).discard(process)
