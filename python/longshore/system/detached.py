"""Processes that outlive who started them: a new session or a systemd scope, and an engine on standby."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.system.atomic import open_to_append
from longshore.system.host import user_name
from longshore.system.processes import processes

if TYPE_CHECKING:
    import subprocess

# Detached start of a process that outlives its terminal: a new session, or a systemd scope.


_SYSTEMD_TIMEOUT_S = 5.0
"""Seconds to wait for systemd's answer."""


class DetachMethod(msgspec.Struct, frozen=True):
    """A way to detach a process."""

    prefix: tuple[str, ...]
    """Words in front of the command."""
    description: str


def choose_detach_method() -> DetachMethod:
    """Choose the most robust way to detach that this host offers.

    A session of its own survives a closed terminal. Where systemd ends all processes of a user at logout, only a scope
    of a user with lingering enabled survives that too.
    """
    if _has_lingering():
        return DetachMethod(
            ("systemd-run", "--user", "--scope", "--quiet", "--collect", "--"),
            "in a systemd scope of its own; it survives logging out",
        )
    return DetachMethod((), "in a session of its own; it survives the terminal")


def start_detached(
    command: Sequence[str], *, log: Path, variables: Mapping[str, str] | None = None
) -> tuple[subprocess.Popen[bytes], DetachMethod]:
    """Start a command in the background, with its output appended to a file; `variables` are added to its environment.

    Raises `OSError` when the command cannot be started, or the file cannot be written.
    """
    import subprocess

    method = choose_detach_method()
    with open_to_append(log, below=log.parent) as output:
        process = subprocess.Popen(
            [*method.prefix, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
        )
    return process, method


def _has_lingering() -> bool:
    if not os.environ.get("XDG_RUNTIME_DIR"):
        return False
    # Imported late: elsewhere, `ping` needs neither.
    import shutil
    import subprocess

    if not (shutil.which("systemd-run") and shutil.which("loginctl")):
        return False
    query = ["loginctl", "show-user", user_name(), "--property=Linger", "--value"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_SYSTEMD_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and answer.stdout.strip() == "yes"


# Standby: a detached process that does its imports while the command that started it still prepares its work. The
# command starts the process early, by all words of its command line that are known by then and a flag. Later it hands
# over the other words and the log. A standby whose command ends or dies before that ends too, without a trace.


_MESSAGE_B: Final = 1 << 17
"""Largest message: a path has at most 4 KiB."""
_TAKE_TIMEOUT_S: Final = 60.0
"""Longest time until a standby answers; one that imports from a slow file system may take many seconds."""
_TAKEN: Final = b"+"


class StandbyProcess:
    """A process on standby, started by `command` and the words of `flag`; raises `OSError` if it cannot be started."""

    def __init__(self, command: Sequence[str], flag: Sequence[str]) -> None:
        import socket
        import subprocess

        self._command = tuple(command)
        self._environment = dict(os.environ)
        self._method = choose_detach_method()
        self._channel, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            try:
                self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
                    [*self._method.prefix, *command, *flag],
                    stdin=other.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=self._environment,
                    start_new_session=True,
                )
            except OSError:
                self._channel.close()
                raise

    def hand_over(self, command: Sequence[str], *, log: Path) -> tuple[subprocess.Popen[bytes], DetachMethod] | None:
        """Let the process go on as `command`, as `start_detached` would start it; ``None`` if it cannot.

        Raises `OSError` when the log cannot be written.
        """
        import socket

        known = len(self._command)
        process = self._process
        if process is None or self._command != tuple(command[:known]) or self._environment != dict(os.environ):
            return None
        umask = _read_umask()
        if not umask:
            return None
        with open_to_append(log, below=log.parent) as output:
            message = os.fsencode("\0".join((umask, str(log.parent), *command[known:])))
            # From here on it may have its words, and an interruption must not end it.
            self._process = None
            try:
                socket.send_fds(self._channel, [message], [output.fileno()])
                self._channel.settimeout(_TAKE_TIMEOUT_S)
                is_taken = self._channel.recv(len(_TAKEN)) == _TAKEN
            except OSError:
                is_taken = False
            if not is_taken:
                # It died while it imported, perhaps for a reason that only the start without standby reports.
                process.kill()
                process.wait()
                return None
        return process, self._method

    def discard(self) -> None:
        """End the process, unless it was handed its words."""
        self._channel.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _read_umask() -> str:
    """Return the mask of this process in octal digits, without setting it, as `os.umask` would for all threads.

    Empty where the system does not tell it, as Linux before 4.7.
    """
    lines = processes.read_proc("self/status").decode("utf-8", "replace").splitlines()
    return next((line.split()[1] for line in lines if line.startswith("Umask:")), "")


_current: ContextVar[StandbyProcess | None] = ContextVar("standby", default=None)


def begin_standby(command: Sequence[str], flag: Sequence[str]) -> None:
    """Keep a process on standby for `start_from_standby` in this thread; none, if it cannot be started."""
    end_standby()
    with suppress(OSError):
        _current.set(StandbyProcess(command, flag))


def end_standby() -> None:
    """End the process on standby, if there is one that was handed nothing."""
    standby = _current.get()
    if standby is not None:
        _current.set(None)
        standby.discard()


def start_from_standby(command: Sequence[str], *, log: Path) -> tuple[subprocess.Popen[bytes], DetachMethod] | None:
    """Hand a command to the process on standby, if there is one for it; see `start_detached`."""
    standby = _current.get()
    try:
        return standby.hand_over(command, log=log) if standby else None
    finally:
        end_standby()


def await_words() -> list[str] | None:
    """Wait, as a standby, for the other words of the command line; ``None`` if this process is not needed.

    The directory, the mask and the output of this process are then those of the command. Raises `OSError` if no
    command started this process as a standby.
    """
    import socket

    with socket.socket(fileno=os.dup(0)) as channel:
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_B, 1)
        if not message:
            return None
        umask, folder, *words = os.fsdecode(message).split("\0")
        # The output went nowhere until now. From now on the input comes from there.
        for source, target in ((1, 0), (descriptors[0], 1), (descriptors[0], 2)):
            os.dup2(source, target)
        os.close(descriptors[0])
        os.umask(int(umask, 8))
        os.chdir(folder)
        # A command that was interrupted hears nothing, and the run goes on.
        with suppress(OSError):
            channel.send(_TAKEN)
    return words
