"""Stage `cluster`: which tasks run together in one job, by the configured algorithm, and checks of what it returns."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise, repeat
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from longshore.config.interpolate import Interpolator
from longshore.config.plugins import CLUSTERING, built_in_plugins
from longshore.config.quantities import parse_walltime
from longshore.config.schema import Finding
from longshore.config.select import parse_cluster_rules
from longshore.config.templates import Field, Template, split_fields
from longshore.contract.algorithms import ClusteringAlgorithm, ClusteringSettings, ClusterRule, Partition, Start
from longshore.errors import CodeRefusedError, ConfigError, CycleError, GraphError, Origin
from longshore.graphs.graph_file import AcquiredPayload
from longshore.model.tasks import Cluster, ClusteredGraph, Dag, DataId, Scalar, Task, TaskGraph, collection_paused
from longshore.model.values import value_order
from longshore.plan.acquire import AcquiredRun
from longshore.plan.configuration import Configuration, call_function, find_function, payload_identity
from longshore.plan.lint import LeftOutError, StaticCheck
from longshore.plan.resolved_run import ResolvedRun, read_value
from longshore.rundir.histories import read_history

# Checks of clusters: each task once and in order, and the error for clusters that wait for each other in a cycle.


def check_clusters(clustered: ClusteredGraph) -> None:
    """Refuse clusters that do not hold every task once, in an order that its parents allow.

    Raises `GraphError` if a task is missing, repeated or unknown, or a parent does not precede it.
    """
    source = clustered.source.dag
    held = Counter(task.name for cluster in clustered.dag.nodes for task in cluster.tasks)
    for what, names in (
        ("is in no cluster", [task.name for task in source.nodes if not held[task.name]]),
        ("is in the clusters more than once", [name for name, count in held.items() if count > 1]),
        ("is in a cluster, but is no task of the graph", [name for name in held if name not in source.index]),
    ):
        if names:
            more = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise GraphError(f"the task '{names[0]}' {what}{more}", hint="The fault is in 'clusterAlgorithm'.")
    place: dict[str, tuple[int, int]] = {}
    for number, cluster in enumerate(clustered.dag.nodes):
        place.update({task.name: (number, position) for position, task in enumerate(cluster.tasks)})
    following = [frozenset(children) for children in clustered.dag.children]
    for parent, child in source.edges():
        before, after = source.nodes[parent].name, source.nodes[child].name
        (one, first), (other, second) = place[before], place[after]
        if one == other and first > second:
            raise GraphError(
                f"in the cluster '{clustered.dag.nodes[one].name}', the task '{after}' comes before '{before}', for "
                "which it waits"
            )
        if one != other and other not in following[one]:
            raise GraphError(
                f"the task '{after}' waits for '{before}', but its cluster '{clustered.dag.nodes[other].name}' does "
                f"not wait for '{clustered.dag.nodes[one].name}'"
            )


def explain_cluster_cycle(
    graph: TaskGraph, clusters: Sequence[Cluster], cluster_of: Sequence[int], error: CycleError
) -> CycleError:
    """Return the error of a cycle of clusters, with an example of two tasks for each edge."""
    number = {cluster.name: index for index, cluster in enumerate(clusters)}
    ring = [number[name] for name in error.ring]
    wanted = set(pairwise(ring))
    examples: dict[tuple[int, int], str] = {}
    for parent, child in graph.dag.edges():
        step = cluster_of[parent], cluster_of[child]
        if step in wanted:
            examples.setdefault(step, f"'{graph.dag.nodes[parent].name}' before '{graph.dag.nodes[child].name}'")
    why = "; ".join(examples[step] for step in pairwise(ring))
    several = sorted({clusters[index].label for index in ring if len(clusters[index].tasks) > 1})
    named = " and ".join(f"'{label}'" for label in several)
    return CycleError(
        error.ring,
        hint=f"The clusters would wait for each other: {why}. Take a label out of {named}, or put what lies between "
        "into the same cluster.",
    )


# Makes the graph of clusters from the graph of their tasks.


def make_cluster_graph(graph: TaskGraph, clusters: Sequence[Cluster], cluster_of: Sequence[int]) -> ClusteredGraph:
    """Make the graph of clusters, with the edges of their tasks; `cluster_of` is the index of each task's cluster.

    Raises `GraphError` if two clusters have one name, or (as `CycleError`) clusters would wait for each other.
    """
    ends = ((cluster_of[parent], cluster_of[child]) for parent, child in graph.dag.edges())
    edges = {end for end in ends if end[0] != end[1]}
    try:
        dag = Dag(clusters, sorted(edges))
    except CycleError as error:
        raise explain_cluster_cycle(graph, clusters, cluster_of, error) from None
    return ClusteredGraph(name=graph.name, dag=dag, source=graph)


# Divides the clusters of a rule into parts, by the values of some dimensions.


PartitionValues = tuple[str | int | float | bool, ...]


def assign_parts(
    values: Iterable[PartitionValues], partition: Partition, clusters: int, *, label: str, origin: Origin | None
) -> dict[PartitionValues, int]:
    """Number of the part, from 1, per combination of values.

    The values are sorted, numbers in numeric order, and cut into parts of nearly equal size. `clusters` is the number
    of clusters before they are divided.

    Raises `GraphError` if `partitionMaxClusters` is less than that number.
    """
    ordered = sorted(set(values), key=lambda these: [*map(value_order, these)])
    numbers = chain.from_iterable(
        repeat(number, size)
        for number, size in enumerate(_part_sizes(len(ordered), partition, clusters, label, origin), 1)
    )
    return dict(zip(ordered, numbers, strict=True))


def _part_sizes(values: int, partition: Partition, clusters: int, label: str, origin: Origin | None) -> Collection[int]:
    if partition.most_values is not None:
        whole, rest = divmod(values, partition.most_values)
        return [partition.most_values] * whole + [rest] * bool(rest)
    most = partition.most_clusters or 1
    if most < clusters:
        raise GraphError(
            f"'partitionMaxClusters' of the cluster '{label}' is {most}, but its dimensions alone make {clusters}",
            origin=origin,
            hint="Raise it, or take a dimension out of 'dimensions'.",
        )
    parts = min(most // clusters, values)
    size, larger = divmod(values, parts)
    return [size + 1] * larger + [size] * (parts - larger)


# Makes each task a cluster of its own.


_UNDERSCORES = re.compile("__+")


def cluster_single_tasks(graph: TaskGraph, settings: ClusteringSettings) -> ClusteredGraph:
    """Make each task a cluster.

    Raises `GraphError` if two tasks would have the same name.
    """
    names = task_job_names(graph.dag.nodes, settings)
    clusters = (
        Cluster(name=name, label=task.label, tags=task.data_id, tasks=(task,))
        for name, task in zip(names, graph.dag.nodes, strict=True)
    )
    return ClusteredGraph(name=graph.name, dag=graph.dag.alike(clusters), source=graph)


def task_job_names(tasks: Iterable[Task], settings: ClusteringSettings) -> Iterator[str]:
    """Names of single tasks' jobs.

    Without a template it is the task's name. With one, it is the id from the source, the label, and the template with
    the task's dimensions; absent dimensions are left out.

    Raises `GraphError` if two tasks would have the same name.
    """
    if not settings.name_template:
        yield from (task.name for task in tasks)
        return
    template = Template(split_fields(settings.name_template))
    labelled = "label" in template.names
    seen: dict[str, Task] = {}
    for task in tasks:
        start = f"{task.node_id}_" if settings.node_ids and task.node_id else ""
        values = {**task.data_id, "label": task.label} if labelled else task.data_id
        name = f"{start}{task.label}_{template.render(values, missing='')}"
        if "__" in name:
            name = _UNDERSCORES.sub("_", name)
        if "/" in name:
            name = name.replace("/", "_")
        if (other := seen.setdefault(name, task)) is not task:
            raise GraphError(
                f"the tasks '{other.name}' and '{task.name}' would both be named '{name}'",
                hint=f"Let 'templateDataId', which is '{settings.name_template}', name what tells them apart.",
            )
        yield name


# Clusters tasks of some labels by the values of some dimensions.


ClusterKey: TypeAlias = tuple[Scalar, ...]
"""Values of a rule's dimensions, then those that divide its clusters into parts."""


