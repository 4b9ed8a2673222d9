"""Builders of task graphs and their workflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from longshore.config.interpolate import Scope
from longshore.config.merge import to_node
from longshore.config.profile import JobProfile, compile_profile
from longshore.config.search import Config
from longshore.config.select import OrderingRule
from longshore.errors import Origin
from longshore.model.tasks import ClusteredGraph, ClusterMember, Dag, Task, TaskGraph
from longshore.model.workflow import Workflow
from longshore.plan.jobs import SpecialJobs, compile_profiles, transform

LABELS = ("T1", "T2", "T2b", "T3", "T4", "T5")
EDGES = (("T1", "T2"), ("T2", "T2b"), ("T2", "T3"), ("T3", "T4"))
PLACES = ((1, 2), (1, 4), (3, 4))


def graph(*, without: frozenset[tuple[str, int, int]] = frozenset()) -> TaskGraph:
    """T1 -> T2 -> {T2b, T3 -> T4}, and T5 alone, for each of three data IDs."""
    tasks = [
        Task(name=f"{label}-{one}-{two}", label=label, data_id={"D1": one, "D2": two}, node_id=f"id{number}")
        for number, (label, (one, two)) in enumerate(product(LABELS, PLACES))
        if (label, one, two) not in without
    ]
    names = {task.name for task in tasks}
    edges = [(f"{a}-{one}-{two}", f"{b}-{one}-{two}") for (a, b), (one, two) in product(EDGES, PLACES)]
    return TaskGraph(name="g", dag=Dag.by_name(tasks, [edge for edge in edges if names.issuperset(edge)]))


def workflow_of(
    clustered: ClusteredGraph,
    settings: Mapping[str, Any],
    special: SpecialJobs | None = None,
    orderings: Sequence[OrderingRule] = (),
) -> Workflow:
    config = Config(to_node(dict(settings), Origin("here.yaml", 1, 1, "file")))

    def compiled(member: ClusterMember, free: frozenset[str]) -> JobProfile:
        return compile_profile(config, member.label, Scope(free=free), cluster=member.section)

    profiles = compile_profiles(clustered, compiled)
    return transform(
        clustered,
        profiles,
        name="w",
        attributes={"bps_operator": "me"},
        special=special or SpecialJobs(),
        orderings=orderings,
    )
