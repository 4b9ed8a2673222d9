"""Stage `cluster`: groups tasks into jobs with the configured clustering algorithm."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.app.acquire.read_payload import AcquiredRun
from longshore.app.configure.configuration import Configuration
from longshore.app.configure.resolved_run import ResolvedRun, read_value
from longshore.app.configure.run_identity import payload_identity
from longshore.app.configure.user_functions import call_function, find_function
from longshore.app.payload.payload import AcquiredPayload
from longshore.app.static_check import LeftOutError, StaticCheck
from longshore.config.interpolate import Interpolator
from longshore.config.quantities import parse_walltime
from longshore.config.select import parse_cluster_rules
from longshore.config.templates import Template, split_fields
from longshore.contract.algorithms import ClusteringAlgorithm, ClusteringSettings
from longshore.errors import ConfigError
from longshore.model.tasks import ClusteredGraph, Task, TaskGraph, collection_paused
from longshore.plan.clustering import check_clusters
from longshore.rundir.histories import read_history
from longshore.world.plugins import CLUSTERING, built_in_plugins

_KEY: Final = "clusterAlgorithm"
_DEFAULT_TARGET_S: Final = 600.0

_BPS: Final = re.compile(r"lsst\.ctrl\.bps\.(?:\w+\.)*(single_quantum_clustering|dimension_clustering)")


class ClusteredRun(msgspec.Struct, frozen=True, kw_only=True):
    """Run with clustered tasks: the result of stage `cluster`."""

    run: ResolvedRun
    payload: AcquiredPayload
    graph: ClusteredGraph


def cluster_run(acquired: AcquiredRun) -> ClusteredRun:
    """Group the tasks of a run into clusters.

    Raises `ConfigError` if the algorithm is unknown or a value is wrong, `GraphError` if the tasks cannot be
    clustered so.
    """
    run, payload = acquired.run, acquired.payload
    return ClusteredRun(run=run, payload=payload, graph=_cluster_tasks(run.configuration, payload.graph, run.static))


def _cluster_tasks(configuration: Configuration, graph: TaskGraph, static: StaticCheck | None) -> ClusteredGraph:
    """Group tasks into clusters with the configured algorithm."""
    name = configuration.text(_KEY).strip() or "single_quantum_clustering"
    short = found[1] if (found := _BPS.fullmatch(name)) else name
    built_in_algorithm = built_in_plugins(CLUSTERING).get(short)
    with collection_paused():
        if built_in_algorithm is not None:
            algorithm: ClusteringAlgorithm = built_in_algorithm.load()
            clustered = algorithm(graph, _settings(configuration, graph, short))
        else:
            function = find_function(configuration, _KEY, group=CLUSTERING, what="clustering algorithm")
            if static is not None:
                raise LeftOutError(f"jobs, which '{name}' makes of tasks")
            settings = _settings(configuration, graph, name)
            clustered = call_function(configuration, _KEY, function, graph, settings, returns=ClusteredGraph)
    if built_in_algorithm is None or configuration.flag("validateClusteredQgraph"):
        check_clusters(clustered)
    return clustered


def _settings(configuration: Configuration, graph: TaskGraph, algorithm: str) -> ClusteringSettings:
    config = configuration.config
    kinds = {(*task.data_id, *task.implied) for task in graph.dag.nodes}
    dimensions = frozenset(name for names in kinds for name in names)
    names = dimensions | _names_of_quanta(configuration, graph)
    groups_tasks = algorithm != "single_quantum_clustering"
    return ClusteringSettings(
        rules=parse_cluster_rules(config, configuration.scope(), dimensions) if groups_tasks else (),
        name_template=dimension_template(configuration, "templateDataId", names),
        node_ids=configuration.flag("useNodeIdInClusterName"),
        target_s=read_value(configuration, "clusterRunTime", parse_walltime, _DEFAULT_TARGET_S),
        run_s=_run_times(configuration, graph) if algorithm == "runtime" else lambda _task: None,
        values=config.plain_values() if algorithm not in built_in_plugins(CLUSTERING) else {},
    )


def dimension_template(configuration: Configuration, key: str, dimensions: frozenset[str]) -> str:
    """Return a template whose remaining variables are dimensions, in braces."""
    scope = replace(configuration.scope(), free=dimensions | {"label"})
    hit = configuration.config.lookup(key, scope)
    if hit is None or hit.value in (None, ""):
        return ""
    if isinstance(hit.value, list | dict | bool):
        raise ConfigError(f"'{key}' must be text", origin=hit.origin)
    return str(Interpolator(configuration.config, scope).template(str(hit.value), hit.origin, name=key))


def _names_of_quanta(configuration: Configuration, graph: TaskGraph) -> frozenset[str]:
    """Return the names in ``templateDataId`` for a quantum graph: all are dimensions, as in BPS.

    A campaign's variable ``patch`` must not get into the names of jobs that have no patch.
    """
    hit = configuration.config.lookup("templateDataId", configuration.scope())
    if hit is None or not graph.dag.nodes[0].node_id:
        return frozenset()
    return Template(split_fields(str(hit.value))).names


def _run_times(configuration: Configuration, graph: TaskGraph) -> Callable[[Task], float | None]:
    """Return expected run times of tasks: the user's value for the label, else the average of past runs."""
    labels = sorted({task.label for task in graph.dag.nodes})
    known: dict[str, float] = {
        label: history.task_s or history.run_s
        for label, history in read_history(payload_identity(configuration), labels).items()
        if history.weight
    }
    for label in labels:
        scope = configuration.scope(curr_pipetask=label, curr_cluster=label)
        found = configuration.config.search("expectedRunTime", scope)
        if found.value not in (None, ""):
            known[label] = parse_walltime(found.value, "expectedRunTime", found.origin)
    return lambda task: known.get(task.label)
