"""Limits of queues and names that options use, for what a cluster has (pure functions)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from longshore.batch.dialect import InventoryQuestions, ProgramCall, Question
from longshore.contract.inventory import PartitionState
from longshore.services.sge.parse import lines_at, parse_bytes, parse_seconds

_CLOSED: Final = "cdsuE"
"""Column of ``qstat -g c``: slots of instances that take no jobs until a person acts."""


def resource_names(text: str) -> tuple[str, ...]:
    """Return the names and short names of resources in ``qconf -sc``."""
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return tuple(dict.fromkeys(name for row in rows for name in row[:2]))


def listed_names(text: str) -> tuple[str, ...]:
    """Return the names in a list of qconf, one a line."""
    return tuple(text.split())


def parse_limits(text: str) -> dict[str, float]:
    """Return the longest run time of each queue in ``qconf -sq``, by its ``h_rt``; queues without one are left out."""
    found: dict[str, float] = {}
    queue = ""
    for name, _, value in lines_at(text, " "):
        if name == "qname":
            queue = value.strip()
        elif name == "h_rt" and queue and not math.isinf(limit := _limit_s(value)):
            found[queue] = limit
    return found


def _limit_s(value: str) -> float:
    """Return the limit of a queue, the longest where groups of hosts have their own: ``1:0:0,[@fast=0:10:0]``."""
    parts = [part.rpartition("=")[2].strip("[] ") for part in value.split(",")]
    return max(math.inf if part.upper() == "INFINITY" else parse_seconds(part) for part in parts)


def questions(ask: Callable[..., ProgramCall]) -> InventoryQuestions:
    """Return the questions; `ask` makes the call of a program with its words."""
    return InventoryQuestions(
        limits=Question(ask("qconf", "-sq", "*"), parse_limits),
        names={
            "resource": Question(ask("qconf", "-sc"), resource_names),
            "parallel environment": Question(ask("qconf", "-spl"), listed_names),
            "project": Question(ask("qconf", "-sprjl"), listed_names),
        },
    )


def parse_capacity(text: str) -> dict[str, int] | None:
    """Return the processors and memory of the largest host in ``qhost -F``; ``None`` without any."""
    cpus = [int(float(value)) for value in re.findall(r"num_proc=(\d{1,9}(?:\.\d{1,9})?)", text)]
    memory = [parse_bytes(value) for value in re.findall(r"mem_total=(\S+)", text)]
    return {"cpus": max(cpus), "memory": max(memory)} if cpus and memory else None


def parse_queues(text: str) -> dict[str, PartitionState]:
    """Parse ``qstat -g c``: the queues by name, up while an instance takes jobs."""
    head, *lines = text.splitlines() or [""]
    # The first column has a name of two words.
    names = head.replace("CLUSTER QUEUE", "NAME").split()
    rows = [dict(zip(names, line.split(), strict=False)) for line in lines if line.strip("- ")]
    return {row["NAME"]: _queue(row) for row in rows if "NAME" in row and len(row) == len(names)}


def _queue(row: dict[str, str]) -> PartitionState:
    total, closed = row.get("TOTAL", ""), row.get(_CLOSED, "0")
    return PartitionState(
        name=row["NAME"],
        state="DOWN" if closed == total else "UP",
        limit="UNLIMITED",
        nodes=total,
        default=False,
        accounts=frozenset(),
        qos=frozenset(),
    )
