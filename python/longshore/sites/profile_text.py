"""Text of a site's profile, from what its workload manager answers (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from longshore.config.values.quantities import format_walltime
from longshore.contract.context import PingReport
from longshore.contract.inventory import Inventory, NodeGroup, PartitionState
from longshore.model.workflow.request import MIB


def profile_text(name: str, report: PingReport, *, own: Mapping[str, Any], hosts: Sequence[str], date: str) -> str:
    """Return a profile in YAML: the service, ceilings, partitions as rows, the account, and the service's own map.

    Parameters
    ----------
    name
        Name of the site.
    report
        The answer of `ping` without a site.
    own
        The service's own map: what its programs need to find the cluster.
    hosts
        Hosts that use the site when no site is named.
    date
        Day of the answer.
    """
    return "\n".join(_lines(name, report, own, hosts, date)) + "\n"


def _lines(name: str, report: PingReport, own: Mapping[str, Any], hosts: Sequence[str], date: str) -> Iterator[str]:
    inventory = report.inventory or Inventory()
    cluster = report.details.get("cluster") or name
    yield f"# Written by 'longshore site init {name}' from the answers of '{report.service}' on {date}. Change it;"
    yield f"# 'longshore site check {name}' compares it with the cluster. doc/reference/site-profiles.md explains"
    yield "# every key."
    yield ""
    yield f"title: {_scalar(f'{cluster}, a site of {report.service}')}"
    yield ""
    yield f"service: {report.service}"
    if hosts:
        yield ""
        yield "# These hosts use the site when no computeSite is given."
        yield f"hosts: {_scalar(list(hosts))}"
    yield ""
    yield "# Ceilings of one job and of one run. Users can set lower values, never higher ones."
    yield "limits:"
    yield from (f"  {key}: {_scalar(value)}" for key, value in _limits(report, inventory).items())
    rows = [_row(partition, inventory) for partition in _sorted_partitions(inventory)]
    if rows:
        yield ""
        yield "# Partitions, preferred ones first. A job goes to the first one that can hold it."
        yield "partitions:"
        yield from (f"  - {_scalar(row)}" for row in rows)
    if account := _only_account(inventory):
        yield ""
        yield "# Account to charge by default; accountingGroup overrides it."
        yield f"account: {_scalar(account)}"
    if own:
        yield ""
        yield f"{report.service}:"
        yield from (f"  {key}: {_scalar(value)}" for key, value in own.items())


def _scalar(value: object) -> str:
    """Return a value as YAML in one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _limits(report: PingReport, inventory: Inventory) -> dict[str, object]:
    """Return ceilings of a job by the largest node, and modest ones of a run."""
    capacity = report.capacity or {}
    limits: dict[str, object] = {}
    if cpus := capacity.get("cpus"):
        limits["cpus"] = cpus
    if memory := capacity.get("memory"):
        limits["memory"] = f"{memory // MIB} MiB"
    walltimes = [each.walltime_s for each in inventory.partitions or ()]
    if walltimes and all(each is not None for each in walltimes):
        limits["walltime"] = format_walltime(max(each or 0 for each in walltimes))
    limits["queued"] = 2000
    if inventory.max_array:
        limits["arraySize"] = min(inventory.max_array, 1000)
    return limits


def _sorted_partitions(inventory: Inventory) -> list[PartitionState]:
    """Return the open partitions: the default first, then those with the shortest run time."""
    return sorted(
        (each for each in inventory.partitions or () if each.state == "UP"),
        key=lambda each: (not each.default, each.walltime_s or float("inf"), each.name),
    )


def _row(partition: PartitionState, inventory: Inventory) -> dict[str, object]:
    """Return the row of a partition, by its largest nodes and its limits."""
    nodes: Sequence[NodeGroup] = [each for each in inventory.nodes or () if each.partition in ("", partition.name)]
    row: dict[str, object] = {"name": partition.name}
    if count := sum(each.count for each in nodes):
        row["nodes"] = min(count, partition.max_nodes or count)
        row["cpus"] = min(max(each.cpus for each in nodes), partition.max_cpus or 10**9)
        memory = min(max(each.memory_b for each in nodes), partition.max_memory_b or 10**18)
        row["memory"] = f"{memory // MIB} MiB"
    if partition.walltime_s:
        row["walltime"] = format_walltime(partition.walltime_s)
    resources: dict[str, int] = {}
    for each in nodes:
        for name, amount in each.resources.items():
            resources[name] = max(resources.get(name, 0), amount)
    if resources:
        row["resources"] = resources
    if features := sorted({feature for each in nodes for feature in each.features}):
        row["features"] = features
    if partition.default:
        row["default"] = True
    return row


def _only_account(inventory: Inventory) -> str:
    """Return the account of a user who may charge only one; empty for several, where each run names one."""
    accounts = {each.account for each in inventory.accounts or ()}
    return accounts.pop() if len(accounts) == 1 else ""
