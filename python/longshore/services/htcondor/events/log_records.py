"""Records of HTCondor's user logs, read as they grow: ends, hosts, granted memory, usage and reasons of holds."""

from __future__ import annotations

import errno
import heapq
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from longshore.model.states import Cause
from longshore.model.workflow import MIB
from longshore.services.htcondor.codes import CANCEL_REASON, cause_of_hold

# Reads records from a growing HTCondor user log. The text is parsed here, because the bindings are slower. An
# incomplete record is left for the next read; a log that was replaced or truncated is reported.


_CHUNK_BYTES: Final = 1 << 18
"""Bytes per read: a piece that fits into the processor's cache is parsed in half the time."""
_HEAD_BYTES: Final = 200
"""Bytes of the start that identify a log: its first record has a cluster and a time."""
_MAX_ID: Final = 2**31 - 1
"""Largest number of a cluster or process."""
_END: Final = b"\n...\n"
_TIME_OFFSET: Final = len("000 (.000.000) ")
"""Bytes before the time of a record, without those of the number of its cluster."""
_HEADER: Final = re.compile(
    rb"(\d{3}) \((\d{1,10})\.(-?\d{1,10})\.(-?\d{1,10})\) "
    rb"(?:(\d{4})-(\d\d)-(\d\d)[ T]|(\d\d)/(\d\d)(?:/(\d{4}|\d\d))? )(\d\d):(\d\d):(\d\d)(\.\d+)?(Z|[+-]\d\d:?\d\d)? ?"
)


class ReplacedLogError(Exception):
    """A log is another file than the one read before."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event of a job in the log."""

    event_type: int
    """Number of the event type, as in HTCondor's manual."""
    cluster: int
    proc: int
    at: float
    """Time of the record, in seconds since the epoch."""
    body: bytes
    """The rest of its first line, and the lines below."""


class LogPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A read position in a log."""

    inode: int = 0
    head: bytes = b""
    """First bytes of the file, which with the inode identify it."""
    offset: int = 0
    """Bytes read."""


class UserLog:
    """A growing user log; the file need not exist yet.

    Attributes
    ----------
    position
        The read position.
    is_replaced
        Whether another file is there than was read before; it is read from its start.
    invalid_records
        Number of texts that are no records.
    """

    def __init__(self, path: Path, position: LogPosition | None = None) -> None:
        self._path = path
        self.position = position or LogPosition()
        self.is_replaced = False
        self.invalid_records = 0
        self._minute_starts: dict[bytes, float] = {}
        self._times: dict[bytes, float] = {}
        self._year = 0

    @property
    def positions(self) -> list[LogPosition]:
        """The read position, in a list of one; see `LogGroup`."""
        return [self.position]

    def read_records(self) -> Iterator[Record]:
        """New complete records, in order.

        Raises `OSError` if the file exists and cannot be read.
        """
        for texts in self.read_texts():
            yield from filter(None, map(self.parse_record, texts))

    def read_texts(self) -> Iterator[list[bytes]]:
        """Texts of new complete records, many at a time; some may be no records.

        What is written after the first is left for the next read: files that a job left before its record are there
        when they are looked for then.
        Raises `OSError` if the file exists and cannot be read.
        """
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            self.is_replaced = bool(self.position.offset)
            self.position = LogPosition()
            return
        with file:
            head = file.read(_HEAD_BYTES)
            status = self._path.stat()
            self._year = time.localtime(status.st_mtime).tm_year
            before = self.position
            is_same = before.inode == status.st_ino and before.offset <= status.st_size and head.startswith(before.head)
            self.is_replaced = bool(before.offset) and not is_same
            offset = before.offset if is_same else 0
            file.seek(offset)
            self.position = LogPosition(inode=status.st_ino, head=head[: min(len(head), max(offset, 0))], offset=offset)
            rest, end = b"", status.st_size
            while chunk := file.read(min(_CHUNK_BYTES, max(0, end - file.tell()))):
                texts = (rest + chunk).split(_END)
                rest = texts.pop()
                yield texts
                offset += sum(map(len, texts)) + len(_END) * len(texts)
                self.position = LogPosition(inode=status.st_ino, head=head[: min(len(head), offset)], offset=offset)

    def parse_record(self, text: bytes) -> Record | None:
        """Parse a record; ``None`` if the text is none."""
        # Nearly all have one form, and records of one second are adjacent: a pattern takes three times as long.
        bracket = text.find(b")", 8, 60)
        at = self._times.get(text[bracket + 2 : bracket + 22])
        if at is not None:
            names = text[5:bracket].split(b".")
            if len(names) == 3 and text[:3].isdigit() and names[0].isdigit() and names[1].isdigit():
                cluster, proc = int(names[0]), int(names[1])
                if cluster <= _MAX_ID and proc <= _MAX_ID:
                    return Record(int(text[:3]), cluster, proc, at, text[bracket + 22 :])
        record = self._parse_any_record(text)
        if (
            record is not None
            and text[bracket + 21 : bracket + 22] == b" "
            and b"." not in text[bracket : bracket + 21]
        ):
            self._times[text[bracket + 2 : bracket + 22]] = record.at
        return record

    def parse_time(self, text: bytes, cluster: bytes) -> float | None:
        """Time of a record of a cluster; ``None`` if the text is no record."""
        # Nearly all records have three digits per number behind that of the cluster.
        begin = len(cluster) + _TIME_OFFSET
        at = self._times.get(text[begin : begin + 20])
        if at is None and (record := self.parse_record(text)) is not None:
            at = record.at
        return at

    def _parse_any_record(self, text: bytes) -> Record | None:
        found = _HEADER.match(text)
        if found is None:
            self.invalid_records += bool(text.strip())
            return None
        event_type, cluster, proc = map(int, found.group(1, 2, 3))
        at: float | None = None
        # Such as the thirteenth month.
        with suppress(ValueError, OverflowError):
            at = self._time_of(found)
        if at is None or max(cluster, proc) > _MAX_ID:
            self.invalid_records += 1
            return None
        return Record(event_type, cluster, proc, at, text[found.end() :])

    def _time_of(self, found: re.Match[bytes]) -> float:
        # Adjacent records share all but the seconds, and date arithmetic is slow.
        minute = found.string[found.start(5 if found[5] else 8) : found.end(12)] + (found[15] or b"")
        start = self._minute_starts.get(minute)
        if start is None:
            start = self._minute_starts[minute] = self._minute_start(found)
        return start + int(found[13]) + (float(found[14]) if found[14] else 0.0)

    def _minute_start(self, found: re.Match[bytes]) -> float:
        if found[5]:
            year, month, day = int(found[5]), int(found[6]), int(found[7])
        else:
            # Old logs have no year: that of the last write is assumed.
            written_year = int(found[10] or self._year)
            year, month, day = written_year + (2000 if written_year < 100 else 0), int(found[8]), int(found[9])
        hour, minute, zone = int(found[11]), int(found[12]), found[15]
        if zone is None:
            return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))
        if zone == b"Z":
            return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()
        text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00{zone.decode()}"
        return datetime.fromisoformat(text).timestamp()


class LogGroup:
    """The logs of a DAG and of its groups' DAGs, read as one; a job has its records in one of them."""

    def __init__(self, logs: Sequence[UserLog]) -> None:
        self._logs = logs

    @property
    def positions(self) -> list[LogPosition]:
        """The read positions."""
        return [log.position for log in self._logs]

    @property
    def is_replaced(self) -> bool:
        """Whether one of the logs was replaced."""
        return any(log.is_replaced for log in self._logs)

    def read_records(self) -> Iterator[Record]:
        """New complete records, by time; a record that is written late comes after those read before.

        Raises `OSError` if a file exists and cannot be read.
        """
        return heapq.merge(*(log.read_records() for log in self._logs), key=lambda record: record.at)


AnyLog: TypeAlias = UserLog | LogGroup


def open_log(paths: Sequence[Path], positions: Sequence[LogPosition]) -> AnyLog:
    """Return the logs at some paths as one, from their read positions; those left out are read from the start."""
    logs = [UserLog(path, position) for path, position in zip_longest(paths, positions[: len(paths)])]
    return logs[0] if len(logs) == 1 else LogGroup(logs)


