"""Pilots of a run by the settings of its executor: their allocations and executor, and what of it is impossible."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from longshore.contract.capabilities import OwnJob
from longshore.contract.executor import Batch
from longshore.contract.service import Context, Problem
from longshore.errors import ConfigError
from longshore.model.workflow import MIB, Request
from longshore.services.batch.client import BatchClient
from longshore.services.batch.dialect import Dialect, NodeLauncher, StepLauncher
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.pilots.allocations import AllocationTerms, BatchAllocations, PilotLaunch, PilotSettings
from longshore.services.batch.pilots.executor import PilotExecutor
from longshore.services.batch.pilots.packing import CombinedExecutor, PackingRule, is_wanted
from longshore.services.batch.ping import PILOT_NODES
from longshore.services.batch.script_writer import job_spec
from longshore.services.batch.settings import own_map, wants_native
from longshore.sites.pilots import MEMORY_PER_CPU_B

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

OVERHEAD_B: Final = 256 * MIB
"""Memory that an allocation asks for beside that of its jobs, for the pilot itself."""
_NOT_OF_PILOTS: Final = ("engineAs", "engineJob", "launcher", "maxpendtime", "mode")
"""Keys of the service's own map that are about jobs or engines: an allocation that waits is no failure."""


def make_combined_executor(
    settings: Mapping[str, Any],
    make_client: Callable[[Mapping[str, Any]], BatchClient],
    pilot: PilotSettings,
    attributes: Mapping[str, Any],
) -> CombinedExecutor:
    """Return the executor that runs packed jobs in pilots, and submits others; arguments as `make_allocations`."""
    client = make_client(settings)
    rule = PackingRule(pilot=pilot, settings=own_map(client.dialect.name, settings), attributes=attributes)
    pilots = PilotExecutor(make_allocations(settings, make_client, pilot, attributes), pilot)
    return CombinedExecutor(BatchExecutor(settings, client), pilots, rule)


def make_allocations(
    settings: Mapping[str, Any],
    make_client: Callable[[Mapping[str, Any]], BatchClient],
    pilot: PilotSettings,
    attributes: Mapping[str, Any],
) -> BatchAllocations:
    """Return the source of allocations.

    `settings` are the executor's, `make_client` makes a client for such settings, and `attributes` are those that all
    allocations have. Raises `ConfigError` when pilots on several nodes are not possible.
    """
    name = make_client(settings).dialect.name
    usual = _settings_of_pilots(name, settings)
    client = make_client(usual)
    launcher = _launcher(client.dialect, pilot)
    terms = _terms(pilot, attributes, launcher)
    launch = PilotLaunch(
        python=sys.executable,
        cpus=pilot.cpus,
        memory_b=pilot.memory_b,
        walltime_s=pilot.walltime_s,
        lease_s=pilot.lease_s,
        idle_s=pilot.idle_s,
        nodes=pilot.nodes,
        launcher=launcher,
    )
    return BatchAllocations(BatchExecutor(usual, client), terms, launch)


def _settings_of_pilots(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return an executor's settings as they are for allocations."""
    own = {key: value for key, value in own_map(name, settings).items() if key not in _NOT_OF_PILOTS}
    # Pilots measure what their jobs use, and nobody asks what an allocation used.
    return {**settings, name: {**own, "gather": False}}


def _launcher(dialect: Dialect, pilot: PilotSettings) -> NodeLauncher | None:
    """Return what starts pilots on several nodes; raises `ConfigError` where that is not possible."""
    launcher = dialect.node_launcher(pilot.nodes, pilot.cpus) if pilot.nodes > 1 else None
    if pilot.nodes > 1 and launcher is None:
        raise ConfigError(
            f"'pilot.nodes' cannot be {pilot.nodes}: Longshore cannot start pilots on several nodes of a job of "
            f"{dialect.title}",
            hint="Leave it out, and raise 'pilot.count' instead.",
        )
    return launcher


def _terms(pilot: PilotSettings, attributes: Mapping[str, Any], launcher: NodeLauncher | None) -> AllocationTerms:
    """Return what an allocation asks for."""
    return AllocationTerms(
        request=Request(cpus=pilot.cpus, memory_b=pilot.memory_b + OVERHEAD_B, walltime_s=pilot.walltime_s),
        attributes=attributes,
        settings=_node_settings(launcher, pilot.nodes),
    )


def pilot_allocations(
    make_dialect: Callable[[Mapping[str, Any]], Dialect], settings: Mapping[str, Any]
) -> OwnJob | None:
    """Return what each pilot asks for by the settings of an executor; ``None`` for a run without pilots.

    `make_dialect` makes a dialect by the service's own map. Raises `ConfigError` when a setting is invalid.
    """
    if "pilot" not in settings:
        return None
    name = make_dialect({}).name
    usual, pilot = _settings_of_pilots(name, settings), pilot_settings(settings)
    dialect = make_dialect(own_map(name, usual))
    terms = _terms(pilot, settings.get("pilot_attributes") or {}, _launcher(dialect, pilot))
    batch = Batch(
        id="0",
        tag="longshore-0",
        request=terms.request,
        members=(),
        attributes=terms.attributes,
        settings=terms.settings,
    )
    asked = dialect.allocations(job_spec(dialect, batch, usual))
    return OwnJob(name="each pilot", section="pilot", components=asked)


def _node_settings(launcher: NodeLauncher | None, nodes: int) -> Mapping[str, Any]:
    """Return the settings of an allocation of several nodes."""
    if launcher is None:
        return {}
    return launcher.settings if isinstance(launcher, StepLauncher) else {"nodeCount": nodes}


def pilot_settings(settings: Mapping[str, Any]) -> PilotSettings:
    """Return the settings of pilots from those of an executor; else defaults within the site's ceilings."""
    ended = {key: settings[key] for key in ("signals", "grace_s") if key in settings}
    written, ceilings = settings.get("pilot", {}), settings.get("ceilings") or {}
    pilot = msgspec.convert({**written, **ended}, PilotSettings)
    # The ceilings are those of all its nodes together.
    of_site = [int(ceilings[name]) for name in ("cpus", "perUser.cpus") if name in ceilings]
    cpus = min(pilot.cpus, max(1, min(of_site, default=pilot.cpus * pilot.nodes) // pilot.nodes))
    pilot = pilot if "cpus" in written else msgspec.structs.replace(pilot, cpus=cpus)
    memory_b = pilot.cpus * MEMORY_PER_CPU_B
    if (most := ceilings.get("memory")) is not None:
        memory_b = min(memory_b, max(MIB, int(most) // pilot.nodes - OVERHEAD_B))
    lower: dict[str, float] = {
        "memory_b": memory_b,
        "walltime_s": min(pilot.walltime_s, ceilings.get("walltime", math.inf)),
    }
    pilot = msgspec.structs.replace(pilot, **{key: value for key, value in lower.items() if key not in written})
    # All that are requested at once keep to the ceiling of the user.
    most = (
        int(ceilings.get("perUser.cpus", math.inf) // (pilot.cpus * pilot.nodes))
        if "perUser.cpus" in ceilings
        else None
    )
    return pilot if most is None else msgspec.structs.replace(pilot, count=max(1, min(pilot.count, most)))


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