def cluster_by_dimension(graph: TaskGraph, settings: ClusteringSettings) -> ClusteredGraph:
    """Cluster tasks by the sections of ``cluster``; all other tasks are clusters of their own.

    Raises `GraphError` if a task lacks a dimension, two clusters have one name, or (as `CycleError`) clusters would
    wait for each other.
    """
    tasks = graph.dag.nodes
    group_of: dict[int, _RuleTasks] = {}
    for rule in settings.rules:
        made = _RuleTasks(rule, graph)
        group_of.update(dict.fromkeys(made.keys, made))
    alone = [index for index in graph.dag.order if index not in group_of]
    name_of = dict(zip(alone, task_job_names([tasks[index] for index in alone], settings), strict=True))
    drafts: dict[Hashable, _ClusterDraft] = {}
    cluster_of = [0] * len(tasks)
    for index in graph.dag.order:
        task, group = tasks[index], group_of.get(index)
        key: Hashable = index if group is None else group.key(index)
        draft = drafts.get(key)
        if draft is None:
            number = len(drafts)
            if group is None:
                draft = _ClusterDraft(number, name_of[index], task.label, task.data_id)
            else:
                draft = _ClusterDraft(number, group.name(index), group.rule.label, group.tags(index))
            drafts[key] = draft
        draft.tasks.append(task)
        cluster_of[index] = draft.number
    _refuse_same_names(drafts.values(), settings)
    return make_cluster_graph(graph, [draft.cluster() for draft in drafts.values()], cluster_of)


