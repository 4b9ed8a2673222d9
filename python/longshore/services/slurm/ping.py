"""Asks a cluster, without submitting anything, whether runs of a site could be handed to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longshore.contract.context import PingReport, Unreachable
from longshore.model.request import MIB
from longshore.services.slurm.client import SlurmClient
from longshore.services.slurm.parse import amount


def ping(client: SlurmClient, settings: Mapping[str, Any]) -> PingReport:
    """What the cluster says of itself, and of the partitions, account and QOS that a site names.

    Parameters
    ----------
    client
        Talks to it; each question is bounded in time.
    settings
        Settings of the executor.
    """
    facts = client.facts()
    if isinstance(facts, Unreachable):
        return PingReport(service="slurm", ok=False, message=f"the controller does not answer: {facts.why}")
    details = {"version": facts.version, "cluster": facts.name}
    wrong: list[str] = []
    partitions = client.partitions()
    capacity: dict[str, int] | None = None
    if isinstance(partitions, Unreachable):
        details["partitions"] = f"unknown: {partitions.why}"
    else:
        details["partitions"] = ", ".join(
            f"{name} ({row['available']}, {row['limit']})" for name, row in sorted(partitions.items())
        )
        capacity = _largest(partitions.values())
        for name in _named_partitions(settings):
            if name not in partitions:
                wrong.append(f"there is no partition '{name}'")
            elif partitions[name]["available"] != "up":
                wrong.append(f"the partition '{name}' is {partitions[name]['available']}")
    wrong += _membership(client, settings, details, accounting=facts.accounting)
    if facts.max_array:
        details["largest array"] = str(facts.max_array - 1)
    if facts.accounting:
        details["sources"] = "the jobs' own records, squeue, sacct, scontrol"
    else:
        details["sources"] = (
            "the jobs' own records, squeue, scontrol; there is no accounting: peak memory is not known, and what "
            f"happened to a job that left no record is forgotten after {facts.min_job_age_s or 0:.0f} s"
        )
    message = "; ".join(wrong) if wrong else "the controller answers"
    return PingReport(service="slurm", ok=not wrong, message=message, details=details, capacity=capacity)


def _named_partitions(settings: Mapping[str, Any]) -> list[str]:
    named = [str(row["name"]) for row in settings.get("partitions") or ()]
    own = (settings.get("slurm") or {}).get("partition")
    return list(dict.fromkeys([*named, *([str(own)] if own else [])]))


def _membership(
    client: SlurmClient, settings: Mapping[str, Any], details: dict[str, str], *, accounting: bool
) -> list[str]:
    """What is wrong with the account and QOS that the site names, as far as the cluster keeps accounts."""
    account, qos = settings.get("account"), settings.get("qos")
    if not accounting:
        return []
    rows = client.associations()
    if isinstance(rows, Unreachable):
        details["accounts"] = f"unknown: {rows.why}"
        return []
    details["accounts"] = ", ".join(sorted({name for name, _ in rows})) or "none"
    wrong = []
    if account and account not in {name for name, _ in rows}:
        wrong.append(f"this user may not charge the account '{account}'")
    allowed = {word for name, words in rows if not account or name == account for word in words.split(",")}
    if qos and allowed and qos not in allowed:
        wrong.append(f"this user may not use the QOS '{qos}'")
    return wrong


def _largest(rows: Any) -> dict[str, int] | None:
    """The largest node there is, as what one job can have."""
    cpus = memory = 0
    for row in rows:
        cpus = max(cpus, int(row["cpus"].rstrip("+") or 0) if row["cpus"].rstrip("+").isdecimal() else 0)
        memory = max(memory, amount(row["memory"].rstrip("+") + "M") or 0)
    return {"cpus": cpus, "memory": max(memory, MIB)} if cpus and memory else None
