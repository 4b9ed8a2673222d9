"""What bsub, bjobs, bhist, bacct and bkill answer on jobs, and what each state means for an attempt."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec

from longshore.errors import DECODE_ERRORS
from longshore.model.states import Cause
from longshore.services.batch.answers import (
    BINARY_UNITS,
    SubmitOutcome,
    SubmitReplies,
    parse_duration,
    parse_number,
    parse_size,
    plain_lines,
)
from longshore.services.batch.jobs import AccountRow, QueueRow, StateTable, TaskId
from longshore.system.programs import ProgramResult

# A job that was terminated is in state ``EXIT``, whatever its exit status: the reason says why. A known reason is
# therefore a state here.


HELD: Final = "PSUSP: suspended while pending"
"""Why a held job waits."""

REASONS: Final[Mapping[str, Cause]] = MappingProxyType(
    {
        **dict.fromkeys(("TERM_MEMLIMIT", "TERM_SWAP"), Cause.OOM),
        **dict.fromkeys(("TERM_RUNLIMIT", "TERM_CPULIMIT", "TERM_DEADLINE"), Cause.WALLTIME),
        **dict.fromkeys(("TERM_OWNER", "TERM_FORCE_OWNER", "TERM_ADMIN", "TERM_FORCE_ADMIN"), Cause.CANCELLED),
        **dict.fromkeys(("TERM_BUCKET_KILL", "TERM_ORPHAN_SYSTEM"), Cause.CANCELLED),
        **dict.fromkeys(("TERM_PREEMPT", "TERM_LOAD", "TERM_WINDOW", "TERM_CHKPNT"), Cause.PREEMPTED),
        **dict.fromkeys(("TERM_REQUEUE_OWNER", "TERM_REQUEUE_ADMIN"), Cause.PREEMPTED),
        "TERM_CWD_NOTEXIST": Cause.SUBMIT,
        "TERM_EXTERNAL_SIGNAL": Cause.EXIT,
        "TERM_UNKNOWN": Cause.EXIT,
    }
)
"""Cause of failure per reason of termination (bjobs -o exit_reason, bhist -l, bacct -l)."""

_QUEUE: Final = "choose another 'queue', or change what the job asks for to what its queue allows"
_HOSTS: Final = "change 'lsf.hosts' to hosts that the queue has, or choose another 'queue'"
HOPELESS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Bad host name, host group name or cluster name": _HOSTS,
        "Host or host group is not used by the queue": _HOSTS,
        "Dependency condition invalid or never satisfied": "remove the dependency: the other job has failed",
        "Event is rejected by eeventd due to syntax error": "correct the option for an external event",
        "Job no longer satisfies queue PROCLIMIT configuration": _QUEUE,
        "Job no longer satisfies queue TASKLIMIT configuration": _QUEUE,
        "The user has no permission to run the job on remote host/cluster": "choose another 'queue'",
        "Unable to determine user account for execution": "ask an operator for an account on the hosts of the queue",
    }
)
"""The change that mends each reason of waiting that does not pass by itself, in words that follow a colon.

