"""What qsub, qstat, qacct and qdel answer on jobs, and what each state means for an attempt."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from longshore.model.states import Cause
from longshore.services.batch.answers import (
    BINARY_UNITS,
    SubmitOutcome,
    SubmitReplies,
    parse_duration,
    parse_number,
    parse_size,
    parse_spans,
    parse_time,
    plain_lines,
    seconds_between,
)
from longshore.services.batch.jobs import AccountRow, QueueRow, StateTable, TaskId
from longshore.system.programs import ProgramResult

PENDING: Final = "qw"
HELD: Final = "hqw"
ERROR: Final = "Eqw"
SUSPENDED: Final = "suspended"
TRANSFER: Final = "t"
RUNNING: Final = "r"
DELETING: Final = "d"
RESCHEDULED: Final = "rescheduled"
DONE: Final = "done"
EXIT: Final = "exit"
SIGNAL: Final = "signal"
DELETED: Final = "deleted"
TIME: Final = "time limit"
MEMORY: Final = "memory limit"
NOT_STARTED: Final = "not started"

REASONS: Final = MappingProxyType({HELD: "held (hqw)", ERROR: "error state (Eqw)", SUSPENDED: "suspended"})
"""Reason of waiting per state; a job that just waits has none."""

STATES: Final = StateTable(
    waiting=(PENDING, HELD, ERROR, SUSPENDED, RESCHEDULED),
    running=(TRANSFER, RUNNING, DELETING),
    causes=MappingProxyType(
        {
            DONE: None,
            EXIT: Cause.EXIT,
            SIGNAL: Cause.EXIT,
            DELETED: Cause.CANCELLED,
            TIME: Cause.WALLTIME,
            MEMORY: Cause.OOM,
            NOT_STARTED: Cause.LOST,
        }
    ),
    ordinary=frozenset({DONE, EXIT, SIGNAL}),
    suspended=frozenset({SUSPENDED}),
    held_reasons=frozenset({REASONS[HELD], REASONS[ERROR]}),
)


def queue_state(letters: str) -> str:
    """Return the state that qstat's letters mean, such as ``hqw`` or ``dr``; the letters themselves if unknown."""
    if "E" in letters:
        return ERROR
    if "d" in letters:
        return DELETING
    if any(letter in letters for letter in "sSTN"):
        return SUSPENDED
    if "q" in letters:
        # A hold of a job that runs counts only for its next start.
        return HELD if "h" in letters else PENDING
    if "t" in letters:
        return TRANSFER
    return RUNNING if "r" in letters else letters


REPLIES: Final = SubmitReplies(
    accepted=re.compile(r"(\d{1,18})(?:\.\d{1,18}-\d{1,18}:\d{1,18})?"),
    errors=(
        (SubmitOutcome.TOO_LARGE, r"only \d+ jobs? (is|are) allowed|more than \d+ tasks|job limit|too many jobs"),
        (
            SubmitOutcome.THROTTLED,
            (
                r"(can't|couldn't) be written|spooling|sequence number file|can't get job id|malloc failure"
                r"|JSV temporarily|too busy|overload|lock(ed)? timeout|scheduler is not available|is in shutdown"
                r"|does not match credentials|uses (old|newer) GDI version"
            ),
        ),
        (SubmitOutcome.CLOSED, r"advance reservations? (are|is) allowed|advance reservation id"),
        (
            SubmitOutcome.UNEXPLAINED,
            r"advance reservation|nor? (a )?(submit|admin) (nor admin )?host|user id .* is lower",
        ),
        (
            SubmitOutcome.REFUSED,
            (
                r"unknown resource|no suitable queue|unknown queue|does not exist|not a valid object name"
                r"|not allowed (in|as) |invalid (option|priority|argument|value)|ERROR!|attribute \"[^\"]*\" is not"
                r"|is not (requestable|allowed)|no access|access denied|no permission|not (an )?operator"
                r"|is not a requestable|requires operator|malformed|no script|wrong number|Unknown option"
                r"|not allowed to run in any queue|no project|not allowed for non-parallel"
                r"|not consistent with strategy|must start with|multiple occur"
                r"|are not supported|checkpointing|deadline initiation"
            ),
        ),
        (SubmitOutcome.UNSURE, r"timed? ?out|reading answer|receive|broken pipe|connection reset"),
        (
            SubmitOutcome.UNREACHABLE,
            (
                r"unable to (contact|send message to) qmaster|Connection refused|cell directory|SGE_ROOT|can't resolve"
                r"|commlib error|not installed|No such file or directory|not found"
            ),
        ),
    ),
)
"""What qsub -terse answers.

The texts are those of Son of Grid Engine 8.1.9: ``source/daemons/qmaster/msg_qmaster.h``, and the ``msg_*.h`` below
``source/libs``. A queue that is disabled, suspended or in the error state, and a host that is away, do not appear here:
with ``-w e`` qsub judges the empty cluster without the states of its queues, and the job waits.
"""


