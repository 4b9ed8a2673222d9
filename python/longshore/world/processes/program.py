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
_POLL_S: Final = 0.05


def run_to_file(words: Sequence[str], output: Path, *, env: Mapping[str, str]) -> int:
    """Run a program and append its output and errors to a file; return its exit status.

    No shell interprets the words; the program is looked up on the PATH in `env`. The status is as a shell gives it:
    128 plus the number of the signal that ended the program. Raises `OSError` when the program cannot be started, or
    the file cannot be written.
    """
    started: list[subprocess.Popen[bytes]] = []
    with open_to_append(output) as log, ThreadPoolExecutor(1) as starter:

        def start() -> None:
            # In a session of its own: an interrupt reaches only us, and `_end_group` ends the program's children too.
            started.append(
                subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True
                )
            )

        # An interrupt while the thread itself starts would hide the thread from `shutdown`: it starts without work.
        starter.submit(int).result()
        try:
            # Python interrupts its first thread only. If the program were started there, an interrupt between its start
            # and Popen's return would leave it running unknown to us.
            starter.submit(start).result()
            status = started[0].wait()
        except BaseException:
            with suppress(KeyboardInterrupt):
                starter.shutdown()
            starter.shutdown()
            for process in started:
                _end_group(process)
            raise
    return 128 - status if status < 0 else status


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program and its process group: SIGTERM, then SIGKILL after a grace period or at another interrupt."""
    with suppress(KeyboardInterrupt):
        # The next interrupt may come at once, in answer to SIGTERM.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE_S
        while time.monotonic() < deadline and (process.poll() is None or _group_exists(process.pid)):
            time.sleep(_POLL_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _group_exists(group: int) -> bool:
    """Whether any process is left in a process group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
