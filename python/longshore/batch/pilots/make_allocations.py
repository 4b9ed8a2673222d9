"""Makes the source of a run's allocations, and the executor that uses it, from the settings of a run's executor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from longshore.batch.commands.client import BatchClient
from longshore.batch.executor.executor import BatchExecutor
from longshore.batch.pilots.allocation_script import PilotLaunch
from longshore.batch.pilots.batch_allocations import AllocationTerms, BatchAllocations
from longshore.batch.pilots.combined_executor import CombinedExecutor
from longshore.batch.pilots.executor import PilotExecutor
from longshore.batch.pilots.packing import PackingRule
from longshore.batch.pilots.settings import PilotSettings
from longshore.batch.scripts.node_launchers import NodeLauncher, StepLauncher
from longshore.batch.settings import own_map
from longshore.errors import ConfigError
from longshore.model.workflow import MIB, Request

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
    own = {key: value for key, value in own_map(name, settings).items() if key not in _NOT_OF_PILOTS}
    # Pilots measure what their jobs use, and nobody asks what an allocation used.
    usual = {**settings, name: {**own, "gather": False}}
    client = make_client(usual)
    launcher = client.dialect.node_launcher(pilot.nodes, pilot.cpus) if pilot.nodes > 1 else None
    if pilot.nodes > 1 and launcher is None:
        raise ConfigError(
            f"'pilot.nodes' cannot be {pilot.nodes}: Longshore cannot start pilots on several nodes of a job of "
            f"{client.dialect.title}",
            hint="Leave it out, and raise 'pilot.count' instead.",
        )
    terms = AllocationTerms(
        request=Request(cpus=pilot.cpus, memory_b=pilot.memory_b + OVERHEAD_B, walltime_s=pilot.walltime_s),
        attributes=attributes,
        settings=_node_settings(launcher, pilot.nodes),
    )
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


def _node_settings(launcher: NodeLauncher | None, nodes: int) -> Mapping[str, Any]:
    """Return the settings of an allocation of several nodes."""
    if launcher is None:
        return {}
    return launcher.settings if isinstance(launcher, StepLauncher) else {"nodeCount": nodes}
