"""Turns the words of one record of HTCondor's log into what they say: how an attempt ended, on what host, and why."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from longshore.model.run.state import Cause
from longshore.model.workflow.request import MIB
from longshore.services.htcondor.event_codes import cause_of_hold

_SAID_NODE: Final = b'DAGNodeName = "'
_NODE: Final = re.compile(rb"DAG Node: (\S+)")
_SLOT: Final = re.compile(rb"alias=([^&>\s]+)|<([^:>]+)")
_ALLOCATED: Final = b"\n\tMemory = "
_ENDING: Final = re.compile(
    rb"\(\d\) (?:Normal termination \(return value (-?\d+)\)|Abnormal termination \(signal (\d+)\))"
)
_CPU: Final = re.compile(rb"Usr (\d+) (\d+):(\d+):(\d+), Sys (\d+) (\d+):(\d+):(\d+)  -  Run Remote Usage")
_CODE: Final = re.compile(rb"Code (\d+) Subcode (\d+)")
_REASON: Final = re.compile(rb"\n\tReason: ([^\n]*)")
_WELL: Final = b"\t(1) Normal termination (return value 0)"
_REQUEUED: Final = b"Job terminated and was requeued"
_SIGNAL_SAID: Final = re.compile(r"\bsignal (\d+)\b", re.IGNORECASE)
_EXIT_SAID: Final = re.compile(r"\bexit(?:ed|ing)?(?: with)?(?: code| status)? (\d+)\b", re.IGNORECASE)


class Ending(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How an attempt ended.

    Attributes
    ----------
    exit, signal
        Its exit code, or the number of the signal that ended it.
    cause
        Why that is no success.
    reason
        The same in HTCondor's words.
    requeued
        Whether HTCondor starts the job again by itself.
    cpu_s, rss_b
        Time of the processor, and the peak of its memory.
    run_s
        How long it ran, as the machine measured it.
    granted_mb
        Memory it was given, in MiB.
    """

    exit: int | None = None
    signal: int | None = None
    cause: Cause | None = None
    reason: str | None = None
    requeued: bool = False
    cpu_s: float | None = None
    rss_b: int | None = None
    run_s: float | None = None
    granted_mb: int | None = None


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job is held.

    Attributes
    ----------
    code, subcode
        HTCondor's numbers.
    reason
        Its words.
    """

    code: int
    subcode: int
    reason: str

    @property
    def cause(self) -> Cause:
        """What the numbers stand for."""
        return cause_of_hold(self.code, self.subcode)


def node_of(body: bytes) -> str:
    """Name of the node a job was submitted for; empty where none is said."""
    # From the end, where it stands.
    begin = body.rfind(_SAID_NODE)
    if begin >= 0:
        begin += len(_SAID_NODE)
        return body[begin : body.find(b'"', begin)].decode("utf-8", "replace")
    found = _NODE.search(body)
    return found[1].decode("utf-8", "replace") if found else ""


def host_of(body: bytes) -> str | None:
    """The machine that a job was started on."""
    begin = body.find(b"SlotName:")
    if begin >= 0:
        slot = body[begin + 9 :].split(b"\n", 1)[0].strip()
        return slot[slot.find(b"@") + 1 :].decode("utf-8", "replace")
    found = _SLOT.search(body)
    return next(word for word in found.groups() if word).decode("utf-8", "replace") if found else None


def memory_of(body: bytes) -> int | None:
    """Memory that a job was given where it was started, in MiB."""
    begin = body.find(_ALLOCATED)
    if begin < 0:
        return None
    word = body[begin + len(_ALLOCATED) :].split(None, 1)[:1]
    return int(word[0]) if word and word[0].isdigit() else None


def went_well(text: bytes) -> bool:
    """Whether a job that has left the queue ended as it should, as nearly all do."""
    return text.startswith(_WELL, text.find(b"\n") + 1)


def terminated(body: bytes) -> Ending:
    """How a job ended that has left the queue, or that is put back into it."""
    if went_well(body):
        return _with_usage(body, Ending(exit=0))
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
    return _with_usage(body, Ending(exit=exit_code, signal=signal, cause=cause, reason=reason))


def evicted(body: bytes) -> Ending:
    """How an attempt ended that HTCondor ended, or does not take for an end of the job."""
    if _REQUEUED in body:
        return msgspec.structs.replace(terminated(body), requeued=True)
    code = _CODE.search(body, 0, body.find(b"\n") if b"\n" in body else len(body))
    said = _REASON.search(body)
    reason = said[1].decode("utf-8", "replace").strip() if said else "it was evicted"
    cause = cause_of_hold(int(code[1]), int(code[2])) if code else Cause.PREEMPTED
    if cause is Cause.CANCELLED and removed_by_rule(reason):
        cause = (
            Cause.WALLTIME
        )  # no expression of ours removes what runs: the user's own, or the schedd's, found it too long
    return _with_usage(body, Ending(cause=cause, reason=reason))


def held(body: bytes) -> Hold:
    """Why a job was put on hold."""
    lines = [line.strip() for line in body.decode("utf-8", "replace").split("\n")[1:]]
    code = _CODE.search(body)
    reason = next((line for line in lines if line and not line.startswith("Code ")), "no reason is given")
    return Hold(code=int(code[1]) if code else 0, subcode=int(code[2]) if code else 0, reason=reason)


def ending_of_hold(hold: Hold) -> Ending:
    """How an attempt ended that the job's own rules put on hold: what they say of it is all there is."""
    signal, exit_code = _SIGNAL_SAID.search(hold.reason), _EXIT_SAID.search(hold.reason)
    return Ending(
        exit=int(exit_code[1]) if exit_code else None,
        signal=int(signal[1]) if signal else None,
        cause=hold.cause,
        reason=hold.reason,
    )


