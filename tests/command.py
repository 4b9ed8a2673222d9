"""The command line, run with some arguments, and what became of it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

_SERVER = Path(__file__).with_name("command_server.py")
_LENGTH = struct.Struct("!I")
_READ = 1 << 16
_MOST_STDIN = 1 << 12
"""Bytes that a pipe holds before anybody reads them."""


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """What became of a command."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Its output, read as one JSON value."""
        return json.loads(self.stdout)

    @property
    def said(self) -> list[str]:
        """The lines of its errors, without those that tell what takes long: on a busy machine anything may."""
        return [line for line in self.stderr.splitlines() if not line.endswith(" ...")]


def compiled_modules() -> dict[str, str]:
    """Variables with which a process of a bare environment finds the modules that this one compiled.

    Without them each process compiles all that it imports, which takes longer than most commands.
    """
    return {"PYTHONPYCACHEPREFIX": sys.pycache_prefix} if sys.pycache_prefix else {"PYTHONDONTWRITEBYTECODE": "1"}


class Cli(Protocol):
    """Runs ``longshore`` with some arguments; what it prints and its exit status are the caller's to judge."""

    def __call__(
        self,
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout: float = 120,
    ) -> CommandResult: ...


class CommandServer:
    """A process that has imported the package, and forks for each command: importing takes most of a command.

    Such a process is what ``python -m longshore`` would be: it has its own working directory, environment, standard
    streams and end. What it lacks is the start of the interpreter, so `serves` refuses variables that are read then.

    Parameters
    ----------
    env
        Its environment; a command's may differ where the interpreter does not read it when it starts.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, _SERVER, str(theirs.fileno())],
                env=env,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        self._socket = ours
        self._lock = threading.Lock()
        self._started_with = _read_at_start(env)

    def close(self) -> None:
        """End the server."""
        self._socket.close()
        self._process.wait(60)

    def serves(self, env: Mapping[str, str], stdin: str) -> bool:
        """Whether a command would be the same in a process of its own."""
        return _read_at_start(env) == self._started_with and len(stdin.encode()) <= _MOST_STDIN

    def run(
        self, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str, timeout: float
    ) -> CommandResult:
        """Run a command and return what became of it, with the exit status as `subprocess` has it."""
        with contextlib.ExitStack() as stack:
            pipes = [os.pipe() for _ in range(4)]
            (to_read, to_write), *outputs = pipes
            handed = [to_read, *(write for _, write in outputs)]
            try:
                with self._lock:
                    _send(self._socket, {"args": list(args), "cwd": str(cwd), "env": dict(env)}, handed)
            finally:
                for number in handed:
                    os.close(number)
            for read, _ in outputs:
                stack.callback(os.close, read)
            with contextlib.suppress(BrokenPipeError), os.fdopen(to_write, "wb") as file:
                file.write(stdin.encode())
            out, err, told = self._read([read for read, _ in outputs], list(args), timeout)
        _pid, status = told.split()
        return CommandResult(returncode=int(status), stdout=_text(out), stderr=_text(err))

    def _read(self, numbers: list[int], words: list[str], timeout: float) -> list[bytes]:
        """Read to the end of all; kill the command when it takes too long."""
        texts = dict.fromkeys(numbers, b"")
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            for number in numbers:
                selector.register(number, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select(deadline - time.monotonic()):
                    data = os.read(key.fd, _READ)
                    texts[key.fd] += data
                    if not data:
                        selector.unregister(key.fd)
                if time.monotonic() > deadline:
                    pid = int(texts[numbers[-1]].split()[0])
                    os.kill(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(words, timeout, texts[numbers[0]], texts[numbers[1]])
        return [texts[number] for number in numbers]


def _text(data: bytes) -> str:
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    """Variables that the interpreter reads when it starts."""
    return {name: value for name, value in env.items() if name.startswith(("PYTHON", "LC_", "LANG", "LD_", "COV"))}


def _send(to: socket.socket, value: Any, numbers: Sequence[int]) -> None:
    data = json.dumps(value).encode()
    socket.send_fds(to, [_LENGTH.pack(len(data))], numbers)
    to.sendall(data)
