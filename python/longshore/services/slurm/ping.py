"""Ping of a Slurm cluster: can runs of a site be submitted, and which status sources work; submits nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from longshore.batch.commands.client import BatchClient
from longshore.batch.dialect import ProgramCall
from longshore.batch.jobs import ClusterFacts
from longshore.contract.context import PingReport
from longshore.services.slurm import site_checks
from longshore.services.slurm.commands.parse import cluster_facts
from longshore.services.slurm.render.sbatch_options import normalize_names, slurm_map
from longshore.services.slurm.site_checks import ConfiguredNames
from longshore.world.host import user_name
from longshore.world.processes.shell import ProgramResult

PING_LIMIT_S: Final = 30.0
"""Time limit of all queries together, in seconds."""
_QUERY_S: Final = 10.0

MISSING_INFORMATION: Final = {
    "squeue": "the state of waiting jobs is unknown, and jobs without an end record are lost",
    "sacct": "peak memory and CPU time are unknown, and so is the end of a job without a record that Slurm has "
    "forgotten",
    "scontrol": "the end of a job without a record is known only from accounting",
}
"""The information that is missing when a source does not work."""


class _TimedQuery:
    """Runs queries within the time limit."""

    def __init__(self, client: BatchClient, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._until = clock() + PING_LIMIT_S

    def __call__(self, *words: str, of_cluster: bool = True) -> ProgramResult:
        left = self._until - self._clock()
        if left <= 0:
            return ProgramResult(argv=words, status=None, err=f"not asked: {PING_LIMIT_S:.0f} s are over")
        call = self._client.dialect.query_call(*words) if of_cluster else ProgramCall(words)
        return self._client.ask(msgspec.structs.replace(call, timeout_s=min(left, _QUERY_S)))


def ping(
    client: BatchClient, settings: Mapping[str, Any], *, clock: Callable[[], float] = time.monotonic
) -> PingReport:
    """Report on the cluster, and on the partitions, account and QOS of a site.

    `settings` are the executor's, with ``queue``, the default destination of jobs.
    """
    query = _TimedQuery(client, clock)
    config = query("scontrol", "show", "config")
    if not config.ok:
        return PingReport(service="slurm", ok=False, message=f"the controller does not answer: {config.why}")
    facts = cluster_facts(config.out)
    names = configured_names(settings)
    details = {
        "version": _describe_version(facts, query("sbatch", "--version", of_cluster=False)),
        "cluster": facts.name,
    }
    errors: list[str] = []
    partitions = query("scontrol", "--oneliner", "show", "partition")
    if partitions.ok:
        states = site_checks.parse_partitions(partitions.out)
        details["partitions"] = site_checks.describe_partitions(states.values())
        errors += site_checks.partition_errors(names, states)
    else:
        details["partitions"] = f"unknown: {partitions.why}"
    errors += _check_account(query, names, facts, details)
    details |= _check_sources(query, facts)
    nodes = query("sinfo", "--noheader", "--Node", "--format=%c|%m")
    return PingReport(
        service="slurm",
        ok=not errors,
        message="; ".join(errors) or "the controller answers",
        details=details,
        capacity=site_checks.parse_capacity(nodes.out) if nodes.ok else None,
    )


def configured_names(settings: Mapping[str, Any]) -> ConfiguredNames:
    """Collect the names of partitions, account and QOS from all of a site's settings."""
    slurm = normalize_names(slurm_map(settings))
    rows = settings.get("partitions") or ()
    named = [*(row["name"] for row in rows), settings.get("queue"), *_to_list(slurm.get("partition"))]
    qos = [slurm.get("qos") or settings.get("qos"), *(row.get("qos") for row in rows)]
    return ConfiguredNames(
        partitions=tuple(dict.fromkeys(str(name) for name in named if name)),
        account=str(settings.get("account") or ""),
        qos=tuple(dict.fromkeys(str(name) for name in qos if name)),
    )


def _to_list(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else str(value or "").split(",")


def _describe_version(facts: ClusterFacts, programs: ProgramResult) -> str:
    """Return the version of the controller, and that of the local programs when it differs."""
    here = programs.out.split()[-1:] if programs.ok else []
    if not here:
        return f"{facts.version}, of the programs here unknown: {programs.why}"
    return facts.version if here == [facts.version] else f"{facts.version}, of the programs here {here[0]}"


def _check_account(
    query: _TimedQuery, names: ConfiguredNames, facts: ClusterFacts, details: dict[str, str]
) -> list[str]:
    """Find errors in the site's account and QOS, if the cluster keeps accounts."""
    if not facts.accounting:
        named = [f"account '{names.account}'"] if names.account else []
        named += [f"QOS '{name}'" for name in names.qos]
        unchecked = f"; {' and '.join(named)} cannot be checked" if named else ""
        details["accounts"] = f"this cluster keeps none{unchecked}"
        details["limits"] = site_checks.describe_limits(facts, names, (), {})
        return []
    show = ("sacctmgr", "--noheader", "--parsable2", "show")
    who = (f"user={user_name()}", *([f"cluster={facts.name}"] if facts.name else []))
    rows = query(*show, "associations", *who, f"format={site_checks.ASSOCIATION_FIELDS}", of_cluster=False)
    qos_rows = query(*show, "qos", f"format={site_checks.QOS_FIELDS}", of_cluster=False)
    associations = site_checks.parse_associations(rows.out) if rows.ok else []
    qualities = site_checks.parse_qos(qos_rows.out) if qos_rows.ok else {}
    details["accounts"] = (
        (", ".join(sorted({each.account for each in associations})) or "none") if rows.ok else f"unknown: {rows.why}"
    )
    details["qos"] = (", ".join(sorted(qualities)) or "none") if qos_rows.ok else f"unknown: {qos_rows.why}"
    details["limits"] = site_checks.describe_limits(facts, names, associations, qualities)
    # A missing answer proves no error.
    return list(site_checks.account_errors(names, associations, qualities)) if rows.ok else []


def _check_sources(query: _TimedQuery, facts: ClusterFacts) -> dict[str, str]:
    """Find out which status sources work here, in order of precedence."""
    queue = query("squeue", "--noheader", f"--user={user_name()}", "--format=%i")
    accounting = (
        query("sacct", "--noheader", "--allocations", "--starttime=now", "--format=JobID")
        if facts.accounting
        else ProgramResult(argv=("sacct",), status=1, err="this cluster keeps no accounts")
    )
    controller = f"remembers jobs that are over for {facts.min_job_age_s:.0f} s" if facts.min_job_age_s else "works"
    return {
        "records": "left by each job in the run directory, which its nodes must see",
        "squeue": "works" if queue.ok else _missing_source("squeue", queue),
        "sacct": "works" if accounting.ok else _missing_source("sacct", accounting),
        "scontrol": controller,
    }


def _missing_source(name: str, answer: ProgramResult) -> str:
    return f"does not work ({answer.why}): {MISSING_INFORMATION[name]}"
