"""Joins the commands of a job's tasks into one script that remembers which of them are done.

A job of many tasks that fails, runs out of memory or dies with its host is tried again from the task it came to, not
from the first. What is done stands in a file, a number a line, that the job finds by `VARIABLE`; without that variable,
by hand say, the script runs all tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from longshore.model.task import Command
from longshore.plan.commands import as_line

VARIABLE: Final = "LONGSHORE_JOB_TASKS_DONE"
"""The variable that names the file of the tasks that are done."""
_FOLDER: Final = "tasks"
_PER_FOLDER: Final = 1000

_LINE: Final = re.compile(rb"[1-9][0-9]*")


def joined(steps: Iterable[tuple[Command, int]]) -> str:
    """One line of shell that runs commands one after another, and ends with the first that fails.

    Each runs in a shell of its own, as it would if it were a job by itself: what one of them sets is not there for the
    next, which may be run without it when the job is tried again.

    Parameters
    ----------
    steps
        The commands, each with the number of tasks that it runs.
    """
    return "\n".join(_steps(steps))


def _steps(steps: Iterable[tuple[Command, int]]) -> Iterator[str]:
    done = f'"${{{VARIABLE}:-}}"'
    yield f'[ -z {done} ] || mkdir -p "${{{VARIABLE}%/*}}" || exit'
    following = 1
    for command, many in steps:
        number, following = following, following + many
        noted = f"echo {number}" if many == 1 else f"seq {number} {following - 1}"
        # Not behind && or ||, in which the shell would overlook the `set -e` of a command.
        yield (
            f"if ! grep -qsx {number} {done}; then\n"
            f"(\n{as_line(command)}\n)\n"
            '_status=$?; [ "$_status" -eq 0 ] || exit "$_status"\n'
            f"[ -z {done} ] || {noted} >>{done} || exit\n"
            "fi"
        )


def is_joined(command: Command) -> bool:
    """Whether a job's command remembers which of its tasks are done; one that runs them all at once does not."""
    return isinstance(command, str) and VARIABLE in command


def record_of(job: int) -> PurePosixPath:
    """Path of the file that says which tasks of a job are done, relative to the run directory."""
    return PurePosixPath(_FOLDER, f"{job // _PER_FOLDER:02}", str(job))


def count_done(text: bytes) -> int:
    """How many tasks such a file says are done."""
    # A line that was cut off by a full disk or a power cut says nothing.
    return len({line for line in text.split(b"\n")[:-1] if _LINE.fullmatch(line)})
