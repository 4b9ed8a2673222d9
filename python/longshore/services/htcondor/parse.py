"""Turns the words of one record of HTCondor's log into what they say: how an attempt ended, on what host, and why."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from longshore.model.request import MIB
from longshore.model.state import Cause
from longshore.services.htcondor.codes import cause_of_hold

_NODE: Final = re.compile(rb'DAGNodeName = "([^"]*)"|DAG Node: (\S+)')
_SLOT: Final = re.compile(rb"SlotName: \S*?@(\S+)|alias=([^&>\s]+)|<([^:>]+)")
_ALLOCATED: Final = re.compile(rb"\n\s*Memory = (\d+)")
_ENDING: Final = re.compile(
    rb"\(\d\) (?:Normal termination \(return value (-?\d+)\)|Abnormal termination \(signal (\d+)\))"
)
_CPU: Final = re.compile(rb"Usr (\d+) (\d+):(\d+):(\d+), Sys (\d+) (\d+):(\d+):(\d+)  -  Run Remote Usage")
_MEMORY: Final = re.compile(rb"\n\s*Memory \(MB\)\s*: *(\d*) +(\d+) +(\d+)")
_CPUS: Final = re.compile(rb"\n\s*Cpus\s*: *(\d*\.\d+|\d+) +\d+ +\d+")
_BUSY: Final = re.compile(rb"TimeExecute \(s\)\s*: *(\d+)")
_CODE: Final = re.compile(rb"Code (\d+) Subcode (\d+)")
_REASON: Final = re.compile(rb"\n\tReason: ([^\n]*)")
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
    found = _NODE.search(body)
    return (found[1] or found[2]).decode("utf-8", "replace") if found else ""


def host_of(body: bytes) -> str | None:
    """The machine that a job was started on."""
    found = _SLOT.search(body, body.find(b"SlotName:")) if b"SlotName:" in body else _SLOT.search(body)
    return next(word for word in found.groups() if word).decode("utf-8", "replace") if found else None


def memory_of(body: bytes) -> int | None:
    """Memory that a job was given where it was started, in MiB."""
    found = _ALLOCATED.search(body)
    return int(found[1]) if found else None


def terminated(body: bytes) -> Ending:
    """How a job ended that has left the queue, or that is put back into it."""
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
    cpu, memory, busy, cpus = _CPU.search(body), _MEMORY.search(body), _BUSY.search(body), _CPUS.search(body)
    seconds = float(busy[1]) if busy else None
    used: float | None = None
    if cpu:
        user, system = map(int, cpu.group(1, 2, 3, 4)), map(int, cpu.group(5, 6, 7, 8))
        used = float(_seconds(*user) + _seconds(*system))
    if cpus and seconds and not used:
        # Whole seconds say nothing of what took less.
        used = round(float(cpus[1]) * seconds, 2)
    return Ending(
        exit=ending.exit,
        signal=ending.signal,
        cause=ending.cause,
        reason=ending.reason,
        requeued=ending.requeued,
        cpu_s=used,
        rss_b=int(memory[1]) * MIB if memory and memory[1] else None,
        run_s=seconds,
        granted_mb=int(memory[3]) if memory else None,
    )


def _seconds(days: int, hours: int, minutes: int, seconds: int) -> int:
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
