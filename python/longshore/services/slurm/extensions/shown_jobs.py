"""Jobs that scontrol still shows after they left the queue: how a native run ended without accounting."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from longshore.batch.jobs import AccountRow, TaskId
from longshore.batch.values import parse_duration, parse_number, parse_time, seconds_between
from longshore.services.slurm.commands.parse import exit_status, task_ids
from longshore.services.slurm.commands.states import base_state

_UNKNOWN_JOB: Final = re.compile(r"Invalid job[ _]?id|\bJob (ID )?[\w+,.\[\]-]+ not found", re.IGNORECASE)


def is_unknown_job(output: str) -> bool:
    """Whether scontrol says that it has no such job: on its error output, and of a task on its output."""
    return bool(_UNKNOWN_JOB.search(output))


def shown_rows(output: str) -> dict[TaskId, AccountRow]:
    """Parse ``scontrol --oneliner show job`` for an array: a line per task that started, and one for the others."""
    rows: dict[TaskId, AccountRow] = {}
    for line in output.splitlines():
        fields = dict(pairs(line))
        number = parse_number(fields.get("ArrayJobId", "") or fields.get("JobId", ""))
        if number is None:
            continue
        index = fields.get("ArrayTaskId", "")
        # Of an array whose members were cancelled one by one, a record without an index is left.
        expression = str(number) if index in {"", "N/A", _NO_INDEX} else f"{number}_[{index}]"
        for task in task_ids(expression):
            rows.setdefault(task, shown_row(task, line))
    return rows


_NO_INDEX: Final = "4294967294"
"""How scontrol writes that there is no index."""


def shown_row(task: TaskId, output: str) -> AccountRow:
    """Parse ``scontrol --oneliner show job`` for a task."""
    # A heterogeneous job has a line for each component; the first one counts.
    fields = dict(pairs(output.strip().partition("\n")[0]))
    started = parse_time(fields.get("StartTime", ""))
    code, number = exit_status(fields.get("ExitCode", ""))
    return AccountRow(
        id=task,
        raw_id=fields.get("JobId", ""),
        state=base_state(fields.get("JobState", "")),
        state_text=fields.get("JobState", ""),
        exit=code,
        signal=number,
        started_at=started,
        ended_at=parse_time(fields.get("EndTime", "")),
        run_s=parse_duration(fields.get("RunTime", "")),
        node=fields.get("BatchHost", ""),
        reason=fields.get("Reason", ""),
        queue_s=seconds_between(parse_time(fields.get("SubmitTime", "")), started),
    )


def parse_boot_time(text: str) -> float | None:
    """Parse ``scontrol --oneliner show node``: when the nodes booted, the earliest; ``None`` if one does not tell."""
    nodes = [dict(pairs(line)) for line in text.splitlines() if line.startswith("NodeName=")]
    times = [parse_time(node.get("BootTime", "")) for node in nodes]
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None


def pairs(line: str) -> Iterator[tuple[str, str]]:
    """Split a line of scontrol into NAME=VALUE pairs; a value may contain blanks, a name cannot."""
    for found in re.finditer(
        r"(?:^|\s)([A-Za-z][\w:/.&*]*)=((?:(?!\s[A-Za-z][\w:/.&*]*=).)*)", line.strip(), re.DOTALL
    ):
        yield found[1], found[2].strip()
