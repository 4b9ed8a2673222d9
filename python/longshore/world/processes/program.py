"""Runs a program to its end with all it says in a file, however long it takes; whoever interrupts us ends it, too."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from longshore.world.files.atomic import open_to_append

_GRACE_S: Final = 10.0
"""Time that a program has to end when it is asked to, before it is ended by force."""
_LOOK_S: Final = 0.05


def run_to_file(words: Sequence[str], output: Path, *, env: Mapping[str, str]) -> int:
    """Run a program, with its output and error output in a file behind what stands there already.

    Parameters
    ----------
    words
        The program and its arguments; no shell sees them.
    output
        The file.
    env
        Its environment; the program is looked up on the PATH in there.

    Returns
    -------
    int
        Its exit status, as a shell would give it: 128 and the number of the signal where one ended it.

    Raises
    ------
    OSError
        It cannot be started, or the file cannot be written.
    """
    started: list[subprocess.Popen[bytes]] = []
    with open_to_append(output) as log, ThreadPoolExecutor(1) as starter:

        def start() -> None:
            # In a session of its own: an interrupt reaches us alone, and what it starts is ended with it.
            started.append(
                subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
                )
            )

        try:
            # Python interrupts its first thread only. Were the program started there, an interrupt between its start
            # and Popen's return would leave it to run with nobody who knows of it.
            starter.submit(start).result()
            status = started[0].wait()
        except BaseException:
            starter.shutdown()
            for process in started:
                _end(process)
            raise
    return 128 - status if status < 0 else status


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and all it started: ask first."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    latest = time.monotonic() + _GRACE_S
    while time.monotonic() < latest and (process.poll() is None or _others(process.pid)):
        time.sleep(_LOOK_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _others(group: int) -> bool:
    """Whether anybody is left in a process group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