# ---------------------------------------------------------------------------------------------------------------- qstat

_JOB: Final = re.compile(r"<job_list\b[^>]*>(.*?)</job_list>", re.DOTALL)
_FIELD: Final = re.compile(r"<(\w+)[^>]*>([^<]*)</\1>")


def read_queue_answer(answer: ProgramResult) -> ProgramResult:
    """Return an answer of ``qstat -xml``, as a failure if it is cut short: missing jobs would count as gone."""
    if not answer.ok or answer.out.rstrip().endswith("</job_info>"):
        return answer
    return msgspec.structs.replace(answer, status=1, err=f"{answer.err}\nqstat's answer is cut short")


def queue_rows(output: str) -> Iterator[QueueRow]:
    """Parse ``qstat -xml``; tasks that share a row get one row each. Tasks are counted from 0 here."""
    # No XML parser: the name of one job with a stray character would make all others unreadable.
    for found in _JOB.finditer(output):
        fields = {name: html.unescape(value.strip()) for name, value in _FIELD.findall(found[1])}
        number, state = parse_number(fields.get("JB_job_number", "")), queue_state(fields.get("state", ""))
        if number is None:
            continue
        tasks = fields.get("tasks", "")
        for index in (place - 1 for place in parse_spans(tasks) if place) if tasks else (None,):
            yield QueueRow(
                id=TaskId(number, index),
                raw_id=str(number),
                state=state,
                reason=REASONS.get(state, ""),
                started_at=local_time(fields.get("JAT_start_time", "")),
                node=fields.get("queue_name", "").partition("@")[2],
                name=fields.get("JB_name", ""),
            )


def shown_row(task: TaskId, output: str) -> AccountRow | None:
    """Parse ``qstat -j``, which has all jobs that are not over; ``None`` for another output."""
    fields = {name.strip(): value.strip() for name, colon, value in lines_at(output, ":") if colon}
    if fields.get("job_number") != str(task.job):
        return None
    error = next((value for name, value in fields.items() if name.startswith("error reason")), "")
    state = ERROR if error else PENDING
    if not error and any(name.startswith("usage") for name in fields):
        state = RUNNING
    return AccountRow(id=task, raw_id=str(task.job), state=state, state_text=state, exit=0, signal=0, reason=error)


# ---------------------------------------------------------------------------------------------------------------- qacct

_RESCHEDULED: Final = 25
_LIMIT: Final = 37
_AFTER_JOB: Final = 100
_NEARLY_ALL: Final = 0.95
"""Share of the memory limit above which a killed job most likely exceeded it: memory is seen once in a while."""
_DELETED_STATUS: Final = frozenset({137, 143})
_FAILED: Final = re.compile(r"(\d{1,9})\s*(?::\s*(.*))?")
_STORED: Final = (
    "qname", "hostname", "owner", "project", "department", "jobname", "jobnumber", "taskid", "account", "priority",
    "qsub_time", "start_time", "end_time", "granted_pe", "slots", "failed", "deleted_by", "exit_status", "ru_wallclock",
    "ru_utime", "ru_stime", "ru_maxrss", "cpu", "mem", "io", "maxvmem", "category",
)  # fmt: skip
"""Fields of qacct that are stored as they are; a version has most of them."""
_NO_RECORD: Final = re.compile(
    r"error: (job id \S+|job name .*|Job-array tasks .*) not found|no jobs running since startup"
    r"|.*/accounting: No such file or directory"
)


