"""Parsers of Slurm's partitions and nodes (pure functions)."""

from __future__ import annotations

import re
from typing import Final

from longshore.batch.values import parse_number, parse_size
from longshore.contract.inventory import NodeGroup, PartitionState
from longshore.model.workflow.request import MIB
from longshore.services.slurm.commands.time_limit import parse_time_limit

_ALL_ALLOWED: Final = frozenset({"ALL", "(null)", "N/A", ""})


def parse_partitions(text: str) -> dict[str, PartitionState]:
    """Parse ``scontrol --oneliner show partition``."""
    found = {}
    for line in text.splitlines():
        limits = dict(word.partition("=")[::2] for word in line.split())
        if name := limits.get("PartitionName"):
            found[name] = PartitionState(
                name=name,
                state=limits.get("State", "unknown"),
                limit=limits.get("MaxTime", "unknown"),
                nodes=limits.get("TotalNodes", "unknown"),
                default=limits.get("Default") == "YES",
                accounts=_parse_allowed(limits.get("AllowAccounts", "")),
                qos=_parse_allowed(limits.get("AllowQos", "")),
                walltime_s=parse_time_limit(limits.get("MaxTime")),
                max_nodes=parse_number(limits.get("MaxNodes", "")),
                max_cpus=parse_number(limits.get("MaxCPUsPerNode", "")),
                max_memory_b=parse_size(f"{limits.get('MaxMemPerNode', '')}M"),
            )
    return found


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
                features=_parse_allowed(fields[5]),
            )
        )
    return tuple(found)


def _parse_gres(text: str) -> dict[str, int]:
    """Return the number of each generic resource: of ``gpu:a100:4(S:0-1)`` four gpus."""
    found: dict[str, int] = {}
    plain = re.sub(r"\([^()]*\)", "", "" if text in _ALL_ALLOWED else text)
    for item in filter(None, plain.split(",")):
        name, *rest = item.split(":")
        name = "gpus" if name == "gpu" else name
        found[name] = found.get(name, 0) + ((parse_number(rest[-1]) if rest else None) or 1)
    return found


def parse_licences(text: str) -> dict[str, int]:
    """Parse ``scontrol --oneliner show licenses``."""
    rows = (dict(word.partition("=")[::2] for word in line.split()) for line in text.splitlines())
    return {row["LicenseName"]: parse_number(row.get("Total", "")) or 0 for row in rows if row.get("LicenseName")}


def _parse_allowed(text: str) -> frozenset[str]:
    return frozenset() if text in _ALL_ALLOWED else frozenset(text.split(","))


def parse_capacity(text: str) -> dict[str, int] | None:
    """Return the size of the largest node, the most one job can have, from ``sinfo --format=%c|%m``."""
    cpus = memory = 0
    for line in text.splitlines():
        number, _, megabytes = line.strip().partition("|")
        cpus = max(cpus, parse_number(number) or 0)
        memory = max(memory, parse_size(megabytes + "M") or 0)
    return {"cpus": cpus, "memory": max(memory, MIB)} if cpus and memory else None