class _ClusterDraft(msgspec.Struct):
    """A cluster under construction."""

    number: int
    name: str
    label: str
    tags: DataId
    tasks: list[Task] = msgspec.field(default_factory=list)

    def cluster(self) -> Cluster:
        return Cluster(name=self.name, label=self.label, tags=self.tags, tasks=tuple(self.tasks))


class _RuleTasks:
    """Tasks of one rule, and the key of each.

    Raises `GraphError` if a task lacks a dimension, or there are too many clusters.
    """

    def __init__(self, rule: ClusterRule, graph: TaskGraph) -> None:
        self.rule = rule
        cut = rule.partition.dimensions if rule.partition else ()
        self._tasks = graph.dag.nodes
        self._wanted = [(name, (name, *rule.equal.get(name, ()))) for name in (*rule.dimensions, *cut)]
        self._size = len(rule.dimensions)
        self._alike: dict[str, Scalar] = {}
        """One value per text: values of two dimensions are equal by their texts."""
        self._template = Template(split_fields(rule.template))
        shown = {part.name for part in self._template.parts if isinstance(part, Field)}
        # As in BPS, whose clusters have different names: one that shows a value to divide by has tasks of that value.
        self._grouping = (
            *range(self._size),
            *(self._size + number for number, name in enumerate(cut) if name in shown),
        )
        labels = frozenset(rule.tasks)
        members = [index for index in graph.dag.order if self._tasks[index].label in labels]
        self.keys: dict[int, ClusterKey] = (
            self._neighbour_keys(graph, members) if rule.start else self._own_keys(members)
        )
        """Where each of its tasks belongs."""
        self._parts: dict[ClusterKey, int] = {}
        if rule.partition and members:
            self._parts = assign_parts(
                (place[self._size :] for place in self.keys.values()),
                rule.partition,
                len({self._group(place) for place in self.keys.values()}),
                label=rule.label,
                origin=rule.origin,
            )

    def key(self, index: int) -> Hashable:
        """Key of a task's cluster, unique among all rules."""
        place = self.keys[index]
        return self.rule.label, self._group(place), self._parts.get(place[self._size :])

    def _group(self, place: ClusterKey) -> ClusterKey:
        """Values that the tasks of a cluster share, before it is divided."""
        return tuple([place[position] for position in self._grouping])

    def name(self, index: int) -> str:
        """Name of a task's cluster."""
        rule = self.rule
        if rule.template:
            # Of other dimensions its tasks have several values, and the first would be there by chance.
            names = (name for name, _ in self._wanted)
            values = {**dict(zip(names, self.keys[index], strict=True)), "label": rule.label}
            name = _UNDERSCORES.sub("_", self._template.render(values, missing=""))
        else:
            name = "_".join((rule.label, *map(str, self.keys[index][: self._size])))
        part = self._parts.get(self.keys[index][self._size :])
        return name.replace("/", "_") + (f"_{part:03}" if part else "")

    def tags(self, index: int) -> Mapping[str, Scalar]:
        """Values that all tasks of a task's cluster share."""
        return dict(zip(self.rule.dimensions, self.keys[index], strict=False))

    def _own_keys(self, members: list[int]) -> dict[int, ClusterKey]:
        """Keys of tasks by their own dimensions."""
        keys: dict[int, ClusterKey] = {}
        for index in members:
            place = self._own_key(index)
            if place is None:
                raise self._missing_error(index)
            keys[index] = place
        return keys

    def _neighbour_keys(self, graph: TaskGraph, members: list[int]) -> dict[int, ClusterKey]:
        """Keys of tasks by their own dimensions, else by those of their parents (or children)."""
        first = self.rule.start is Start.SOURCE
        neighbours = graph.dag.parents if first else graph.dag.children
        keys: dict[int, ClusterKey] = {}
        for index in members if first else reversed(members):
            place = self._own_key(index)
            if place is None:
                reached = {
                    keys[other]: other
                    for other in neighbours[index]
                    if other in keys and self._agrees(index, keys[other])
                }
                if len(reached) > 1:
                    raise self._ambiguous_error(index, [*reached.values()])
                place = next(iter(reached), None)
            if place is None:
                raise self._missing_error(index)
            keys[index] = place
        return keys

    def _own_key(self, index: int) -> ClusterKey | None:
        """Key of a task by its own dimensions; ``None`` if it lacks one."""
        own = [self._value(index, names) for _, names in self._wanted]
        return None if None in own else tuple(value for value in own if value is not None)

    def _agrees(self, index: int, place: ClusterKey) -> bool:
        """Whether the dimensions that a task has agree with a key."""
        own = (self._value(index, names) for _, names in self._wanted)
        return all(value is None or value == there for value, there in zip(own, place, strict=True))

    def _value(self, index: int, names: tuple[str, ...]) -> Scalar | None:
        """Value of a dimension of a task, or of the first equal dimension that it has."""
        task = self._tasks[index]
        for name in names:
            value = task.data_id.get(name, task.implied.get(name))
            if value is not None:
                return self._alike.setdefault(str(value), value)
        return None

    def _missing_error(self, index: int) -> GraphError:
        task, rule = self._tasks[index], self.rule
        known = {**task.data_id, **task.implied}
        lacking = [name for name, names in self._wanted if not any(other in known for other in names)]
        named = " and ".join(f"'{name}'" for name in lacking)
        has = ", ".join(f"{name}: {value}" for name, value in known.items()) or "no dimensions"
        hint = "Take its label out of 'pipetasks', let 'equalDimensions' name a dimension that it has instead"
        hint += (
            f", or let a task that has them come {'before' if rule.start is Start.SOURCE else 'after'} it."
            if rule.start
            else ", or let 'findDependencyMethod' put it where those go that it depends on (source, or sink)."
        )
        return GraphError(
            f"the task '{task.name}' of '{task.label}' ({has}) lacks {named}, which the cluster '{rule.label}' needs",
            origin=rule.origin,
            hint=hint,
        )

    def _ambiguous_error(self, index: int, others: list[int]) -> GraphError:
        task, one, two = self._tasks[index], self._tasks[others[0]], self._tasks[others[1]]
        return GraphError(
            f"the task '{task.name}' of '{task.label}' would be in two clusters of '{self.rule.label}': with "
            f"'{one.name}' and with '{two.name}'",
            origin=self.rule.origin,
            hint=f"Take '{task.label}' out of 'pipetasks', or take out of 'dimensions' what tells these two apart.",
        )