# Parses the body of one log record: an attempt's end, host, granted memory, usage, and hold reasons.


_MAX_DIGITS: Final = 9
"""Digits of the largest amount of memory in MiB."""
_MAX_USAGE: Final = 1e12
_MAX_LINES: Final = 4096
"""Lines whose numbers are cached."""
UNMET_OUTPUT: Final = 73
"""Exit code of the wrapper for a job that succeeded and left an output not as it must be; a job may have it as well."""
_MISSING_CAUSES: Final = {
    "Transfer input files failure": Cause.INPUT_MISSING,
    "Transfer output files failure": Cause.OUTPUT_MISSING,
}
"""Cause of a missing file, by the beginning of the reason of a hold."""
_READING: Final = "reading from file"
"""Words in the reason of a hold: the host that sends a file could not read it."""
_NODE_NAME: Final = b'DAGNodeName = "'
_NODE: Final = re.compile(rb"DAG Node: (\S+)")
_SLOT_NAME: Final = b"SlotName:"
_SLOT: Final = re.compile(rb"alias=([^&>\s]+)|<([^:>]+)")
_ALLOCATED: Final = b"\n\tMemory = "
_ENDING: Final = re.compile(
    rb"\(\d\) (?:Normal termination \(return value (-?\d{1,10})\)|Abnormal termination \(signal (\d{1,9})\))"
)
_CPU: Final = re.compile(
    rb"Usr (\d{1,9}) (\d{1,9}):(\d\d?):(\d\d?), Sys (\d{1,9}) (\d{1,9}):(\d\d?):(\d\d?)  -  Run Remote Usage"
)
_NO_USE: Final = b"Usr 0 00:00:00, Sys 0 00:00:00"
_MEMORY: Final = b"Memory (MB)"
_CODE: Final = re.compile(rb"Code (\d{1,9}) Subcode (\d{1,9})\b")
_REASON: Final = re.compile(rb"\n\tReason: ([^\n]*)")
_SUCCESS: Final = b"\t(1) Normal termination (return value 0)"
_REQUEUED: Final = b"Job terminated and was requeued"
_SIGNAL_IN_REASON: Final = re.compile(r"\bsignal (\d{1,9})\b", re.IGNORECASE)
_EXIT_IN_REASON: Final = re.compile(r"\bexit(?:ed|ing)?(?: with)?(?: code| status)? (\d{1,9})\b", re.IGNORECASE)


