"""Parsers of Slurm's partitions and nodes (pure functions)."""

from __future__ import annotations

from typing import Final

from longshore.batch.values import parse_number, parse_size
from longshore.contract.inventory import PartitionState
from longshore.services.slurm.inventory import parse_time_limit

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


def _parse_allowed(text: str) -> frozenset[str]:
    return frozenset() if text in _ALL_ALLOWED else frozenset(text.split(","))
