"""Clusters tasks of some labels by the values of some dimensions."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from longshore.config.templates import Field, Template, split_fields
from longshore.contract.clustering import ClusteringSettings, ClusterRule, Start
from longshore.errors import GraphError
from longshore.model.tasks.cluster import Cluster, ClusteredGraph
from longshore.model.tasks.task import DataId, Scalar, Task, TaskGraph
from longshore.plan.clustering.by_task import task_job_names
from longshore.plan.clustering.cluster_graph import make_cluster_graph
from longshore.plan.clustering.partition import assign_parts

ClusterKey: TypeAlias = tuple[Scalar, ...]
"""Values of a rule's dimensions, then those that divide its clusters into parts."""

_UNDERSCORES = re.compile("__+")


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
                return value
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