The reasons are those of ``bjobs -p``. They are reasons for all hosts: one that holds for some hosts may pass.
"""

STATES: Final = StateTable(
    waiting=("PEND", "PROV", "PSUSP", "USUSP", "SSUSP", "WAIT"),
    # The host of UNKWN does not answer: the job may still run there.
    running=("RUN", "UNKWN"),
    # ZOMBI was killed while its host did not answer, and nothing more is known of it.
    causes=MappingProxyType({"DONE": None, "EXIT": Cause.EXIT, "ZOMBI": Cause.LOST, **REASONS}),
    ordinary=frozenset({"DONE", "EXIT"}),
    suspended=frozenset({"USUSP", "SSUSP"}),
    held_reasons=frozenset({HELD}),
    hopeless_reasons=HOPELESS,
)


def final_state(state: str, reason: str) -> str:
    """Return the state that tells most: the known reason of a termination, else the state itself."""
    word = reason.partition(":")[0].strip()
    return word if state == "EXIT" and word in REASONS else state


# What bjobs prints: JSON, and the text that is asked for where the JSON cannot be read.


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


# What bhist -l and bacct -l print of jobs that bjobs has forgotten.


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


REPLIES: Final = SubmitReplies(
    accepted=re.compile(r"Job <(\d{1,18})> is submitted.*"),
    errors=(
        # Nothing more is known of what was sent.
        (SubmitOutcome.BROKEN, "Failed in sending/receiving a message|Communication error|lost connection"),
        (SubmitOutcome.UNSURE, "Communication time ?out|Internal library error|Batch protocol error|XDR"),
        (
            SubmitOutcome.UNREACHABLE,
            (
                "Cannot connect to LSF|LSF is down|LIM is down|Cannot find master|daemon.* not respond"
                "|Timeout on connect call|Connection refused|Server is not connected|Batch service not registered"
                "|Unknown cluster name or cluster master|LSB_SHAREDIR not defined"
            ),
        ),
        (SubmitOutcome.TOO_LARGE, "Job array (index|size)|MAX_JOB_ARRAY_SIZE"),
        (
            SubmitOutcome.CLOSED,
            (
                "pending job (slot )?(threshold|limit)|reached its (pending )?job( slot)? limit"
                "|enough (per-(user|processor|host) )?job slots|Queue has been (closed|inactivated)"
                "|queue windows are closed|Not enough host.* currently eligible|Current host is more suitable"
                "|host is locked|licenses? [\\w ]*(unavailable|not available)"
            ),
        ),
        (
            SubmitOutcome.THROTTLED,
            (
                "Too many jobs|No job Id can be used now|try again later|daemon internal error|daemon cannot fork"
                "|System call failed|Cannot allocate memory|Child process died|Operation is in progress"
                "|parameters are being used|spool|Authentication|credential"
            ),
        ),
        (
            SubmitOutcome.REFUSED,
            (
                "No such (queue|user|host|project|application|job group|service class)|User cannot use the queue"
                "|Bad (queue|resource|host|argument|time|CPU limit|job name|user|or invalid)|Bad/empty"
                "|Unknown (user|resource)|No (resource|user group|host group|user/host group) defined"
                "|Too (many|few) processors requested|exceed queue's|User permission denied|Illegal option"
                "|is not used by the queue|(does not|only) accepts?|Root job submission is disabled|syntax error"
                "|not in (the )?specified (user|project) group|first execution host|Empty job|Signal not supported"
                "|Dependency condition invalid|Dependent arrays|Queue name must be specified|group does not exist"
                "|later than termination time|cannot be rerunnable|Job priority control undefined"
            ),
        ),
    ),
)
"""What bsub answers.

The texts are those of ``lsberrno`` (``lsbatch/lib/lsb.err.c`` of openlava, which began as LSF), and those that bsub(1)
and lsb.params(5) name for newer limits.
``Request aborted by esub`` says nothing of the reason: the site's own filter may refuse the request or the moment.
"""

_NO_JOBS: Final = re.compile(r"No (unfinished |matching |finished )?jobs? found|Job <[^<>]*> is not found")
_KILLED: Final = re.compile(
    r"is being (terminated|signaled|resumed)|Job has already finished|No (matching|unfinished) job found|is not found"
)


def is_answer_of_jobs(answer: ProgramResult) -> bool:
    """Whether bjobs answered: its exit status is a failure also where it has no job to list."""
    lines = plain_lines(answer.err)
    return answer.status is not None and bool(lines or answer.out.strip()) and all(map(_NO_JOBS.search, lines))


def knows_no_job(text: str) -> bool:
    """Whether bhist or bacct says that it has no such job."""
    return bool(_NO_JOBS.search(text))


def is_answer_of_kill(answer: ProgramResult) -> bool:
    """Whether bkill or bresume did all it was to do: a job that is over needs nothing more."""
    lines = plain_lines(answer.err, answer.out)
    return answer.status is not None and bool(lines) and all(map(_KILLED.search, lines))
