"""Parsers of Slurm's partitions and nodes (pure functions)."""

from __future__ import annotations

from typing import Final

from longshore.batch.cluster_names import PartitionState
from longshore.batch.values import parse_number, parse_size
from longshore.model.workflow.request import MIB

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
            )
    return found


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