class AttemptEnd(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The end of an attempt."""

    exit: int | None = None
    signal: int | None = None
    """Number of the signal that ended it."""
    cause: Cause | None = None
    """Cause of the failure; ``None`` for a success."""
    reason: str | None = None
    """The failure in HTCondor's words."""
    is_requeued: bool = False
    """Whether HTCondor itself starts the job again."""
    cpu_s: float | None = None
    """Processor time."""
    rss_b: int | None = None
    """Peak memory, in bytes."""
    run_s: float | None = None
    """Run time, as measured by the machine."""
    granted_mb: int | None = None
    """Granted memory, in MiB."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Code and reason of a hold."""

    code: int
    subcode: int
    reason: str

    @property
    def cause(self) -> Cause:
        """Cause by the codes."""
        return _cause_of_hold(self.code, self.subcode, self.reason)


def _cause_of_hold(code: int, subcode: int, reason: str) -> Cause:
    """The cause of an end by hold or eviction; failed transfers of inputs and outputs share their codes."""
    for words, missing in _MISSING_CAUSES.items():
        if reason.startswith(words):
            return missing if subcode == errno.ENOENT and _READING in reason else Cause.TRANSFER
    return cause_of_hold(code, subcode)


def parse_node(body: bytes) -> str:
    """Name of the DAG node of a submitted job; empty if absent."""
    # The name is near the end.
    begin = body.rfind(_NODE_NAME)
    if begin >= 0:
        begin += len(_NODE_NAME)
        return body[begin : body.find(b'"', begin)].decode("utf-8", "replace")
    found = _NODE.search(body)
    return found[1].decode("utf-8", "replace") if found else ""


def parse_host(body: bytes) -> str | None:
    """Host that a job was started on."""
    begin = body.find(_SLOT_NAME)
    if begin >= 0:
        end = body.find(b"\n", begin)
        slot = body[begin + len(_SLOT_NAME) : end if end >= 0 else len(body)]
        return slot[slot.find(b"@") + 1 :].strip().decode("utf-8", "replace")
    found = _SLOT.search(body)
    return next(word for word in found.groups() if word).decode("utf-8", "replace") if found else None


def parse_memory(body: bytes) -> int | None:
    """Memory granted to a started job, in MiB."""
    begin = body.find(_ALLOCATED)
    if begin < 0:
        return None
    word = body[begin + len(_ALLOCATED) :].split(None, 1)[:1]
    return int(word[0]) if word and word[0].isdigit() and len(word[0]) <= _MAX_DIGITS else None


def is_success(text: bytes) -> bool:
    """Whether a job that left the queue succeeded, as nearly all do."""
    return text.startswith(_SUCCESS, text.find(b"\n") + 1)


def parse_termination(body: bytes) -> AttemptEnd:
    """The end of a job that left the queue, or was requeued."""
    if is_success(body):
        return _add_usage(body, AttemptEnd(exit=0))
    found = _ENDING.search(body)
    exit_code = int(found[1]) if found and found[1] else None
    signal = int(found[2]) if found and found[2] else None
    cause = reason = None
    if signal is not None:
        cause, reason = Cause.SIGNAL, f"signal {signal}"
    elif exit_code is None:
        cause, reason = Cause.LOST, "HTCondor does not say how it ended"
    elif exit_code:
        cause, reason = Cause.EXIT, f"exit code {exit_code}"
    return _add_usage(body, AttemptEnd(exit=exit_code, signal=signal, cause=cause, reason=reason))


def parse_eviction(body: bytes) -> AttemptEnd:
    """The end of an attempt by eviction or requeue."""
    if _REQUEUED in body:
        return msgspec.structs.replace(parse_termination(body), is_requeued=True)
    code = _CODE.search(body, 0, body.find(b"\n") if b"\n" in body else len(body))
    said = _REASON.search(body)
    reason = said[1].decode("utf-8", "replace").strip() if said else "it was evicted"
    cause = _cause_of_hold(int(code[1]), int(code[2]), reason) if code else Cause.PREEMPTED
    if cause is Cause.CANCELLED and is_removed_by_rule(reason):
        cause = (
            Cause.WALLTIME
        )  # we remove no running job: an expression of the user's or the schedd's found it too long
    return _add_usage(body, AttemptEnd(cause=cause, reason=reason))


def parse_hold(body: bytes) -> Hold:
    """Code and reason of a hold."""
    lines = [line.strip() for line in body.decode("utf-8", "replace").split("\n")[1:]]
    code = _CODE.search(body)
    reason = next((line for line in lines if line and not line.startswith("Code ")), "no reason is given")
    return Hold(code=int(code[1]) if code else 0, subcode=int(code[2]) if code else 0, reason=reason)


def end_of_hold(hold: Hold) -> AttemptEnd:
    """The end of an attempt that the job's own policy put on hold; only the hold's reason describes it."""
    signal, exit_code = _SIGNAL_IN_REASON.search(hold.reason), _EXIT_IN_REASON.search(hold.reason)
    return AttemptEnd(
        exit=int(exit_code[1]) if exit_code else None,
        signal=int(signal[1]) if signal else None,
        cause=hold.cause,
        reason=hold.reason,
    )


_OWN_RULE: Final = "PeriodicRemove expression 'JobStatus == 5 && "
"""Beginning of the rule that `render.retries` writes, as the schedd repeats it."""


def parse_reason(body: bytes) -> str:
    """The lines below the first, joined into one."""
    return "; ".join(line.strip() for line in body.decode("utf-8", "replace").split("\n")[1:] if line.strip())


def is_removed_by_rule(why: str) -> bool:
    """Whether a job was removed by an expression, its own or the schedd's, not by a person."""
    return "evaluated to TRUE" in why


def describe_removal(held: str, why: str) -> str:
    """Say why a held job was removed by an expression; the long one of each job of a run is not repeated."""
    return f"{held}; then removed {'by its rule for held jobs' if _OWN_RULE in why else f'because: {why}'}"


def is_removed_with_dag(why: str) -> bool:
    """Whether a job was removed because its DAGMan was."""
    return "OtherJobRemoveRequirements" in why or why.startswith("DAG Removed")


def is_removed_by_person(why: str) -> bool:
    """Whether a person removed a job, and with other tools than Longshore."""
    is_order = CANCEL_REASON in why
    return not (is_order or is_removed_by_rule(why) or is_removed_with_dag(why) or why == "it was removed")


def _add_usage(body: bytes, ending: AttemptEnd) -> AttemptEnd:
    """The end with resource usage; searched by plain text, several times as fast as by patterns."""
    rss_b, granted_mb = parse_memory_row(body)
    seconds, _, _ = _parse_usage_row(body, b"TimeExecute (s)")
    return AttemptEnd(
        exit=ending.exit,
        signal=ending.signal,
        cause=ending.cause,
        reason=ending.reason,
        is_requeued=ending.is_requeued,
        cpu_s=parse_cpu_s(body),
        rss_b=rss_b,
        run_s=seconds,
        granted_mb=granted_mb,
    )


def parse_cpu_s(body: bytes) -> float | None:
    """Processor time of an attempt."""
    begin = body.find(b"Usr ")
    used = _parse_cpu(_line_from(body, begin)) if begin >= 0 else None
    if used:
        return used
    # Whole seconds are 0 for a shorter use.
    seconds, _, _ = _parse_usage_row(body, b"TimeExecute (s)")
    share, _, _ = _parse_usage_row(body, b"   Cpus ")
    return round(share * seconds, 2) if seconds and share is not None else used


@lru_cache(_MAX_LINES)
def _parse_cpu(text: bytes) -> float:
    # Times are whole seconds, so that most jobs share the text with others; the same holds for rows of usage.
    cpu = None if text.startswith(_NO_USE) else _CPU.match(text)
    if cpu is None:
        return 0.0
    user, system = map(int, cpu.group(1, 2, 3, 4)), map(int, cpu.group(5, 6, 7, 8))
    return float(_seconds(*user) + _seconds(*system))


def parse_memory_row(body: bytes) -> tuple[int | None, int | None]:
    """Peak memory of an attempt in bytes, and the granted memory in MiB."""
    # The row is near the end.
    begin = body.rfind(_MEMORY)
    return _parse_memory(_line_from(body, begin)) if begin >= 0 else (None, None)


@lru_cache(_MAX_LINES)
def _parse_memory(row: bytes) -> tuple[int | None, int | None]:
    usage, _, allotted = _parse_usage_row(row, _MEMORY)
    return None if usage is None else int(usage) * MIB, None if allotted is None else int(allotted)


def _parse_usage_row(body: bytes, name: bytes) -> tuple[float | None, float | None, float | None]:
    """Usage, request and allocation of a resource; usage may be absent."""
    begin = body.find(name)
    if begin < 0:
        return None, None, None
    return _parse_numbers(_line_from(body, body.find(b":", begin) + 1))


def _line_from(body: bytes, begin: int) -> bytes:
    """The rest of a line from an offset."""
    end = body.find(b"\n", begin)
    return body[begin : end if end >= 0 else len(body)]


@lru_cache(_MAX_LINES)
def _parse_numbers(text: bytes) -> tuple[float | None, float | None, float | None]:
    try:
        numbers = [float(word) for word in text.split()]
    except ValueError:
        return None, None, None
    if not all(abs(number) < _MAX_USAGE for number in numbers):
        # Not a number, infinity, or more than there is.
        return None, None, None
    if len(numbers) == 3:
        return numbers[0], numbers[1], numbers[2]
    if len(numbers) == 2:
        return None, numbers[0], numbers[1]
    return (numbers[0] if numbers else None), None, None


def _seconds(days: int, hours: int, minutes: int, seconds: int) -> int:
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
