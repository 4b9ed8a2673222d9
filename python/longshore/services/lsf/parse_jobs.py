"""Parsers of what bjobs prints: JSON, and the text that is asked for where the JSON cannot be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from longshore.batch.jobs import AccountRow, QueueRow, TaskId
from longshore.batch.values import BINARY_UNITS, parse_duration, parse_number, parse_size
from longshore.model.decode_errors import DECODE_ERRORS
from longshore.services.lsf.states import HELD, HOPELESS, final_state

STORED_FIELDS: Final = (
    *("job_name", "stat", "user", "user_group", "queue", "proj_name", "pids", "exit_code", "from_host", "exec_host"),
    *("submit_time", "start_time", "finish_time", "nthreads", "exec_home", "exec_cwd", "output_file", "error_file"),
)
"""Fields that are stored as they are."""
QUEUE_FIELDS: Final = ("jobid", "jobindex", "stat", "exit_reason", "pend_reason", "exec_host", "job_name")
ACCOUNT_FIELDS: Final = ("jobid", "jobindex", "exit_reason", "run_time", "cpu_used", "max_mem", *STORED_FIELDS)
TEXT_FIELDS: Final = ("jobid", "jobindex", "stat", "exit_code", "exit_reason", "job_name")
"""Fields that every version has; the last one may have any character."""
DELIMITER: Final = "^"

_Record: TypeAlias = Mapping[str, str]
_ELEMENT: Final = re.compile(r"(?P<text>.*)\[(?P<index>\d{1,9})\]", re.DOTALL)


class _Answer(msgspec.Struct, frozen=True, rename="upper"):
    """What ``bjobs -json`` prints."""

    records: tuple[Mapping[str, str | int | float | None], ...] = ()


def read_records(output: str) -> list[_Record] | None:
    """Return the fields of each job by their names in lower case; ``None`` for an answer that cannot be read.

    Other programs may print lines before and after those of bjobs.
    """
    if (begin := output.find("{")) >= 0:
        try:
            answer = msgspec.json.decode(output[begin : output.rfind("}") + 1], type=_Answer)
        except DECODE_ERRORS:
            return None
        records = [{name.lower(): _plain(value) for name, value in each.items()} for each in answer.records]
        return [each for each in records if not each.get("error")]
    lines = [line.split(DELIMITER, len(TEXT_FIELDS) - 1) for line in output.splitlines()]
    return [dict(zip(TEXT_FIELDS, map(_plain, line), strict=True)) for line in lines if len(line) == len(TEXT_FIELDS)]


def _plain(value: object) -> str:
    text = "" if value is None else str(value).strip()
    return "" if text == "-" else text


def _task_of(record: _Record) -> TaskId | None:
    """Return the id of a job, or of an element of an array: LSF counts elements from 1."""
    text, index = record.get("jobid", ""), record.get("jobindex", "")
    found = _ELEMENT.fullmatch(text) or _ELEMENT.fullmatch(record.get("job_name", ""))
    number = parse_number(text.partition("[")[0])
    if not (place := parse_number(index)) and found is not None:
        place = int(found["index"])
    return None if number is None else TaskId(number, place - 1 if place else None)


def element_id(task: TaskId) -> str:
    """Return a task's id in LSF's words."""
    return str(task.job) if task.index is None else f"{task.job}[{task.index + 1}]"


def plain_name(name: str) -> str:
    """Return the name of an array from that of its element."""
    found = _ELEMENT.fullmatch(name)
    return found["text"] if found else name


def queue_rows(output: str) -> Iterator[QueueRow]:
    """Return a row per job and element."""
    for record in read_records(output) or ():
        if (task := _task_of(record)) is None:
            continue
        state = record.get("stat", "")
        yield QueueRow(
            id=task,
            raw_id=element_id(task),
            state=final_state(state, record.get("exit_reason", "")),
            reason=HELD if state == "PSUSP" else _pending_reason(record.get("pend_reason", "")),
            # LSF tells minutes; the job's own record tells more.
            started_at=None,
            node=_first_host(record.get("exec_host", "")),
            name=plain_name(record.get("job_name", "")),
        )


def _pending_reason(text: str) -> str:
    """Return the reason that says most, without the number of hosts that it holds for: else the first."""
    parts = (part.strip().rstrip(".") for part in re.split(r";\s*|\n", re.sub(r":\s*\d{1,9} hosts?\b", "", text)))
    reasons = [part for part in parts if part]
    return next((reason for reason in reasons if reason in HOPELESS), next(iter(reasons), ""))


def _first_host(text: str) -> str:
    """Return the first host of ``4*hostA:hostB``."""
    return text.partition(":")[0].rpartition("*")[2]


def account_rows(output: str, now: datetime) -> dict[TaskId, AccountRow]:
    """Return the account of each job; the year of a moment, which LSF does not print, follows from `now`."""
    rows: dict[TaskId, AccountRow] = {}
    for record in read_records(output) or ():
        if (task := _task_of(record)) is None or not record.get("stat"):
            continue
        state, reason = record["stat"], record.get("exit_reason", "")
        code = parse_number(record.get("exit_code", ""))
        rows[task] = AccountRow(
            id=task,
            raw_id=element_id(task),
            state=final_state(state, reason),
            state_text=reason or state,
            # A success has no exit code, and neither has a job that was killed.
            exit=0 if code is None and state == "DONE" else code,
            signal=0,
            started_at=parse_moment(record.get("start_time", ""), now),
            ended_at=parse_moment(record.get("finish_time", ""), now),
            run_s=parse_seconds(record.get("run_time", "")),
            cpu_s=parse_seconds(record.get("cpu_used", "")),
            peak_memory_b=parse_bytes(record.get("max_mem", "")),
            node=_first_host(record.get("exec_host", "")),
            reason=reason,
            gathered={name: value for name in STORED_FIELDS if (value := record.get(name))},
        )
    return rows


_SECONDS: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?) ?(?:second|sec)\S*")


def parse_seconds(text: str) -> float | None:
    """Parse ``16038 second(s)`` or ``00:00:01``; ``None`` for no such time."""
    if (seconds := parse_duration(text)) is not None:
        return seconds
    found = _SECONDS.match(text.strip())
    return float(found[1]) if found else None


_UNITS: Final = {sign: size for sign, size in BINARY_UNITS.items() if sign}
"""A number without a unit is in a unit that the cluster sets."""


def parse_bytes(text: str) -> int | None:
    """Parse ``5.2 Gbytes`` or ``2.1G``; ``None`` for no amount."""
    return parse_size(text, _UNITS)


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MOMENT: Final = re.compile(
    r"(?:[A-Z][a-z]{2} +)?([A-Z][a-z]{2}) +(\d{1,2}) +(\d{1,2}):(\d{2})(?::(\d{2}))?(?: +(\d{4}))?(?: +[LEX])?"
)


def parse_moment(text: str, now: datetime) -> float | None:
    """Parse ``Dec 28 19:56 L`` to seconds since the epoch: the newest such moment; ``None`` for other text."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None or found[1] not in _MONTHS:
        return None
    month, (day, hour, minute, second) = _MONTHS.index(found[1]) + 1, (int(found[part] or 0) for part in range(2, 6))
    for year in (int(found[6]),) if found[6] else (now.year, now.year - 1):
        try:
            moment = datetime(year, month, day, hour, minute, second)  # noqa: DTZ001
            if moment <= now + timedelta(days=1):
                return moment.timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return None
