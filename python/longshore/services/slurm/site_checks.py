"""Parsers of Slurm's partitions, accounts and QOS, and checks of a site's settings against them (pure functions)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from longshore.batch.jobs import ClusterFacts
from longshore.model.wording import count_noun
from longshore.model.workflow.request import MIB
from longshore.services.slurm.commands.parse import parse_bytes

_ALL_ALLOWED: Final = frozenset({"ALL", "(null)", "N/A", ""})


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """A partition from ``scontrol show partition``.

    `state` is ``UP`` where jobs are accepted and run; `limit` is the longest run time. Empty `accounts` or `qos` allow
    all.
    """

    name: str
    state: str
    limit: str
    nodes: str
    default: bool
    accounts: frozenset[str]
    qos: frozenset[str]


class Association(msgspec.Struct, frozen=True, kw_only=True):
    """An account that a user may charge, with its allowed QOS and its limits."""

    account: str
    qos: frozenset[str]
    max_jobs: str = ""
    max_submitted: str = ""
    max_time: str = ""


class Qos(msgspec.Struct, frozen=True, kw_only=True):
    """A quality of service with its limits."""

    name: str
    max_jobs: str = ""
    max_submitted: str = ""
    max_time: str = ""


class ConfiguredNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names of partitions, account and QOS in a site's settings."""

    partitions: tuple[str, ...] = ()
    account: str = ""
    qos: tuple[str, ...] = ()


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
        f"{each.name}{' (default)' if each.default else ''}: {each.state.lower()}, "
        f"{each.nodes} {'node' if each.nodes == '1' else 'nodes'}, "
        + ("any time" if each.limit == "UNLIMITED" else f"at most {each.limit}")
        for each in sorted(existing, key=lambda each: each.name)
    )


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


def parse_capacity(text: str) -> dict[str, int] | None:
    """Return the size of the largest node, the most one job can have, from ``sinfo --format=%c|%m``."""
    cpus = memory = 0
    for line in text.splitlines():
        number, _, megabytes = line.strip().partition("|")
        cpus = max(cpus, int(number) if number.isdecimal() and len(number) < 10 else 0)
        memory = max(memory, parse_bytes(megabytes + "M") or 0)
    return {"cpus": cpus, "memory": max(memory, MIB)} if cpus and memory else None
