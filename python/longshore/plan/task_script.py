"""Joins the commands of a cluster's tasks into one script that records which tasks are done.

A retry of the job continues with the first task that is not done. The record is a file with a line per task, its
number twice, as in ``3=3``: a line that is not as it was written does not count, and its task runs again. The variable
`TASKS_DONE_VARIABLE` names the file. Without that variable, as by hand, the script runs all tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from longshore.model.tasks.task import Command
from longshore.plan.job_commands import shell_line

TASKS_DONE_VARIABLE: Final = "LONGSHORE_JOB_TASKS_DONE"
"""Variable with the path of the record of done tasks."""
_FOLDER: Final = "tasks"
_PER_FOLDER: Final = 1000

_LINE: Final = re.compile(rb"([1-9][0-9]*)(=\1)?")
"""A line of a record; scripts of an older format write the number once."""


def join_commands(steps: Iterable[tuple[Command, int]]) -> str:
    """Line of shell that runs commands one after another, and stops at the first failure.

    Each command, given with its number of tasks, runs in a shell of its own, as in a job of its own: variables do not
    pass to the next command, which a retry may run alone.
    """
    return "\n".join(_script_lines(steps))


def _script_lines(steps: Iterable[tuple[Command, int]]) -> Iterator[str]:
    done = f'"${{{TASKS_DONE_VARIABLE}:-}}"'
    yield f'[ -z {done} ] || mkdir -p "${{{TASKS_DONE_VARIABLE}%/*}}" || exit'
    following = 1
    for command, many in steps:
        number, following = following, following + many
        noted = f"echo {number}={number}" if many == 1 else f"seq {number} {following - 1} | sed 's/.*/&=&/'"
        # Not behind && or ||, in which the shell would overlook the `set -e` of a command.
        yield (
            f"if ! grep -qsx {number}={number} {done}; then\n"
            f"(\n{shell_line(command)}\n)\n"
            '_status=$?; [ "$_status" -eq 0 ] || exit "$_status"\n'
            f"[ -z {done} ] || {noted} >>{done} || exit\n"
            "fi"
        )


def records_tasks(command: Command) -> bool:
    """Whether a job's command records its done tasks; one that runs them all at once does not."""
    return isinstance(command, str) and TASKS_DONE_VARIABLE in command


def task_record_path(job: int) -> PurePosixPath:
    """Path of a job's record of done tasks, relative to the run directory."""
    return PurePosixPath(_FOLDER, f"{job // _PER_FOLDER:02}", str(job))


def count_done_tasks(text: bytes) -> int:
    """Number of tasks in a record of done tasks."""
    # A line that was cut off by a full disk or a power cut says nothing.
    return len({match[1] for line in text.split(b"\n")[:-1] if (match := _LINE.fullmatch(line))})
