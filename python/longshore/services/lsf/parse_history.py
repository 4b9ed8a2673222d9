"""Parser of what bhist -l and bacct -l print of jobs that bjobs has forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from longshore.batch.jobs import AccountRow, TaskId
from longshore.services.lsf.parse_jobs import element_id, parse_bytes, parse_moment
from longshore.services.lsf.states import final_state

_BLOCK: Final = re.compile(r"^Job <(\d{1,18})(?:\[(\d{1,9})\])?>[, ]", re.MULTILINE)
_DATE: Final = re.compile(r"^([A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d{1,2}:\d{2}:\d{2}(?: \d{4})?):? ?(.*)")
_REASON: Final = re.compile(r"\b(TERM_[A-Z_]+)(: [^;.\n]*)?")
_CODE: Final = re.compile(r"Exited with exit code (\d{1,3})\b")
_SIGNAL: Final = re.compile(r"Exited by signal (\d{1,3})\b")
_CPU: Final = re.compile(r"The CPU time used is (\d{1,15}(?:\.\d{1,6})?) seconds")
_HOST: Final = re.compile(r"(?:[Dd]ispatched|[Ss]tarted) [^<>]*<([^<>]+)>")
_STATUS_ROW: Final = re.compile(
    r"^ *CPU_T +WAIT +TURNAROUND +STATUS +HOG_FACTOR +MEM +SWAP *\n *([\d.]+) +\S+ +\S+ +(done|exit) +\S+ +(\S+)",
    re.MULTILINE,
)
_WRAPPED: Final = re.compile(r"\n {21}")


def history_rows(output: str, now: datetime) -> dict[TaskId, AccountRow]:
    """Return how each job ended; none of a job that is not over."""
    # Lines are wrapped anywhere, and go on behind 21 blanks.
    rows: dict[TaskId, AccountRow] = {}
    for found, block in _blocks(_BLOCK, _WRAPPED.sub("", output)):
        task = TaskId(int(found[1]), int(found[2]) - 1 if found[2] and int(found[2]) else None)
        if row := _row(task, block, now):
            rows[task] = row
    return rows


def _blocks(head: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Split a text before each place where `head` is found."""
    places = list(head.finditer(text))
    ends = [*(place.start() for place in places), len(text)][1:]
    return ((place, text[place.start() : end]) for place, end in zip(places, ends, strict=True))


def _row(task: TaskId, block: str, now: datetime) -> AccountRow | None:
    began, end_at, last, ending = None, None, "", ""
    for moment, words in _dated(block):
        if re.match(r"Starting|\[\d+\] started|Started|[Dd]ispatched", words):
            # What a requeued job did before does not count.
            began, ending = parse_moment(moment, now), ""
        if re.match(r"Done successfully|Exited|Completed <|Termination request", words) or "TERM_" in words:
            end_at, last = parse_moment(moment, now), words
            ending += f"{words}\n"
    table = _STATUS_ROW.search(block)
    if not re.search(r"Done successfully|Exited|Completed <", ending):
        return None
    is_done = "Done successfully" in last or "Completed <done>" in last
    reason = _REASON.search(ending)
    code, number, cpu = _CODE.search(ending), _SIGNAL.search(ending), _CPU.search(ending)
    host = _HOST.search(block)
    state, told = "DONE" if is_done else "EXIT", f"{reason[1]}{reason[2] or ''}" if reason else ""
    return AccountRow(
        id=task,
        raw_id=element_id(task),
        state=final_state(state, reason[1] if reason else ""),
        state_text=told or state,
        exit=0 if is_done else int(code[1]) if code else None,
        signal=int(number[1]) if number else 0,
        started_at=began,
        ended_at=end_at,
        run_s=end_at - began if end_at is not None and began is not None and end_at >= began else None,
        cpu_s=float(cpu[1]) if cpu else float(table[1]) if table and table[1].count(".") <= 1 else None,
        peak_memory_b=parse_bytes(table[3]) if table else None,
        node=host[1].rpartition("*")[2] if host else "",
        reason=told,
    )


def _dated(block: str) -> Iterator[tuple[str, str]]:
    """Return each entry with its moment."""
    for line in block.splitlines():
        if found := _DATE.match(line.strip()):
            yield found[1], found[2]


_REPORT: Final = re.compile(r"^Subject: Job (\d{1,18}(?:\[\d{1,9}\])?): ", re.MULTILINE)


def reports_out_of_memory(output: str, raw_id: str) -> bool:
    """Whether LSF's report of a task, in the output that all tasks of its batch share, says TERM_MEMLIMIT."""
    blocks = _blocks(_REPORT, output)
    return bool(raw_id) and any(found[1] == raw_id and "TERM_MEMLIMIT:" in block for found, block in blocks)
