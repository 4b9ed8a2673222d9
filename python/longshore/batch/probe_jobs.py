"""Checks of jobs by what their cluster has, before a run is submitted (pure functions)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from longshore.batch.check_requests import Allocate
from longshore.batch.ping.ping import PILOT_NODES
from longshore.contract.service import Context, Inventory, Problem
from longshore.errors import ConfigError
from longshore.model.workflow import Allocation, Job
from longshore.sites.requests import PartitionRow, choose_partition, find_unmet_requests


def find_unmet_jobs(jobs: Iterable[Job], ctx: Context, allocate: Allocate, service_key: str) -> list[Problem]:
    """Find names and amounts that the cluster does not have; else what it does not take of the site's settings.

    A job that no partition of the site's table holds is found by `check_requests`.
    """
    inventory = ctx.probe.inventory if ctx.probe else None
    if ctx.probe is None or inventory is None:
        return []
    settings = ctx.settings.get("executor", {})
    rows = cast("Sequence[PartitionRow]", settings.get("partitions") or ())
    checked_settings: set[int] = set()
    found: list[Problem] = []
    for job in jobs:
        # Jobs of one profile share their settings, so one check covers them.
        if id(job.settings) in checked_settings:
            continue
        checked_settings.add(id(job.settings))
        components = allocate(job.settings, settings)
        try:
            row = choose_partition(rows, components[0])
        except ConfigError:
            continue
        for each in components:
            found += _check_inventory(job, at_site(each, settings, row), inventory, service_key)
    # `check_packing` reports those of pilots.
    return found or [each for each in ctx.probe.problems if each.key != PILOT_NODES]


def at_site(asked: Allocation, settings: Mapping[str, Any], row: PartitionRow | None) -> Allocation:
    """Return what a job asks for with what its site gives: a partition, an account and a QOS."""
    queue = row["name"] if row else settings.get("queue")
    account = (row.get("account") if row else "") or settings.get("account")
    qos = (row.get("qos") if row else "") or settings.get("qos")
    return msgspec.structs.replace(
        asked,
        partitions=asked.partitions or ((str(queue),) if queue else ()),
        account=asked.account or str(account or ""),
        qos=asked.qos or ((str(qos),) if qos else ()),
    )


def _check_inventory(job: Job, asked: Allocation, inventory: Inventory, service_key: str) -> Iterator[Problem]:
    """Find what the cluster does not have, or not as much of."""
    for unmet in find_unmet_requests(asked, inventory):
        yield Problem(
            message=f"job '{job.name}': {unmet.message}",
            hint=unmet.hint,
            job=job.name,
            key=service_key,
            fatal=unmet.fatal,
        )
