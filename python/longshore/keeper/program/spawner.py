"""How a process of a job is started: its environment, its program on the job's ``PATH``, and posix_spawn(3) in threads.

The caller of the spawner does not wait for program loading.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library. Python's own way
to start processes blocks all threads meanwhile, half a millisecond and more on a busy machine; the spawner calls the C
library itself.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import time
from collections import deque
from queue import SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "spawner":
    from longshore.keeper.program.kernel import system
else:
    # The copy beside the keeper is not in a package.
    from kernel import system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, TypeAlias

    from longshore.keeper.protocol import EnvironmentOrder, MemberOrder

    Words: TypeAlias = ctypes.Array[ctypes.c_char_p]
    StartRequest: TypeAlias = tuple[Any, bytes, bytes, bytes, Words, Words]
    Result: TypeAlias = tuple[Any, int, float]

_SETSIGDEF, _SETSIGMASK, _SETSID = 0x04, 0x08, 0x80
"""Flags of posix_spawn(3), the same in glibc and musl."""
_LOG_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_ENCODING, _ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_STRUCTURE_B = 1024
"""Bytes for a structure of the C library without a documented size; the largest has 336."""


class Spawner:
    """Starts processes, each in a session of its own with its signals as a new process expects them.

    Parameters
    ----------
    threads
        Most starts at once.
    default_signals
        Signals that get their default action in the new process.
    null_file
        File descriptor of its standard input.
    wake
        Called, by any thread, when there is a new result.

    Raises
    ------
    OSError
        The C library cannot start a process in another folder.
    """

    def __init__(
        self, threads: int, *, default_signals: Sequence[int], null_file: int, wake: Callable[[], None]
    ) -> None:
        self.results: deque[Result] = deque()
        """Finished starts that have not been read."""
        self._is_woken = False
        """Whether `wake` was called since the results were last read."""
        self._library = library = system.c_library()
        if not hasattr(library, "posix_spawn_file_actions_addchdir_np"):
            raise OSError("posix_spawn_file_actions_addchdir_np is missing")
        self._null_file = null_file
        self._wake = wake
        self._queue: SimpleQueue[StartRequest] = SimpleQueue()
        self._attributes = ctypes.create_string_buffer(_STRUCTURE_B)
        signals = ctypes.create_string_buffer(_STRUCTURE_B)
        library.posix_spawnattr_init(self._attributes)
        library.sigemptyset(signals)
        library.posix_spawnattr_setsigmask(self._attributes, signals)
        for number in default_signals:
            library.sigaddset(signals, int(number))
        library.posix_spawnattr_setsigdefault(self._attributes, signals)
        library.posix_spawnattr_setflags(self._attributes, ctypes.c_short(_SETSIGDEF | _SETSIGMASK | _SETSID))
        for _ in range(threads):
            system.start_thread(self._start_processes)

    def start(
        self,
        ticket: object,
        program: str,
        argv: Sequence[str],
        environment: Words,
        *,
        folder: str,
        log: str,
    ) -> None:
        """Queue the start of a process; its result carries the ticket.

        Parameters
        ----------
        ticket
            Any object.
        program, argv, folder
            Path of the program, its arguments, and its working directory.
        environment
            Pairs NAME=VALUE, as `encode_variable` makes them.
        log
            Path of a file to which its output and its errors are appended; its folder must exist.

        Raises
        ------
        ValueError
            An argument cannot be passed to a process.
        """
        self._queue.put(
            (
                ticket,
                encode_word(program),
                encode_word(log),
                encode_word(folder),
                make_words([encode_word(word) for word in argv]),
                environment,
            )
        )

    def finished_starts(self) -> Iterator[Result]:
        """Yield each finished start: its ticket, its process (0 on failure), and its time in seconds since boot."""
        # Reset before the results are read: a result that is added later needs another call.
        self._is_woken = False
        while self.results:
            yield self.results.popleft()

    def _start_processes(self) -> None:
        library = self._library
        actions = ctypes.create_string_buffer(_STRUCTURE_B)
        number = ctypes.c_int()
        while True:
            ticket, program, log, folder, argv, environment = self._queue.get()
            library.posix_spawn_file_actions_init(actions)
            library.posix_spawn_file_actions_adddup2(actions, self._null_file, 0)
            library.posix_spawn_file_actions_addopen(actions, 1, log, _LOG_FLAGS, ctypes.c_uint(0o666))
            library.posix_spawn_file_actions_adddup2(actions, 1, 2)
            library.posix_spawn_file_actions_addchdir_np(actions, folder)
            # As late as possible: a start that waited in the queue on a busy machine was not made any earlier.
            since_boot_s = system.clock_gettime(time.CLOCK_BOOTTIME)
            error = library.posix_spawn(ctypes.byref(number), program, actions, self._attributes, argv, environment)
            library.posix_spawn_file_actions_destroy(actions)
            self.results.append((ticket, 0 if error else number.value, since_boot_s))
            # One call is enough for all results until they are read. Their number does not show whether it was made: of
            # two threads that add one at the same time, each sees two.
            if not self._is_woken:
                self._is_woken = True
                self._wake()


def make_words(texts: Sequence[bytes]) -> Words:
    """Make an array of texts as exec(3) takes it, with a null pointer at its end."""
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


def encode_word(word: str) -> bytes:
    """Encode a string for the C library.

    Raises
    ------
    ValueError
        It holds a zero byte, or a character that cannot be encoded.
    """
    text = word.encode(_ENCODING, _ERRORS)
    if b"\0" in text:
        raise ValueError("embedded null byte")
    return text


def encode_variable(name: str, value: str) -> bytes:
    """Encode an environment variable for the C library.

    Raises
    ------
    ValueError
        The name is invalid, or the text cannot be encoded.
    """
    if not name or "=" in name:
        raise ValueError("illegal environment variable name")
    return encode_word(f"{name}={value}")


class Environments:
    """Environments that orders refer to, by number."""

    def __init__(self) -> None:
        self.variables: dict[int, dict[str, str]] = {}
        self.encoded: dict[int, dict[str, bytes]] = {}
        """The same environments as the spawner takes them, without those that it cannot take."""
        self.templates: dict[int, tuple[list[str], Words]] = {}
        """Per environment, the names of the variables that its last member added, and its array with room for them."""
        self.programs: dict[tuple[str, str], str] = {}
        """Path of a program by its name and PATH."""

    def add(self, order: EnvironmentOrder) -> None:
        """Add an environment, with a number of its own."""
        number = order["id"]
        self.variables[number] = {**self.variables.get(order.get("on", -1), {}), **order["env"]}
        try:
            self.encoded[number] = {
                name: encode_variable(name, value) for name, value in self.variables[number].items()
            }
        except ValueError:
            # Starts with this environment use the standard library, which reports the error.
            self.encoded.pop(number, None)

    def encode(self, member: MemberOrder, tmp: str) -> Words | None:
        """Return a member's environment as the spawner takes it; ``None`` if the spawner cannot take it."""
        number = member["e"]
        encoded = self.encoded.get(number)
        if encoded is None:
            return None
        added = {**member["v"], "TMPDIR": tmp}
        names = list(added)
        template_names, template = self.templates.get(number, ([], None))
        if template is None or names != template_names:
            shared = [variable for name, variable in encoded.items() if name not in added]
            template = make_words([b""] * len(names) + shared)
            self.templates[number] = names, template
        # A new array for each attempt was the largest part of a start: the texts that attempts share are kept alive by
        # `encoded`, so that a copy of the pointers is enough.
        words = type(template).from_buffer_copy(template)
        for position, (name, value) in enumerate(added.items()):
            words[position] = encode_variable(name, value)
        return words

    def find_program(self, member: MemberOrder) -> str:
        """Return a program's path, as execvp finds it with the job's own PATH; ValueError without a command."""
        if not member["argv"]:
            raise ValueError("the command has no words")
        name = member["argv"][0]
        if "/" in name:
            return name
        environment = self.variables[member["e"]]
        path = member["v"].get("PATH", environment.get("PATH", os.defpath))
        return self.programs.get((name, path)) or self.find(name, path, member["cwd"])

    def find(self, name: str, path: str, start: str) -> str:
        """Find a program in the folders of a PATH, relative ones from `start`; FileNotFoundError if it is missing."""
        for folder in path.split(os.pathsep):
            program = os.path.join(start, folder, name)
            if system.isfile(program) and system.access(program, os.X_OK):
                if os.path.isabs(folder):
                    self.programs[name, path] = program
                return program
        raise FileNotFoundError(errno.ENOENT, "no such program on the PATH of the job", name)
