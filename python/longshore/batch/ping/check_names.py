"""Checks of a site's partitions, account and QOS, and what `ping` shows of those of its cluster (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from longshore.batch.cluster_names import Association, ConfiguredNames, PartitionState, Qos
from longshore.batch.jobs import ClusterFacts
from longshore.model.wording import count_noun


def partition_errors(names: ConfiguredNames, existing: Mapping[str, PartitionState]) -> Iterator[str]:
    """Find errors in the site's partitions."""
    for name in names.partitions:
        if name not in existing:
            yield f"there is no partition '{name}'"
            continue
        partition = existing[name]
        if partition.state != "UP":
            yield f"the partition '{name}' is {partition.state.lower()}"
        if names.account and partition.accounts and names.account not in partition.accounts:
            yield f"the partition '{name}' does not take the account '{names.account}'"
        for qos in names.qos:
            if partition.qos and qos not in partition.qos:
                yield f"the partition '{name}' does not take the QOS '{qos}'"


def account_errors(
    names: ConfiguredNames, associations_of_user: Sequence[Association], existing: Mapping[str, Qos]
) -> Iterator[str]:
    """Find errors in the site's account and QOS for this user."""
    if names.account and names.account not in {each.account for each in associations_of_user}:
        yield f"this user may not charge the account '{names.account}'"
    of_account = [each for each in associations_of_user if names.account in ("", each.account)]
    allowed = {name for each in of_account for name in each.qos}
    for qos in names.qos:
        if existing and qos not in existing:
            yield f"there is no QOS '{qos}'"
        elif allowed and qos not in allowed:
            yield f"this user may not use the QOS '{qos}'"


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