def words_of(body: bytes) -> str:
    """What the lines below the first say, in one line."""
    return "; ".join(line.strip() for line in body.decode("utf-8", "replace").split("\n")[1:] if line.strip())


def removed_by_rule(why: str) -> bool:
    """Whether a job was removed by an expression, its own or the schedd's, and not by somebody."""
    return "evaluated to TRUE" in why


def removed_with_dag(why: str) -> bool:
    """Whether a job was removed because the job of its DAGMan was."""
    return "OtherJobRemoveRequirements" in why or why.startswith("DAG Removed")


def _with_usage(body: bytes, ending: Ending) -> Ending:
    """The same with what the attempt used; looked for word by word, which is several times as quick as by patterns."""
    usage, _, allotted = _numbers_of(body, b"Memory (MB)")
    seconds, _, _ = _numbers_of(body, b"TimeExecute (s)")
    used: float | None = None
    begin = body.find(b"Usr ")
    if begin >= 0:
        used = 0.0
        if not body.startswith(_NOTHING, begin) and (cpu := _CPU.search(body, begin)):
            user, system = map(int, cpu.group(1, 2, 3, 4)), map(int, cpu.group(5, 6, 7, 8))
            used = float(_seconds(*user) + _seconds(*system))
    if seconds and not used:
        # Whole seconds say nothing of what took less.
        share, _, _ = _numbers_of(body, b"   Cpus ")
        used = used if share is None else round(share * seconds, 2)
    return Ending(
        exit=ending.exit,
        signal=ending.signal,
        cause=ending.cause,
        reason=ending.reason,
        requeued=ending.requeued,
        cpu_s=used,
        rss_b=None if usage is None else int(usage) * MIB,
        run_s=seconds,
        granted_mb=None if allotted is None else int(allotted),
    )


_NOTHING: Final = b"Usr 0 00:00:00, Sys 0 00:00:00"


def _numbers_of(body: bytes, name: bytes) -> tuple[float | None, float | None, float | None]:
    """What a job used of something, asked for, and was given; what it used is not always said."""
    begin = body.find(name)
    if begin < 0:
        return None, None, None
    end = body.find(b"\n", begin)
    words = body[body.find(b":", begin) + 1 : end if end >= 0 else len(body)].split()
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        return None, None, None
    if len(numbers) == 3:
        return numbers[0], numbers[1], numbers[2]
    if len(numbers) == 2:
        return None, numbers[0], numbers[1]
    return (numbers[0] if numbers else None), None, None


def _seconds(days: int, hours: int, minutes: int, seconds: int) -> int:
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
