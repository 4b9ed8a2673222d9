"""Checks of settings that only Grid Engine has: names of its cluster (pure functions)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from longshore.batch.settings import own_map
from longshore.contract.context import Context, Problem
from longshore.model.workflow.job import Job
from longshore.services.sge.options import SERVICE, SgeMap

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow

IGNORED_SETTINGS: Final = ("accountingUser", "abortReturnValue")
"""Settings of a job without an equivalent in Grid Engine."""
_ONE_CLUSTER: Final = ("bin", "root", "cell", "cluster")
_NAMES: Final = {"requestCpus": "parallelEnvironment", "requestMemory": "mem_resource", "requestDisk": "tmp_resource"}


def check_jobs(workflow: Workflow, ctx: Context) -> Iterator[Problem]:
    """Find jobs for another cluster, and note amounts that Grid Engine is not told of."""
    site_map = own_map(SERVICE, ctx.site.settings)
    checked_settings: set[int] = set()
    for job in workflow:
        if id(job.settings) in checked_settings:
            continue
        checked_settings.add(id(job.settings))
        own = job.settings.service_settings
        for name in _ONE_CLUSTER:
            if (value := own.get(name, site_map.get(name))) != site_map.get(name):
                yield Problem(
                    message=f"job '{job.name}': '{SERVICE}.{name}' is '{value}', and that of the run's site "
                    f"'{site_map.get(name)}': a run has one cluster",
                    job=job.name,
                    key=SERVICE,
                )
        yield from _unsaid_amounts(job, {**site_map, **own})


def _unsaid_amounts(job: Job, own: SgeMap) -> Iterator[Problem]:
    """Note amounts for which the site has no name."""
    request = job.settings.request
    unsaid = {
        "requestCpus": request.cpus > 1 and not (own.get("cpu_resource") or own.get("parallelEnvironment")),
        "requestMemory": bool(request.memory_b) and not own.get("mem_resource"),
        "requestDisk": bool(request.disk_b) and not own.get("tmp_resource"),
    }
    for key, is_unsaid in unsaid.items():
        if is_unsaid:
            yield Problem(
                message=f"job '{job.name}': Grid Engine is not told of '{key}'",
                hint=f"Name the cluster's resource for it in the site's profile: 'sge: {{{_NAMES[key]}: NAME}}'.",
                job=job.name,
                key=key,
                fatal=False,
            )
