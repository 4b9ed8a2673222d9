"""Groups the jobs of ordering rules; the groups of a rule run one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

from longshore.config.select import OrderingRule
from longshore.contract.algorithms import Start
from longshore.contract.service import Problem
from longshore.errors import ConfigError, CycleError, PreparationError
from longshore.model.tasks import Cluster, Dag, DataId, Scalar
from longshore.model.wording import did_you_mean
from longshore.model.workflow import JobGroup, Ordering

_Key: TypeAlias = tuple[Scalar, ...]
_SortKey: TypeAlias = list[tuple[int, float, str]]


def unknown_label_notes(rules: Iterable[OrderingRule], labels: Iterable[str]) -> Iterator[Problem]:
    """Note per rule that names labels without jobs."""
    known = set(labels)
    for rule in rules:
        if missing := [label for label in rule.labels if label not in known]:
            words = ", ".join(f"'{label}'" for label in missing)
            nothing = "; it orders nothing" if len(missing) == len(rule.labels) else ""
            yield Problem(
                message=f"'ordering.{rule.name}.labels' names {words}, but no job has such a label{nothing}",
                origin=rule.origin,
                hint=did_you_mean(missing[0], known),
                fatal=False,
            )


def make_orderings(rules: Sequence[OrderingRule], dag: Dag[Cluster]) -> tuple[Ordering, ...]:
    """Groups of jobs per rule, in the order in which they run.

    Raises `ConfigError` if a label is in two rules, and `PreparationError` if a job lacks a dimension of its rule.
    """
    grouping = _Grouping(_rule_of(rules), dag)
    found = grouping.found()
    return tuple(_make_ordering(rule, found[rule.name], dag.nodes) for rule in rules if rule.name in found)


def _rule_of(rules: Iterable[OrderingRule]) -> dict[str, OrderingRule]:
    rule_of: dict[str, OrderingRule] = {}
    for rule in rules:
        for label in rule.labels:
            if (other := rule_of.setdefault(label, rule)) is not rule:
                raise ConfigError(
                    f"the label '{label}' is in the orders '{other.name}' and '{rule.name}'",
                    origin=rule.origin,
                    hint=f"A job is in one order; '{other.name}' is written at {other.origin}.",
                )
    return rule_of


class _Grouping:
    """Assigns each job to a group of its rule."""

    def __init__(self, rule_of: Mapping[str, OrderingRule], dag: Dag[Cluster]) -> None:
        self._dag = dag
        self._rules = [rule_of.get(cluster.label) for cluster in dag.nodes]
        self._keys: list[_Key | None] = [None] * len(dag)

    def found(self) -> dict[str, dict[_Key, list[int]]]:
        """Numbers of the jobs of each group, per rule."""
        order, dag = self._dag.order, self._dag
        for number in order:
            rule = self._rules[number]
            if rule is not None and rule.start is not Start.SINK:
                self._keys[number] = (
                    self._group_key(number, rule, dag.parents, max) if rule.start else _own_key(dag, number, rule)
                )
        for number in reversed(order):
            rule = self._rules[number]
            if rule is not None and rule.start is Start.SINK:
                self._keys[number] = self._group_key(number, rule, dag.children, min)
        found: dict[str, dict[_Key, list[int]]] = {}
        for number, (rule, key) in enumerate(zip(self._rules, self._keys, strict=True)):
            if rule is not None and key is not None:
                found.setdefault(rule.name, {}).setdefault(key, []).append(number)
        return found

    def _group_key(
        self, number: int, rule: OrderingRule, near: Sequence[Sequence[int]], choose: Callable[..., _Key]
    ) -> _Key:
        """Key of a job's group: that of its neighbours under the same rule, else its own values."""
        keys = [key for each in near[number] if self._rules[each] is rule and (key := self._keys[each]) is not None]
        # Of several the one that keeps it behind all it waits for, or before all that wait for it.
        return choose(keys, key=_sort_key) if keys else _own_key(self._dag, number, rule)


def _own_key(dag: Dag[Cluster], number: int, rule: OrderingRule) -> _Key:
    """Key of a job's group by its own values."""
    cluster = dag.nodes[number]
    try:
        return tuple([cluster.tags[name] for name in rule.dimensions])
    except KeyError:
        return _equal_key(cluster, rule)


def _equal_key(cluster: Cluster, rule: OrderingRule) -> _Key:
    """Values of a job that lacks a dimension, by equal dimensions and those of its task."""
    values: DataId = cluster.tags
    if len(cluster.tasks) == 1:
        task = cluster.tasks[0]
        values = {**task.implied, **task.data_id, **values}
    key: list[Scalar] = []
    missing: list[str] = []
    for name in rule.dimensions:
        there = next((each for each in (name, *rule.equal.get(name, ())) if each in values), None)
        if there is None:
            missing.append(name)
        else:
            key.append(values[there])
    if missing:
        raise _missing_dimension_error(cluster, rule, missing, values)
    return tuple(key)


def _missing_dimension_error(
    cluster: Cluster, rule: OrderingRule, missing: Sequence[str], values: DataId
) -> PreparationError:
    words = ", ".join(f"'{name}'" for name in missing)
    has = ", ".join(f"{name}: {value}" for name, value in values.items()) or "no dimension at all"
    return PreparationError(
        f"the job '{cluster.name}' of '{cluster.label}' ({has}) lacks {words}, which the order '{rule.name}' needs",
        origin=rule.origin,
        hint="Take the label or the dimension out, name another that stands for it by 'equalDimensions', or let "
        "'findDependencyMethod' put the job where those are that it hangs on.",
    )


def _sort_key(key: _Key) -> _SortKey:
    """Sort key of a group: numbers first, in numeric order."""
    return [(0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value)) for value in key]


def _make_ordering(rule: OrderingRule, found: Mapping[_Key, list[int]], clusters: Sequence[Cluster]) -> Ordering:
    ordered = sorted(((_sort_key(key), key) for key in found), key=itemgetter(0))
    return Ordering(
        name=rule.name,
        dimensions=rule.dimensions,
        implementation=rule.implementation,
        blocking=rule.blocking,
        groups=tuple(
            JobGroup(key=key, jobs=tuple(clusters[number].name for number in found[key])) for _, key in ordered
        ),
    )


def barrier_names(orderings: Iterable[Ordering]) -> dict[str, str]:
    """Name of the ordering per name of a barrier."""
    return {ordering.node_name(group): ordering.name for ordering in orderings for group in ordering.groups}


def explain_ring(error: CycleError, rules: Iterable[OrderingRule], nodes: Mapping[str, str]) -> CycleError:
    """Error for a cycle with barriers in it, with the rules at fault and a way out; `nodes` maps barriers to rules."""
    names = dict.fromkeys(nodes[name] for name in error.ring if name in nodes)
    involved = [rule for rule in rules if rule.name in names]
    if not involved:
        return error
    words = ", ".join(f"'{rule.name}'" for rule in involved)
    return CycleError(
        error.ring,
        origin=involved[0].origin,
        hint=f"The jobs themselves allow no such order as {words} wants: one of an earlier group needs one of a later "
        "group. Leave a label or a dimension out, or use 'findDependencyMethod'.",
    )
