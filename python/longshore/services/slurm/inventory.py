"""Nodes, licences and time limits of Slurm, for what a cluster has (pure functions)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from longshore.batch.dialect import InventoryQuestions, ProgramCall, Question
from longshore.batch.values import parse_duration, parse_number, parse_size
from longshore.contract.inventory import NodeGroup
from longshore.model.workflow.request import MIB

_NONE: Final = frozenset({"(null)", "N/A", ""})
NODE_FORMAT: Final = "%R|%c|%m|%d|%G|%f|%D|%N"
"""Format of ``sinfo``: a line per partition and kind of nodes, with their number and names."""


def parse_nodes(text: str) -> tuple[NodeGroup, ...]:
    """Parse ``sinfo --exact`` with `NODE_FORMAT`."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) != 8:
            continue
        cpus, memory, disk = (parse_number(field) for field in fields[1:4])
        if not cpus or not memory:
            continue
        found.append(
            NodeGroup(
                partition=fields[0],
                count=parse_number(fields[6]) or 1,
                names=(fields[7],),
                cpus=cpus,
                memory_b=memory * MIB,
                disk_b=None if disk is None else disk * MIB,
                resources=_parse_gres(fields[4]),
                features=frozenset() if fields[5] in _NONE else frozenset(fields[5].split(",")),
            )
        )
    return tuple(found)


def _parse_gres(text: str) -> dict[str, int]:
    """Return the number of each generic resource: of ``gpu:a100:4(S:0-1)`` four gpus."""
    found: dict[str, int] = {}
    plain = re.sub(r"\([^()]*\)", "", "" if text in _NONE else text)
    for item in filter(None, plain.split(",")):
        name, *rest = item.split(":")
        name = "gpus" if name == "gpu" else name
        found[name] = found.get(name, 0) + ((parse_number(rest[-1]) if rest else None) or 1)
    return found


def parse_licences(text: str) -> dict[str, int]:
    """Parse ``scontrol --oneliner show licenses``."""
    rows = (dict(word.partition("=")[::2] for word in line.split()) for line in text.splitlines())
    return {row["LicenseName"]: parse_number(row.get("Total", "")) or 0 for row in rows if row.get("LicenseName")}


def parse_time_limit(text: str | None) -> float | None:
    """Parse a time limit (sbatch(1): --time) to seconds; ``None`` for none."""
    days, dash, rest = (text or "").strip().rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() and len(part) < 10 for part in ([days] if dash else []) + parts) or len(parts) > 3:
        return None
    if not dash:
        return float(parts[0]) * 60 if len(parts) == 1 else parse_duration(rest)
    hours, minutes, seconds = (float(part) for part in (*parts, "0", "0")[:3])
    return ((float(days) * 24 + hours) * 60 + minutes) * 60 + seconds


def questions(ask: Callable[..., ProgramCall]) -> InventoryQuestions:
    """Return the questions; `ask` makes the call of a program with its words."""
    words = ("--noheader", "--all", "--exact", f"--format={NODE_FORMAT}")
    licences = ask("scontrol", "--oneliner", "show", "licenses")
    return InventoryQuestions(
        nodes=Question(ask("sinfo", *words), parse_nodes),
        licences=Question(licences, parse_licences),
        knows_resources=True,
    )


def parse_capacity(text: str) -> dict[str, int] | None:
    """Return the size of the largest node, the most one job can have, from ``sinfo --format=%c|%m``."""
    cpus = memory = 0
    for line in text.splitlines():
        number, _, megabytes = line.strip().partition("|")
        cpus = max(cpus, parse_number(number) or 0)
        memory = max(memory, parse_size(megabytes + "M") or 0)
    return {"cpus": cpus, "memory": max(memory, MIB)} if cpus and memory else None
