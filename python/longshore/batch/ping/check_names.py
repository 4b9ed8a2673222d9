"""Checks of a site's partitions, account and QOS, and what `ping` shows of those of its cluster (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from longshore.batch.cluster_names import ConfiguredNames
from longshore.batch.jobs import ClusterFacts
from longshore.contract.service import Association, Inventory, PartitionState, Qos
from longshore.model.wording import count_noun
from longshore.model.workflow import Allocation
from longshore.sites.requests import Unmet, find_unmet_requests, unknown_name


def find_name_errors(names: ConfiguredNames, inventory: Inventory) -> Iterator[Unmet]:
    """Find partitions, an account and QOS of a site that the cluster does not have, or not for this user."""
    existing = {each.name: each for each in inventory.partitions or ()}
    for name in names.partitions if inventory.partitions is not None else ():
        if name not in existing:
            yield unknown_name("partition", name, existing)
            continue
        partition = existing[name]
        if partition.state != "UP":
            yield Unmet(f"the partition '{name}' is {partition.state.lower()}", "Jobs wait there until that changes.")
        if names.account and partition.accounts and names.account not in partition.accounts:
            yield Unmet(
                f"the partition '{name}' does not take the account '{names.account}'", _takes(partition.accounts)
            )
        for qos in names.qos:
            if partition.qos and qos not in partition.qos:
                yield Unmet(f"the partition '{name}' does not take the QOS '{qos}'", _takes(partition.qos))
    yield from find_unmet_requests(
        Allocation(account=names.account, qos=names.qos),
        Inventory(accounts=inventory.accounts, qos=inventory.qos, is_enforced=inventory.is_enforced),
    )


def _takes(names: Iterable[str]) -> str:
    return f"It takes {', '.join(sorted(names))}."


def describe_partitions(existing: Iterable[PartitionState]) -> str:
    """List the partitions in a line."""
    return "; ".join(
        f"{each.name}{' (default)' if each.default else ''}: {', '.join(_describe_partition(each))}"
        for each in sorted(existing, key=lambda each: each.name)
    )


def _describe_partition(partition: PartitionState) -> Iterator[str]:
    yield partition.state.lower()
    if partition.nodes:
        yield f"{partition.nodes} {'node' if partition.nodes == '1' else 'nodes'}"
    if partition.limit:
        yield "any time" if partition.limit == "UNLIMITED" else f"at most {partition.limit}"


def describe_limits(
    facts: ClusterFacts,
    names: ConfiguredNames,
    associations_of_user: Iterable[Association],
    existing: Mapping[str, Qos],
) -> str:
    """List the limits in a line."""
    found = []
    if facts.max_array:
        found.append(f"arrays of {facts.max_array}")
    if facts.max_jobs:
        found.append(f"{count_noun(facts.max_jobs, 'job')} of all users")
    for each in associations_of_user:
        found += _describe_limit(f"account '{each.account}'", each.max_jobs, each.max_submitted, each.max_time)
    for name in names.qos or existing:
        if qos := existing.get(name):
            found += _describe_limit(f"QOS '{name}'", qos.max_jobs, qos.max_submitted, qos.max_time)
    return "; ".join(found) or "none found"


def _describe_limit(subject: str, jobs: str, submitted: str, time: str) -> list[str]:
    limits = [
        words
        for value, words in (
            (jobs, f"{jobs} running"),
            (submitted, f"{submitted} submitted"),
            (time, f"{time} long"),
        )
        if value
    ]
    return [f"{subject}: at most {', '.join(limits)}"] if limits else []
