"""What an LSF cluster has and allows, apart from the answers on jobs because it is asked once, not in each round."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from longshore.contract.service import NodeGroup, PartitionState
from longshore.services.batch.answers import parse_number, plain_lines
from longshore.services.batch.dialect import HostOffer, InventoryQuestions, PartitionLimits, ProgramCall, Question
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.lsf.answers import parse_bytes


def parse_hosts(output: str) -> tuple[NodeGroup, ...]:
    """Return the servers in ``lshosts -w``; equal ones are one group."""
    head, *lines = [line.split(maxsplit=8) for line in output.splitlines() if line.strip()] or [[]]
    found: dict[tuple[int, int | None, frozenset[str]], list[str]] = {}
    for row in (dict(zip(head, line, strict=False)) for line in lines):
        # A host that is away shows neither, or only its processors.
        cpus, memory = parse_number(row.get("ncpus", "")), parse_bytes(row.get("maxmem", "")) or None
        if row.get("server") == "Yes" and cpus:
            features = frozenset(row.get("RESOURCES", "").strip("()").split())
            found.setdefault((cpus, memory, features), []).append(row["HOST_NAME"])
    return tuple(
        NodeGroup(count=len(names), names=tuple(names), cpus=cpus, memory_b=memory, features=features)
        for (cpus, memory, features), names in found.items()
    )


def parse_slots(output: str) -> dict[str, HostOffer]:
    """Return the slots of each host in ``bhosts -w``, which may be fewer or more than its processors (MXJ)."""
    head, *lines = [line.split() for line in output.splitlines() if line.strip()] or [[]]
    rows = [dict(zip(head, line, strict=False)) for line in lines]
    # A sign in place of the number says that there is no limit.
    slots = {row["HOST_NAME"]: parse_number(row.get("MAX", "")) for row in rows if "HOST_NAME" in row}
    return {name: HostOffer(cpus=count) for name, count in slots.items() if count}


_LIMITS: Final = re.compile(r"^QUEUE:\s*(\S+)(.*?)(?=^QUEUE:|\Z)", re.MULTILINE | re.DOTALL)
_MOST: Final = re.compile(r"^MAXIMUM LIMITS:[^\n]*\n(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_NAMES: Final = re.compile(r"(?:\s*[A-Z]+LIMIT)+\s*")
_VALUE: Final = re.compile(r"\d{1,9}(?:\.\d+)?\s*(?:min|[KMGTP])\b")


def parse_limits(output: str) -> dict[str, PartitionLimits]:
    """Return the limits of each queue in ``bqueues -l``: run time, memory, and slots of a job on one host."""
    return {queue[1]: _queue_limits(queue[2]) for queue in _LIMITS.finditer(output)}


def _queue_limits(text: str) -> PartitionLimits:
    """Return the maximum limits: lines of names, each with a line of values below it."""
    found: dict[str, str] = {}
    lines = plain_lines(section[1]) if (section := _MOST.search(text)) else []
    for names, values in pairwise(lines):
        if _NAMES.fullmatch(names):
            # A number of tasks has no unit; three of them are the least, the default and the most.
            given = _VALUE.findall(values) or values.split()[-1:]
            found |= dict(zip(names.split(), given, strict=False))
    minutes = found.get("RUNLIMIT", "").removesuffix("min").strip()
    return PartitionLimits(
        walltime_s=float(minutes) * 60 if minutes else None,
        max_cpus=parse_number(found.get("TASKLIMIT") or found.get("PROCLIMIT", "")),
        max_memory_b=parse_bytes(found.get("MEMLIMIT", "")) or None,
    )


def questions(ask: Callable[..., ProgramCall]) -> InventoryQuestions:
    """Return the questions; `ask` makes the call of a program with its words."""
    return InventoryQuestions(
        nodes=Question(ask("lshosts", "-w"), parse_hosts),
        offers=Question(ask("bhosts", "-w"), parse_slots),
        limits=Question(ask("bqueues", "-l"), parse_limits),
    )


_DEFAULT_ARRAY: Final = 1000
"""Most elements of an array where the cluster sets none (lsb.params(5): MAX_JOB_ARRAY_SIZE)."""


def cluster_facts(identity: str, parameters: str) -> ClusterFacts:
    """Parse ``lsid`` and ``bparams -a``."""
    values = dict(re.findall(r"^\s*([A-Z_]+)\s*=\s*(.*?)\s*$", parameters, re.MULTILINE))
    name = re.search(r"My cluster name is (\S+)", identity)
    version = re.search(r"\b(\d+(?:\.\d+)+)\b", identity)
    age = parse_number(str(values.get("CLEAN_PERIOD", "")).partition(" ")[0])
    return ClusterFacts(
        version=version[1] if version else "",
        name=name[1] if name else "",
        max_array=parse_number(str(values.get("MAX_JOB_ARRAY_SIZE", ""))) or _DEFAULT_ARRAY,
        min_job_age_s=None if age is None else float(age),
        accounting=True,
    )


_OPEN: Final = "Open:Active"
"""Status of a queue that takes and starts jobs (bqueues(1))."""


_QUEUE: Final = re.compile(r"^(\S+)\s+\S+\s+((?:Open|Closed):\S+)", re.MULTILINE)


_UNIT: Final = re.compile(r"^\s*LSF_UNIT_FOR_LIMITS\s*=\s*([KMGTkmgt])[Bb]?\b", re.MULTILINE)


def parse_queues(output: str) -> dict[str, PartitionState]:
    """Parse ``bqueues``."""
    found = ((row[1], row[2]) for row in _QUEUE.finditer(output))
    return {name: PartitionState(name=name, state="UP" if state == _OPEN else state) for name, state in found}


def parse_unit(output: str) -> str:
    """Parse the unit of limits in ``badmin showconf mbd``; empty without one."""
    found = _UNIT.search(output)
    return f"{found[1].upper()}B" if found else ""