def _refuse_same_names(drafts: Iterable[_ClusterDraft], settings: ClusteringSettings) -> None:
    origins = {rule.label: rule.origin for rule in settings.rules}
    seen: dict[str, _ClusterDraft] = {}
    for draft in drafts:
        if (other := seen.setdefault(draft.name, draft)) is not draft:
            raise GraphError(
                f"two clusters would be named '{draft.name}': of '{other.tasks[0].name}' and of "
                f"'{draft.tasks[0].name}'",
                origin=origins.get(draft.label) or origins.get(other.label),
                hint="Let 'clusterTemplate' name all dimensions of the cluster.",
            )


# Clusters chains of tasks: each task has one parent and one child in the chain.


def cluster_chains(graph: TaskGraph, settings: ClusteringSettings) -> ClusteredGraph:
    """Cluster each maximal chain of tasks.

    A cluster has the name of its first task; its label joins those of its tasks by ``-``.

    Raises `GraphError` if two tasks would have the same name.
    """
    parents, children = graph.dag.parents, graph.dag.children
    rows: list[list[int]] = []
    row_of = [0] * len(graph.dag)
    for index in graph.dag.order:
        before = parents[index]
        if len(before) == 1 and len(children[before[0]]) == 1:
            number = row_of[before[0]]
            rows[number].append(index)
        else:
            number = len(rows)
            rows.append([index])
        row_of[index] = number
    tasks = graph.dag.nodes
    names = task_job_names([tasks[row[0]] for row in rows], settings)
    clusters = [_cluster(name, tuple(tasks[index] for index in row)) for name, row in zip(names, rows, strict=True)]
    return make_cluster_graph(graph, clusters, row_of)