def read_accounting_answer(answer: ProgramResult) -> ProgramResult:
    """Return an answer of qacct with the status that its errors mean: that there is no record is an answer."""
    if answer.status is None:
        return answer
    has_answered = all(map(_NO_RECORD.fullmatch, plain_lines(answer.err)))
    return msgspec.structs.replace(answer, status=0 if has_answered else answer.status or 1)


def gathered_rows(text: str) -> dict[TaskId, AccountRow]:
    """Parse the blocks of ``qacct -j``; of several runs of a task, the last one counts.

    A job on several hosts also has a block for each command that it started on one of them, which ran while it did.
    """
    rows: dict[TaskId, AccountRow] = {}
    for block in re.split(r"^=+\s*$", text, flags=re.MULTILINE):
        fields = {name.strip(): value.strip() for name, _, value in lines_at(block, " ")}
        if (number := parse_number(fields.get("jobnumber", ""))) is not None:
            place = parse_number(fields.get("taskid", ""))
            task = TaskId(number, place - 1 if place else None)
            row = _account_row(task, fields)
            if task not in rows or fields.get("granted_pe", "NONE") == "NONE" or not row.ran_within(rows[task]):
                rows[task] = row
    return rows


def _account_row(task: TaskId, fields: Mapping[str, str]) -> AccountRow:
    failed = _FAILED.match(fields.get("failed", ""))
    code = int(failed[1]) if failed else 0
    status = int(_leading_number(fields.get("exit_status", "")))
    submitted, started, ended = (local_time(fields.get(f"{name}_time", "")) for name in ("qsub", "start", "end"))
    return AccountRow(
        id=task,
        raw_id=str(task.job),
        state=final_state(code, status, fields),
        state_text=f"failed {fields.get('failed', '')}".strip(),
        exit=status if status <= 128 else 0,
        signal=status - 128 if 128 < status < 193 else 0,
        started_at=started,
        ended_at=ended,
        run_s=_leading_number(fields.get("ru_wallclock", "")),
        cpu_s=_leading_number(fields.get("cpu", "")),
        peak_memory_b=parse_bytes(fields.get("maxvmem", "")) or None,
        node=fields.get("hostname", ""),
        queue_s=seconds_between(submitted, started),
        gathered={name: fields[name] for name in _STORED if fields.get(name)},
    )


def final_state(failed: int, status: int, fields: Mapping[str, str]) -> str:
    """Return the state of a task that is over (accounting(5): failed).

    One code means both memory and time, and another both a deletion and any signal: what was used decides, beside the
    limits in ``category``.
    """
    if failed == _RESCHEDULED:
        return RESCHEDULED
    if failed not in (_LIMIT, _AFTER_JOB):
        return NOT_STARTED if failed else EXIT if status else DONE
    limits = requested(fields.get("category", ""))
    wall_s, cpu_s = _leading_number(fields.get("ru_wallclock", "")), _leading_number(fields.get("cpu", ""))
    if parse_seconds(limits.get("h_rt", "")) <= wall_s or parse_seconds(limits.get("h_cpu", "")) <= cpu_s:
        return TIME
    memory = parse_bytes(limits.get("h_vmem", "")) * (_leading_number(fields.get("slots", "")) or 1)
    is_full = bool(memory) and parse_bytes(fields.get("maxvmem", "")) >= memory * _NEARLY_ALL
    if failed == _LIMIT:
        # Without a limit of the job's own, that of its queue ended it.
        return MEMORY if is_full or memory else TIME
    if parse_seconds(limits.get("s_rt", "")) <= wall_s:
        return TIME
    if is_full:
        return MEMORY
    return DELETED if status in _DELETED_STATUS else SIGNAL


