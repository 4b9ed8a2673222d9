"""Checks a workflow against this machine (pure); apart so that a report of a run imports no checks of plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.contract.service import UNUSED, Context, Problem, Site
from longshore.engine.schedule.resource_pool import find_missing_limits
from longshore.engine.staging import check_staging
from longshore.services.local.machine import format_amount
from longshore.sites.requests import ignored_priorities

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

_INSIDE_HINT: Final = "Ask for less, or request it for the job around the run."
_REQUEST_KEYS: Final = {"cpus": "requestCpus", "memory": "requestMemory", "disk": "requestDisk"}


def check_workflow(workflow: Workflow, ctx: Context) -> list[Problem]:
    """Return the requests of jobs that this machine can never grant, and the settings without effect."""
    capacity = ctx.probe.capacity if ctx.probe else None
    problems = [
        *_unused_transfer(ctx.site),
        *ignored_priorities(workflow, "the local service"),
        *find_missing_limits(workflow, ctx.settings),
        *check_staging(workflow, ctx),
    ]
    if capacity is None:
        return problems
    inside = ctx.probe.details.get("job", "") if ctx.probe else ""
    if inside:
        problems.append(Problem(message=f"the run is inside a job and ends with it: {inside}", fatal=False))
    problems += _unlimited_resources(workflow, capacity)
    for job in workflow.samples:
        amounts = job.settings.request.amounts()
        found = oversized_requests(f"job '{job.name}'", amounts, capacity, job=job.name)
        problems += (msgspec.structs.replace(each, hint=_INSIDE_HINT) if inside else each for each in found)
    return problems


def _unlimited_resources(workflow: Workflow, capacity: Mapping[str, int]) -> Iterator[Problem]:
    """Warn of requested resources without a configured amount: every job gets them."""
    settings = (job.settings for job in workflow.samples)
    if "disk" not in capacity and any(each.request.disk_b and "requestDisk" not in each.defaulted for each in settings):
        yield Problem(
            message="the local service ignores 'requestDisk' without 'resources: {disk: ...}', the amount to share",
            fatal=False,
        )


def _unused_transfer(site: Site) -> Iterator[Problem]:
    """Note that this machine transfers no files."""
    if site.settings.get("fileSystem") == "transfer":
        yield Problem(
            message="'fileSystem: transfer' has no effect on the service 'local', whose jobs see all files",
            origin=site.origin_of("fileSystem"),
            code=UNUSED,
            hint="Leave it out, or write 'scratch' for a copy of the files beside each job.",
            fatal=False,
        )


def oversized_requests(
    subject: str, amounts: Mapping[str, int], capacity: Mapping[str, int], *, job: str | None = None
) -> Iterator[Problem]:
    """Yield the parts of a request that are beyond a capacity; `subject` says whose request it is."""
    for name, amount in amounts.items():
        if name not in capacity:
            if name != "disk":
                yield Problem(
                    message=f"{subject} asks for {amount} of '{name}', which this machine does not count",
                    job=job,
                    key=f"requestResources.{name}",
                    hint=f"Say how much there is: resources: {{{name}: {amount}}}, or correct the name.",
                )
        elif amount > capacity[name]:
            requested, available = format_amount(name, amount), format_amount(name, capacity[name])
            yield Problem(
                message=f"{subject} asks for {requested} of '{name}', and there are only {available}",
                job=job,
                key=_REQUEST_KEYS.get(name, f"requestResources.{name}"),
                hint=f"Ask for less, or, if the machine does have it, say so with resources: {{{name}: ...}}.",
            )
