"""Runs a command on a terminal of its own, and keeps each picture that the terminal showed."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from typing import NamedTuple

_PAUSE_S = 1.5
"""How long a reader gets, before the next command, to read what the last one wrote."""
_PIECE = re.compile(r"\x1b\[([\d;?]*)([A-Za-z])|(\r)|(\n)|([^\x1b\r\n])|\x1b")


class Cell(NamedTuple):
    """A character with its style: the parameters of the terminal's sequences that hold for it."""

    character: str
    style: str


class Frame(NamedTuple):
    """What a terminal shows from a moment on, in seconds since its first command; pauses between commands are added."""

    at_s: float
    rows: tuple[tuple[Cell, ...], ...]


class Screen:
    """A terminal that knows what Longshore writes: lines, colours, and cursors that go up to draw lines anew."""

    def __init__(self) -> None:
        self.rows: list[list[Cell]] = [[]]
        self._row = self._column = 0
        self._style = ""

    def write(self, text: str) -> None:
        """Obey what a program writes."""
        for parameters, letter, carriage_return, line_feed, character in _PIECE.findall(text):
            if letter:
                self._obey(parameters, letter)
            elif carriage_return:
                self._column = 0
            elif line_feed:
                self._row += 1
                self.rows += [[]] * (self._row + 1 - len(self.rows))
            elif character:
                row = self.rows[self._row] = list(self.rows[self._row])
                row += [Cell(" ", "")] * (self._column - len(row))
                row[self._column : self._column + 1] = [Cell(character, self._style)]
                self._column += 1

    def _obey(self, parameters: str, letter: str) -> None:
        if letter == "A":
            self._row = max(0, self._row - int(parameters or 1))
        elif letter == "K":
            self.rows[self._row] = [] if parameters == "2" else self.rows[self._row][: self._column]
        elif letter == "m":
            kept = [] if parameters in {"", "0"} else self._style.split()
            self._style = " ".join([*kept, *(each for each in parameters.split(";") if each not in {"", "0"})])

    def frame(self, at_s: float) -> Frame:
        """Return what is shown now."""
        return Frame(at_s, tuple(map(tuple, self.rows)))


class Recorder:
    """Types commands one after another and keeps the frames."""

    def __init__(self, folder: Path, environment: Mapping[str, str], *, width: int) -> None:
        self._folder = folder
        self._environment = {**environment, "TERM": "xterm"}
        self._width = width
        self._screen = Screen()
        self._began = time.monotonic()
        self._pauses_s = 0.0
        self.frames: list[Frame] = []

    def run(self, command: str, argv: Sequence[str]) -> int:
        """Show a command behind a prompt, run it, and return its exit status.

        Parameters
        ----------
        command
            What is shown as typed.
        argv
            What runs.
        """
        self._screen.write(f"\x1b[2m$ \x1b[0m\x1b[1m{command}\x1b[0m\r\n")
        self._keep()
        ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, self._width, 0, 0))
        program = subprocess.Popen(
            argv, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        pending = b""
        while piece := _read(ours):
            pending += piece
            # A character of several bytes, or a sequence, may have come in part.
            whole = pending.rfind(b"\n") + 1
            self._screen.write(pending[:whole].decode())
            pending = pending[whole:]
            self._keep()
        self._screen.write(pending.decode())
        self._keep()
        os.close(ours)
        self._pauses_s += _PAUSE_S
        return program.wait()

    def _keep(self) -> None:
        frame = self._screen.frame(time.monotonic() - self._began + self._pauses_s)
        if not self.frames or frame.rows != self.frames[-1].rows:
            self.frames.append(frame)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        # The last program that had the terminal is gone.
        return b""