def requested(category: str) -> dict[str, str]:
    """Return the requests in a category: the values behind ``-l``."""
    lists = re.findall(r"(?:^|\s)-l\s+(\S+)", category)
    pairs = (word.partition("=") for text in lists for word in text.split(","))
    return {name: value for name, equals, value in pairs if equals}


# ----------------------------------------------------------------------------------------------------------------- qdel

_DELETED: Final = re.compile(
    r".* has (registered|deleted) .*|.* is already in deletion|.*does not exist.*|.*do not exist.*", re.IGNORECASE
)


def read_cancel_answer(answer: ProgramResult) -> ProgramResult:
    """Return an answer of qdel, as a success where all that failed is that a job is gone already."""
    lines = plain_lines(answer.out, answer.err)
    has_cancelled = answer.status is not None and bool(lines) and all(map(_DELETED.fullmatch, lines))
    return msgspec.structs.replace(answer, status=0) if has_cancelled else answer


# ----------------------------------------------------------------------------------------------------- qconf and trials

_EMPTY_LIST: Final = re.compile(r"no .* defined")
_JUDGED: Final = "verification: "
_UNFIT: Final = "verification: no suitable queues"
_SUBJECT: Final = re.compile(r"^(Unable to run job: )?(Job \d+ )?")
_NOISE: Final = re.compile(r"Exiting\.|.* because it is not contained in its hard queue list .*|verification: .*")


def read_list_answer(answer: ProgramResult) -> ProgramResult:
    """Return an answer of qconf, as a success where all that failed is that there is nothing to list."""
    lines = plain_lines(answer.err)
    is_empty = answer.status is not None and bool(lines) and all(map(_EMPTY_LIST.fullmatch, lines))
    return msgspec.structs.replace(answer, status=0) if is_empty else answer


def read_trial_answer(answer: ProgramResult) -> ProgramResult:
    """Return an answer of ``qsub -w v``, which tells its verdict as an error, as the output of a success.

    Lines that say nothing are left out, and so are the beginnings of others.
    """
    text = f"{answer.out}\n{answer.err}"
    said = (_SUBJECT.sub("", line) for line in plain_lines(text))
    reasons = [line for line in said if not _NOISE.fullmatch(line)]
    if _JUDGED not in text:
        return answer if answer.ok else msgspec.structs.replace(answer, out="", err="\n".join(reasons))
    verdict = [_UNFIT] if _UNFIT in text else []
    return msgspec.structs.replace(answer, status=0, out="\n".join([*reasons, *verdict]), err="")


_UNJUDGED: Final = re.compile(r"^#\$.*\s-w\s+[nw]\b", re.MULTILINE)


def is_unjudged(script: str) -> bool:
    """Whether a script has qsub take a job that no queue can run: it waits until one can (qsub(1): ``-w``)."""
    return _UNJUDGED.search(script) is not None


def is_unfit(answer: ProgramResult) -> bool:
    """Whether this is the answer of ``qsub -w v`` on a job that no queue of the empty cluster can run."""
    return answer.ok and answer.out.endswith(_UNFIT)


# --------------------------------------------------------------------------------------------------------------- values

_UNITS: Final = {**BINARY_UNITS, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
"""Small letters mean powers of 1000 (sge_types(1))."""


def parse_bytes(text: str) -> int:
    """Parse ``432.918MB``, ``200M`` or ``1.5G``; 0 for no amount."""
    return parse_size(text, _UNITS) or 0


def parse_seconds(text: str) -> float:
    """Parse ``3600`` or ``1:00:00``; infinity for no limit."""
    seconds = parse_duration(text) if ":" in text else parse_number(text)
    return float("inf") if seconds is None else float(seconds)


def local_time(text: str) -> float | None:
    """Parse local time, in the form of qstat or of a version of qacct."""
    return parse_time(text, "%a %b %d %H:%M:%S %Y", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S.%f")


_NUMBER: Final = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,18})?)")


def _leading_number(text: str) -> float:
    found = _NUMBER.match(text)
    return float(found[1]) if found else 0.0


def lines_at(text: str, separator: str) -> Iterator[tuple[str, str, str]]:
    """Part each line at its first separator."""
    return (line.partition(separator) for line in text.splitlines())
