"""What a Grid Engine has and allows, apart from the answers on jobs because it is asked once, not in each round."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final

from longshore.contract.service import PartitionState
from longshore.services.batch.answers import parse_number
from longshore.services.batch.dialect import InventoryQuestions, ProgramCall, Question
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.sge.answers import lines_at, parse_bytes, parse_seconds

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


def cluster_facts(config: str, complexes: str) -> ClusterFacts:
    """Parse ``qconf -sconf``, and ``qconf -sc`` for the resources that are amounts of memory."""
    joined = config.replace("\\\n", " ")
    values = {name: value.strip() for name, _, value in lines_at(joined, " ")}
    tasks, jobs = values.get("max_aj_tasks", ""), values.get("max_u_jobs", "")
    rows = [line.split() for line in complexes.splitlines() if not line.startswith("#")]
    return ClusterFacts(
        max_array=parse_number(tasks) or None,
        max_jobs=parse_number(jobs) or None,
        accounting="accounting=false" not in values.get("reporting_params", ""),
        byte_resources=tuple(name for row in rows if len(row) > 2 and row[2] == "MEMORY" for name in row[:2]),
    )


def parse_load(text: str) -> dict[str, float]:
    """Return slots in all and free, from ``qstat -g c``, whose columns have names."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("-")]
    if not lines:
        return {}
    # The name of the first column has a blank.
    names = lines[0].replace("CLUSTER QUEUE", "QUEUE").split()
    if not {"AVAIL", "TOTAL"} <= set(names):
        return {}
    rows = [line.split() for line in lines[1:]]
    whole = [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]
    free, total = (sum(int(row[name]) for row in whole if row[name].isdecimal()) for name in ("AVAIL", "TOTAL"))
    return {"cpus_free": float(free), "cpus_total": float(total)} if total else {}
