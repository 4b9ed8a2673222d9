"""Runner of a long program with its output in a file; an interrupt of Longshore ends the program too."""

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
"""Seconds from the request to end (SIGTERM) until the program is killed."""
_LOOK_S: Final = 0.05


def run_to_file(words: Sequence[str], output: Path, *, env: Mapping[str, str]) -> int:
    """Run a program and append its output and errors to a file; return its exit status.

    No shell interprets the words; the program is looked up on the PATH in `env`. The status is as a shell gives it:
    128 plus the number of the signal that ended the program. Raises `OSError` when the program cannot be started, or
    the file cannot be written.
    """
    started: list[subprocess.Popen[bytes]] = []
    with open_to_append(output) as log, ThreadPoolExecutor(1) as starter:

        def start() -> None:
            # In a session of its own: an interrupt reaches only us, and `_end` ends the program's children too.
            started.append(
                subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
                )
            )

        try:
            # Python interrupts its first thread only. If the program were started there, an interrupt between its start
            # and Popen's return would leave it running unknown to us.
            starter.submit(start).result()
            status = started[0].wait()
        except BaseException:
            starter.shutdown()
            for process in started:
                _end(process)
            raise
    return 128 - status if status < 0 else status


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and all processes in its group: first SIGTERM, then SIGKILL."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    latest = time.monotonic() + _GRACE_S
    while time.monotonic() < latest and (process.poll() is None or _others(process.pid)):
        time.sleep(_LOOK_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _others(group: int) -> bool:
    """Whether any process is left in a process group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
