"""What a job really asks of its workload manager: its request, and the words of the workload manager's own map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from longshore.app.runs.open_run import OpenRun
from longshore.config.secrets import mask_secrets
from longshore.contract.capabilities import AllocationReader
from longshore.engine.rundir.run_settings import read_settings
from longshore.errors import ConfigError, LongshoreError
from longshore.model.values import YamlValue
from longshore.model.workflow.allocation import Allocation
from longshore.model.workflow.job import JobSettings
from longshore.sites.requests import PartitionRow, choose_partition


class AskedResources(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks of a workload manager that has words of its own for it.

    `components` are nearly always one. `partition` is the row of the site's ``partitions`` that the job gets; empty
    without one. `settings` is the job's part of the service's own map.
    """

    service: str
    components: tuple[Allocation, ...]
    partition: str
    settings: Mapping[str, YamlValue]


def asked_resources(opened: OpenRun, job: JobSettings) -> AskedResources | None:
    """Return what a job asks for; ``None`` if its service has no other words than those of the request."""
    try:
        service, executor = opened.service, read_settings(opened.run).executor
    except LongshoreError:
        # Without the installed service or its settings, the request is all that is known.
        return None
    if not isinstance(service, AllocationReader):
        return None
    components = tuple(service.allocations(job, executor))
    rows = cast("Sequence[PartitionRow]", executor.get("partitions") or ())
    try:
        row = choose_partition(rows, components[0])
    except ConfigError:
        row = None
    return AskedResources(
        service=opened.card.service,
        components=components,
        partition=row["name"] if row else "",
        settings={name: mask_secrets(name, value, opened.secrets) for name, value in job.service_settings.items()},
    )
