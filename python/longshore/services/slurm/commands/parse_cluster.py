"""Parsers of Slurm's partitions, accounts, QOS and nodes (pure functions)."""

from __future__ import annotations

from typing import Final

from longshore.batch.cluster_names import Association, PartitionState, Qos
from longshore.model.workflow.request import MIB
from longshore.services.slurm.commands.parse import parse_bytes

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


ASSOCIATION_FIELDS: Final = "account,qos,maxjobs,maxsubmitjobs,maxwall"
QOS_FIELDS: Final = "name,maxjobsperuser,maxsubmitjobsperuser,maxwall"


def parse_associations(text: str) -> list[Association]:
    """Parse ``sacctmgr show associations`` with `ASSOCIATION_FIELDS`."""
    rows = (line.split("|") for line in text.splitlines())
    return [
        Association(
            account=row[0],
            qos=frozenset(filter(None, row[1].split(","))),
            max_jobs=row[2],
            max_submitted=row[3],
            max_time=row[4],
        )
        for row in rows
        if len(row) == 5
    ]


def parse_qos(text: str) -> dict[str, Qos]:
    """Parse ``sacctmgr show qos`` with `QOS_FIELDS`."""
    rows = (line.split("|") for line in text.splitlines())
    return {
        row[0]: Qos(name=row[0], max_jobs=row[1], max_submitted=row[2], max_time=row[3])
        for row in rows
        if len(row) == 4
    }


def parse_capacity(text: str) -> dict[str, int] | None:
    """Return the size of the largest node, the most one job can have, from ``sinfo --format=%c|%m``."""
    cpus = memory = 0
    for line in text.splitlines():
        number, _, megabytes = line.strip().partition("|")
        cpus = max(cpus, int(number) if number.isdecimal() and len(number) < 10 else 0)
        memory = max(memory, parse_bytes(megabytes + "M") or 0)
    return {"cpus": cpus, "memory": max(memory, MIB)} if cpus and memory else None