def _cluster(name: str, tasks: tuple[Task, ...]) -> Cluster:
    label = "-".join(dict.fromkeys(task.label for task in tasks))
    shared = {key: value for key, value in tasks[0].data_id.items() if all(_has(task, key, value) for task in tasks)}
    return Cluster(name=name, label=label, tags=tasks[0].data_id if len(tasks) == 1 else shared, tasks=tasks)


def _has(task: Task, key: str, value: object) -> bool:
    return key in task.data_id and task.data_id[key] == value


# Clusters short tasks of a label up to a target run time.


def cluster_by_run_time(graph: TaskGraph, settings: ClusteringSettings) -> ClusteredGraph:
    """Cluster tasks of one label and depth, in the order of the graph, up to the target; others stay single.

    Tasks of one depth never wait for each other, and so their clusters cannot. A task of unknown run time is a cluster
    of its own.

    Raises `GraphError` if two tasks would have the same name.
    """
    tasks = graph.dag.nodes
    depth = [0] * len(tasks)
    groups: dict[tuple[str, int], list[int]] = {}
    for index in graph.dag.order:
        depth[index] = max((depth[parent] + 1 for parent in graph.dag.parents[index]), default=0)
        groups.setdefault((tasks[index].label, depth[index]), []).append(index)
    packs = [pack for members in groups.values() for pack in _packs(members, graph, settings)]
    cluster_of = [0] * len(tasks)
    for number, pack in enumerate(packs):
        for index in pack:
            cluster_of[index] = number
    names = task_job_names([tasks[pack[0]] for pack in packs], settings)
    clusters = [
        Cluster(
            name=name,
            label=tasks[pack[0]].label,
            tags=tasks[pack[0]].data_id if len(pack) == 1 else {},
            tasks=tuple(tasks[index] for index in pack),
        )
        for name, pack in zip(names, packs, strict=True)
    ]
    return make_cluster_graph(graph, clusters, cluster_of)


