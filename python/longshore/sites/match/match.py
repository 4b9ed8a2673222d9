"""Matches one site with what a run needs: limits, partitions, whole resources, and the resource graph (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

from longshore.config.values.quantities import parse_count
from longshore.contract.site_match import (
    GraphBackend,
    JobSpecification,
    MatchAlgorithm,
    Requirement,
    ResourceGraph,
    ResourceNeed,
    UnmetNeed,
    Vertex,
)
from longshore.errors import ConfigError
from longshore.model.workflow.allocation import Allocation
from longshore.model.workflow.request import MIB, Request
from longshore.sites.limits import SiteLimits, exceeded_limits
from longshore.sites.match.vertex_pool import VertexPool, make_graph
from longshore.sites.partitions import PartitionRow, choose_partition

_UNBOUNDED: Final = 2**40
"""Amount of what a site does not say."""
_TYPES: Final = {"gpus": "gpu"}
"""Type of vertices per resource of a request, where the two differ."""


class JobNeed(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs of one label ask for, and the partitions that they name."""

    label: str
    request: Request
    partitions: tuple[str, ...] = ()


class RunNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What a run needs of a site: what its jobs ask for, or a job specification, and requirements."""

    jobs: tuple[JobNeed, ...] = ()
    specification: JobSpecification | None = None
    requires: tuple[Requirement, ...] = ()


class SiteFacts(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the profile of a site says of its resources."""

    name: str
    limits: SiteLimits = msgspec.field(default_factory=dict)
    partitions: Sequence[PartitionRow] = ()
    resources: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Resources of all jobs, for a site that is one machine."""
    graph: ResourceGraph | None = None
    capabilities: tuple[str, ...] = ()

    @cached_property
    def searched_graph(self) -> ResourceGraph:
        """The graph of the profile, or one that follows from its partitions."""
        graph = self.graph if self.graph is not None else _graph_of_partitions(self)
        return _with_capabilities(graph, self.capabilities) if self.capabilities else graph


def find_unmet(
    site: SiteFacts, needs: RunNeeds, backend: GraphBackend, algorithms: Mapping[str, MatchAlgorithm]
) -> tuple[UnmetNeed, ...]:
    """Return what a run needs and a site does not have; nothing if it matches.

    The first kind of check that fails ends the search: limits, then partitions, then the graph.
    """
    checks = (_exceeded_limits, _missing_partitions, _missing_resources)
    for check in checks:
        if unmet := tuple(check(site, needs)):
            return unmet
    requests = [needs.specification] if needs.specification is not None else []
    requests += _specifications(site, needs)
    unmet = tuple(each for request in requests for each in backend(site.searched_graph, request, algorithms))
    return tuple(dict.fromkeys(unmet))


def _exceeded_limits(site: SiteFacts, needs: RunNeeds) -> Iterator[UnmetNeed]:
    for job in needs.jobs:
        for name, key, asked, limit in exceeded_limits(job.request, site.limits):
            yield UnmetNeed(what=f"'{key}' of '{job.label}' in 'limits.{name}'", asked=asked, nearest=limit.written)


def _missing_partitions(site: SiteFacts, needs: RunNeeds) -> Iterator[UnmetNeed]:
    for job in needs.jobs if site.partitions else ():
        named = {row["name"] for row in site.partitions}
        if unknown := sorted(set(job.partitions) - named):
            yield UnmetNeed(
                what=f"the partition of '{job.label}'", asked=unknown[0], nearest=", ".join(sorted(named)[:3])
            )
            continue
        asked = msgspec.structs.replace(Allocation.of_request(job.request), partitions=job.partitions)
        try:
            choose_partition(site.partitions, asked)
        except ConfigError as error:
            yield UnmetNeed(what=f"a partition for '{job.label}'", asked="one that holds it", nearest=error.message)


def _missing_resources(site: SiteFacts, needs: RunNeeds) -> Iterator[UnmetNeed]:
    """Find requests beyond the resources of a site that is one machine."""
    for job in needs.jobs if site.resources else ():
        for name, amount in job.request.amounts().items():
            there = site.resources.get(name)
            if there is None and name in {"memory", "disk"}:
                continue
            if amount > (there or 0):
                unit = MIB if name in {"memory", "disk"} else 1
                suffix = " MiB" if unit == MIB else ""
                yield UnmetNeed(
                    what=f"'{name}' of '{job.label}' in 'resources'",
                    asked=f"{amount // unit}{suffix}",
                    nearest=f"{(there or 0) // unit}{suffix}",
                )


def _specifications(site: SiteFacts, needs: RunNeeds) -> list[JobSpecification]:
    """Return requests for the graph: one per label, where the profile has a graph; else the requirements alone."""
    kind = _place_type(site)
    if site.graph is None:
        if not needs.requires:
            return []
        return [JobSpecification(groups=(ResourceNeed(type=kind, requires=needs.requires),))]
    requests = [
        JobSpecification(
            groups=(
                ResourceNeed(
                    type=kind, requires=needs.requires, children=tuple(_children(job.request, site.graph, kind))
                ),
            )
        )
        for job in needs.jobs
    ]
    if needs.requires and not requests:
        requests.append(JobSpecification(groups=(ResourceNeed(type=kind, requires=needs.requires),)))
    return requests


def _place_type(site: SiteFacts) -> str:
    """Return the type of the vertices that hold a whole job: nodes, where the graph has any."""
    graph = site.searched_graph
    return "node" if "node" in graph.totals else graph.root.type


def _children(request: Request, graph: ResourceGraph, place: str) -> Iterator[ResourceNeed]:
    """Return what a job needs of one vertex; memory and disk where the graph counts them, in MiB."""
    for name, amount in request.amounts().items():
        kind = {"cpus": "core"}.get(name) or _TYPES.get(name, name)
        if kind == place or (kind in {"core", "memory", "disk"} and kind not in graph.totals):
            continue
        count = -(-amount // MIB) if name in {"memory", "disk"} else amount
        if count > 0:
            yield ResourceNeed(type=kind, count=parse_count(count, name))


def _graph_of_partitions(site: SiteFacts) -> ResourceGraph:
    """Return the graph that follows from partitions, in which what is not said is there."""
    pool = VertexPool()
    rows = site.partitions or [_machine_row(site.resources)]
    nodes: list[tuple[Vertex, int]] = []
    for row in rows:
        below = [(pool.make("core", 1, {}, ()), row.get("cpus") or _UNBOUNDED)]
        below += [
            (pool.make(_TYPES.get(name, name), 1, {}, ()), int(amount))
            for name, amount in (row.get("resources") or {}).items()
            if amount
        ]
        features = tuple({"name": feature, "type": feature} for feature in row.get("features") or ())
        subsystems = {"features": features} if features else {}
        nodes.append((pool.make("node", 1, subsystems, below), row.get("nodes") or _UNBOUNDED))
    return make_graph(pool.make("cluster", 1, {}, nodes))


def _machine_row(resources: Mapping[str, int]) -> PartitionRow:
    """Return the row of a site that is one machine, or of which nothing is known."""
    others = {name: amount for name, amount in resources.items() if name not in {"cpus", "memory", "disk"}}
    row = PartitionRow(name="", resources=others)
    if "cpus" in resources:
        row |= PartitionRow(name="", nodes=1, cpus=resources["cpus"])
    return row


def _with_capabilities(graph: ResourceGraph, names: Sequence[str]) -> ResourceGraph:
    """Return a graph in which each vertex has the capabilities of the site, a subsystem of that name."""
    members = tuple({"name": name, "type": name} for name in names)

    def extended(vertex: Vertex) -> Vertex:
        return msgspec.structs.replace(
            vertex,
            subsystems={**vertex.subsystems, "capabilities": (*vertex.subsystems.get("capabilities", ()), *members)},
            children=tuple(map(extended, vertex.children)),
        )

    return msgspec.structs.replace(graph, root=extended(graph.root), subsystems=graph.subsystems | {"capabilities"})
