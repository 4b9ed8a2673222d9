"""Joins the commands of a cluster's tasks into one script that records which tasks are done.

A retry of the job continues with the first task that is not done. The record is a file with a task number a line; the
variable `TASKS_DONE_VARIABLE` names it. Without that variable, as by hand, the script runs all tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from longshore.model.task import Command
from longshore.plan.commands import shell_line

TASKS_DONE_VARIABLE: Final = "LONGSHORE_JOB_TASKS_DONE"
"""The variable that names the file of the tasks that are done."""
_FOLDER: Final = "tasks"
_PER_FOLDER: Final = 1000

_LINE: Final = re.compile(rb"[1-9][0-9]*")


def join_commands(steps: Iterable[tuple[Command, int]]) -> str:
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
    done = f'"${{{TASKS_DONE_VARIABLE}:-}}"'
    yield f'[ -z {done} ] || mkdir -p "${{{TASKS_DONE_VARIABLE}%/*}}" || exit'
    following = 1
    for command, many in steps:
        number, following = following, following + many
        noted = f"echo {number}" if many == 1 else f"seq {number} {following - 1}"
        # Not behind && or ||, in which the shell would overlook the `set -e` of a command.
        yield (
            f"if ! grep -qsx {number} {done}; then\n"
            f"(\n{shell_line(command)}\n)\n"
            '_status=$?; [ "$_status" -eq 0 ] || exit "$_status"\n'
            f"[ -z {done} ] || {noted} >>{done} || exit\n"
            "fi"
        )


def records_tasks(command: Command) -> bool:
    """Whether a job's command remembers which of its tasks are done; one that runs them all at once does not."""
    return isinstance(command, str) and TASKS_DONE_VARIABLE in command


def task_record_path(job: int) -> PurePosixPath:
    """Path of the file that says which tasks of a job are done, relative to the run directory."""
    return PurePosixPath(_FOLDER, f"{job // _PER_FOLDER:02}", str(job))


def count_done_tasks(text: bytes) -> int:
    """How many tasks such a file says are done."""
    # A line that was cut off by a full disk or a power cut says nothing.
    return len({line for line in text.split(b"\n")[:-1] if _LINE.fullmatch(line)})