def _packs(members: list[int], graph: TaskGraph, settings: ClusteringSettings) -> Iterator[list[int]]:
    """Split tasks into packs whose run times add up to the target at most."""
    pack: list[int] = []
    full_s = 0.0
    for index in members:
        run_s = settings.run_s(graph.dag.nodes[index])
        if run_s is None:
            yield [index]
            continue
        if pack and full_s + run_s > settings.target_s:
            yield pack
            pack, full_s = [], 0.0
        pack.append(index)
        full_s += run_s
    if pack:
        yield pack


# Stage `cluster`: groups tasks into jobs with the configured clustering algorithm.


_KEY: Final = "clusterAlgorithm"
_DEFAULT: Final = "single_quantum_clustering"
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
    name, short = _algorithm_names(configuration)
    built_in_algorithm = built_in_plugins(CLUSTERING).get(short)
    if static is not None and built_in_algorithm is None:
        try:
            find_algorithm(configuration)
        except CodeRefusedError:
            raise
        except ConfigError as error:
            # Without clusters, the jobs of single tasks are checked.
            origin = error.origin or Origin(str(configuration.path))
            static.findings.append(Finding(message=error.message, origin=origin, hint=error.hint, code=error.code))
            short = _DEFAULT
            built_in_algorithm = built_in_plugins(CLUSTERING)[short]
    with collection_paused():
        if built_in_algorithm is not None:
            algorithm: ClusteringAlgorithm = built_in_algorithm.load()
            clustered = algorithm(graph, _settings(configuration, graph, short))
        else:
            function = find_algorithm(configuration)
            if static is not None:
                raise LeftOutError(f"jobs, which '{name}' makes of tasks")
            settings = _settings(configuration, graph, name)
            clustered = call_function(configuration, _KEY, function, graph, settings, returns=ClusteredGraph)
    if built_in_algorithm is None or configuration.flag("validateClusteredQgraph"):
        check_clusters(clustered)
    return clustered


def _algorithm_names(configuration: Configuration) -> tuple[str, str]:
    """Return the name of the algorithm, and the short one of those that BPS has too."""
    name = configuration.text(_KEY).strip() or _DEFAULT
    return name, found[1] if (found := _BPS.fullmatch(name)) else name


def find_algorithm(configuration: Configuration) -> Callable[..., object]:
    """Return the clustering algorithm of a configuration; raises `ConfigError` if it cannot be imported."""
    _, short = _algorithm_names(configuration)
    if (plugin := built_in_plugins(CLUSTERING).get(short)) is not None:
        function: Callable[..., object] = plugin.load()
        return function
    return find_function(configuration, _KEY, group=CLUSTERING, what="clustering algorithm")


def _settings(configuration: Configuration, graph: TaskGraph, algorithm: str) -> ClusteringSettings:
    config = configuration.config
    kinds = {(*task.data_id, *task.implied) for task in graph.dag.nodes}
    dimensions = frozenset(name for names in kinds for name in names)
    names = dimensions | _names_of_quanta(configuration, graph)
    groups_tasks = algorithm != _DEFAULT
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
    if not hit.has_text:
        raise ConfigError(f"'{key}' must be text", origin=hit.origin)
    return str(Interpolator(configuration.config, scope).template(hit.text, hit.origin, name=key))


def _names_of_quanta(configuration: Configuration, graph: TaskGraph) -> frozenset[str]:
    """Return the names in ``templateDataId`` for a quantum graph: all are dimensions, as in BPS.

    A campaign's variable ``patch`` must not get into the names of jobs that have no patch.
    """
    hit = configuration.config.lookup("templateDataId", configuration.scope())
    if hit is None or not graph.dag.nodes[0].node_id:
        return frozenset()
    return Template(split_fields(hit.text)).names


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
