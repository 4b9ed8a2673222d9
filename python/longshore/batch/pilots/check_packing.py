"""Check of a run's pilots before it is written, and their settings from those of the executor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from longshore.batch.pilots.make_allocations import OVERHEAD_B, make_combined_executor
from longshore.batch.pilots.packing import is_wanted
from longshore.batch.pilots.settings import PilotSettings
from longshore.batch.ping.ping import PILOT_NODES
from longshore.batch.settings import wants_native
from longshore.contract.service import Context, Problem
from longshore.errors import ConfigError
from longshore.model.workflow import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from longshore.batch.commands.client import BatchClient
    from longshore.batch.pilots.combined_executor import CombinedExecutor
    from longshore.model.workflow import Workflow


def pilot_settings(settings: Mapping[str, Any]) -> PilotSettings:
    """Return the settings of pilots from those of an executor; the defaults where it has none."""
    ended = {key: settings[key] for key in ("signals", "grace_s") if key in settings}
    return msgspec.convert({**settings.get("pilot", {}), **ended}, PilotSettings)


def pilots_executor(
    settings: Mapping[str, Any], make_client: Callable[[Mapping[str, Any]], BatchClient]
) -> CombinedExecutor:
    """Return the executor that runs jobs in pilots where they want that and fit; raises `ConfigError`."""
    attributes = settings.get("pilot_attributes") or {}
    return make_combined_executor(settings, make_client, pilot_settings(settings), attributes)


def _check_size(pilot: PilotSettings, ctx: Context) -> Iterator[Problem]:
    """Find amounts of a pilot that no node has."""
    capacity = (ctx.probe.capacity if ctx.probe else None) or {}
    for key, amount, unit in (("cpus", pilot.cpus, 1), ("memory", pilot.memory_b + OVERHEAD_B, MIB)):
        largest = capacity.get(key)
        if largest is not None and amount > largest:
            words = " MiB" if unit == MIB else ""
            yield Problem(
                message=f"a pilot asks for {amount / unit:.0f}{words} of '{key}', and the largest node has "
                f"{largest / unit:.0f}{words}",
                origin=ctx.site.origin,
                key=f"pilot.{key}",
                hint=f"Give it less: pilot: {{{key}: ...}}.",
            )


def check_packing(
    workflow: Workflow, ctx: Context, name: str, make_client: Callable[[Mapping[str, Any]], BatchClient]
) -> Iterator[Problem]:
    """Find settings of pilots that are impossible, and note per label why jobs do not run in pilots."""
    settings = ctx.settings.get("executor", {})
    if "pilot" not in settings:
        return
    if wants_native(name, ctx.site.settings):
        yield Problem(
            message="mode: native has no pilots, as 'packing' wants them",
            origin=ctx.site.origin,
            hint="Leave 'mode: native' out: the engine runs pilots.",
        )
        return
    try:
        rule = pilots_executor(settings, make_client).rule
    except ConfigError as error:
        yield Problem(message=error.message, hint=error.hint, origin=ctx.site.origin)
        return
    yield from _check_size(pilot_settings(settings), ctx)
    for problem in ctx.probe.problems if ctx.probe else ():
        if problem.key == PILOT_NODES:
            yield msgspec.structs.replace(problem, fatal=True, origin=ctx.site.origin)
    told: set[tuple[str, str]] = set()
    for job in workflow.samples:
        attributes, own = job.settings.attributes, job.settings.service_settings
        why = rule.obstacle(attributes, own, job.settings.request) if is_wanted(attributes) else ""
        if why and (job.label, why) not in told:
            told.add((job.label, why))
            yield Problem(message=f"jobs of '{job.label}' run as jobs of their own: {why}", fatal=False)
