"""Guard and keeper of a pilot, which run the attempts on its node.

Part of the pilot program, beside which it is copied, so that it needs nothing but the standard library.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "pilot_keeper":
    from longshore.keeper.program.processes import kill_descendants
    from longshore.services.batch.pilots.program.pilot_system import system
else:
    # The copy finds only the standard library and the modules beside it.
    from pilot_system import system
    from processes import kill_descendants

_START_LIMIT_S = 60.0
"""Longest wait for the keeper's first record."""
_CLOSE_LIMIT_S = 10.0
"""Longest wait for the end of a keeper, which kills what runs; one that hangs on a file server is killed."""
_MOST_WRITE_B = 1 << 16
_READ_B = 1 << 20


class Keeper:
    """Guard and keeper on this node; raises `OSError` if they do not start."""

    def __init__(self) -> None:
        self.folder = system.make_temporary_folder(prefix="longshore-%d-pilot-" % os.getuid())
        self.path = os.path.join(self.folder, "keeper.jsonl")
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard.py")
        tmp = os.path.join(self.folder, "tmp")
        system.mkdir(tmp)
        words = [sys.executable, "-I", "-S", "-B", program, self.path, tmp, "", "near", "bound"]
        self.process = system.popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.news = self.process.stdin.fileno(), self.process.stdout.fileno()
        system.set_blocking(self.input, False)
        self.unsent = bytearray()
        self.is_alive = True
        self.is_behind = False
        """Whether there are records that were not read."""
        self._offset = 0
        self._partial_line = b""
        if not (system.select([self.news], [], [], _START_LIMIT_S)[0] and system.read(self.news, 65536)):
            self.process.kill()
            raise OSError("the keeper does not start")

    def send(self, line: bytes) -> None:
        """Send an order; `flush` writes it."""
        self.unsent += line + b"\n"
        self.flush()

    def flush(self) -> None:
        """Write what the pipe takes."""
        try:
            while self.unsent:
                del self.unsent[: system.write(self.input, self.unsent[:_MOST_WRITE_B])]
        except BlockingIOError:
            pass
        except OSError:
            self.is_alive = False

    def read(self) -> list[bytes]:
        """Return the keeper's new records; none where they cannot be read now, which `is_behind` tells."""
        self.is_behind = True
        try:
            text = self._read_file()
        except OSError:
            return []
        self.is_behind = False
        self._offset += len(text)
        *lines, self._partial_line = (self._partial_line + text).split(b"\n")
        return lines

    def take_news(self) -> None:
        """Take the signs of new records."""
        self.is_behind = True
        if not system.read(self.news, 65536):
            self.is_alive = False

    def _read_file(self) -> bytes:
        file = system.open(self.path, os.O_RDONLY)
        try:
            text = b""
            while block := system.pread(file, _READ_B, self._offset + len(text)):
                text += block
            return text
        finally:
            system.close(file)

    def has_lost_guard(self) -> bool:
        """Return whether the guard is dead and the keeper is not; a guard ends right after its keeper."""
        return self.process.poll() is not None and not system.select([self.news], [], [], 0.0)[0]

    def close(self) -> None:
        """End the keeper and what it runs, and remove its files."""
        system.close(self.input)
        try:
            self.process.wait(_CLOSE_LIMIT_S)
        except subprocess.TimeoutExpired:
            # Both are one process group; the jobs become children of this process.
            system.killpg(self.process.pid, signal.SIGKILL)
        # What jobs left running in sessions of their own is left as well.
        kill_descendants()
        system.remove_tree(self.folder)
