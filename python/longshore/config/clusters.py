"""Reads which tasks run together: the sections of ``cluster`` that name tasks, as rules for what packs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from longshore.config.interpolate import shown
from longshore.config.merge import Node, plain
from longshore.config.search import Config, Expander, Scope, did_you_mean
from longshore.config.settings import count
from longshore.contract.clustering import ClusterRule, Partition, Start
from longshore.errors import ConfigError

_SECTION: Final = "cluster"


def cluster_rules(
    config: Config, *, current: Mapping[str, Any], env: Mapping[str, str], dimensions: frozenset[str]
) -> tuple[ClusterRule, ...]:
    """The sections of ``cluster`` that say which tasks run together, in the order in which they are written.

    Parameters
    ----------
    config
        The merged configuration.
    current
        BPS's current values.
    env
        Environment variables.
    dimensions
        Names of all dimensions that tasks have; in a ``clusterTemplate`` they stand for the values of a cluster.

    Raises
    ------
    ConfigError
        A value is wrong, or two sections name one label.
    """
    section = config.at(_SECTION)
    parts = section.value if section is not None and isinstance(section.value, dict) else {}
    rules: list[ClusterRule] = []
    taken: dict[str, ClusterRule] = {}
    for label, node in parts.items():
        if not isinstance(node.value, dict) or "pipetasks" not in node.value:
            continue
        scope = Scope(current={**current, "curr_cluster": label}, env=env, free=dimensions | {"label"})
        rule = _Section(label, node.value, Expander(config, scope)).rule()
        for task in rule.tasks:
            if (other := taken.setdefault(task, rule)) is not rule:
                raise ConfigError(
                    f"the label '{task}' is in the clusters '{other.label}' and '{label}'",
                    origin=rule.origin,
                    hint=f"A task runs in one job; '{other.label}' names it at {other.origin}.",
                )
        rules.append(rule)
    return tuple(rules)


class _Section:
    """One section of ``cluster``.

    Parameters
    ----------
    label
        Its name.
    nodes
        What it holds.
    values
        Fills in variables.
    """

    def __init__(self, label: str, nodes: Mapping[str, Node], values: Expander) -> None:
        self._label = label
        self._nodes = nodes
        self._values = values

    def rule(self) -> ClusterRule:
        """What it says."""
        return ClusterRule(
            label=self._label,
            tasks=self._names("pipetasks"),
            dimensions=self._names("dimensions"),
            equal=self._equal(),
            template=self._text("clusterTemplate"),
            start=self._start(),
            partition=self._partition(),
            origin=self._nodes["pipetasks"].origin,
        )

    def _text(self, key: str) -> str:
        node = self._nodes.get(key)
        if node is None or node.value is None:
            return ""
        if isinstance(node.value, list | dict | bool):
            raise ConfigError(f"{self._key(key)} must be text, not {shown(plain(node))}", origin=node.origin)
        return str(self._values.template(str(node.value), node.origin, name=key)).strip()

    def _names(self, key: str) -> tuple[str, ...]:
        names = dict.fromkeys(name for part in self._text(key).split(",") if (name := part.strip()))
        return tuple(names)

    def _equal(self) -> dict[str, tuple[str, ...]]:
        equal: dict[str, tuple[str, ...]] = {}
        for pair in self._names("equalDimensions"):
            one, colon, other = (part.strip() for part in pair.partition(":"))
            if not (one and colon and other):
                raise ConfigError(
                    f"{self._key('equalDimensions')} has {shown(pair)}, which is no pair of dimensions",
                    origin=self._nodes["equalDimensions"].origin,
                    hint="Pairs are written as in 'visit:exposure, group:visit'.",
                )
            # Either may stand for the other.
            equal[one] = (*equal.get(one, ()), other)
            equal[other] = (*equal.get(other, ()), one)
        return equal

    def _start(self) -> Start | None:
        word = self._text("findDependencyMethod")
        if not word:
            return None
        try:
            return Start(word)
        except ValueError:
            raise ConfigError(
                f"{self._key('findDependencyMethod')} must be 'source' or 'sink', not {shown(word)}",
                origin=self._nodes["findDependencyMethod"].origin,
                hint=did_you_mean(word, [*Start]),
            ) from None

    def _partition(self) -> Partition | None:
        dimensions = self._names("partitionDimensions")
        if not dimensions:
            return None
        given = [*self._limits()]
        if len(given) != 1:
            why = "nothing says into how many parts" if not given else "two keys say into how many parts"
            raise ConfigError(
                f"{self._key('partitionDimensions')} cuts clusters into parts, and {why}",
                origin=self._nodes["partitionDimensions"].origin,
                hint="Give either 'partitionMaxClusters' or 'partitionMaxSize'.",
            )
        ((key, most),) = given
        if key == "partitionMaxSize":
            return Partition(dimensions=dimensions, most_values=most)
        return Partition(dimensions=dimensions, most_clusters=most)

    def _limits(self) -> Iterator[tuple[str, int]]:
        for key in ("partitionMaxClusters", "partitionMaxSize"):
            if text := self._text(key):
                yield key, count(text, f"{_SECTION}.{self._label}.{key}", self._nodes[key].origin, least=1)

    def _key(self, key: str) -> str:
        return f"'{_SECTION}.{self._label}.{key}'"
