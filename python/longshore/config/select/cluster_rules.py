"""Reads the sections of ``cluster``, which say what tasks run together in one job, as rules for clustering."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from longshore.config.select.selection import Selection
from longshore.config.values.interpolate import Interpolator
from longshore.config.values.quantities import parse_count
from longshore.config.values.scope import Scope
from longshore.config.values.search import Config
from longshore.contract.clustering import ClusterRule, Partition
from longshore.errors import ConfigError

_SECTION: Final = "cluster"


def parse_cluster_rules(config: Config, scope: Scope, dimensions: frozenset[str]) -> tuple[ClusterRule, ...]:
    """Read the sections of ``cluster`` that select tasks, in the order in which they are written.

    Parameters
    ----------
    config
        The merged configuration.
    scope
        Parameters of the searches.
    dimensions
        Names of all dimensions of the tasks; in a ``clusterTemplate`` they stand for the values of a cluster.

    Raises
    ------
    ConfigError
        A value is wrong, or two sections name one label.
    """
    section = config.node_at(_SECTION)
    parts = section.value if section is not None and isinstance(section.value, dict) else {}
    rules: list[ClusterRule] = []
    rule_by_task: dict[str, ClusterRule] = {}
    for label, node in parts.items():
        if not isinstance(node.value, dict) or "pipetasks" not in node.value:
            continue
        cluster_scope = replace(scope, current={**scope.current, "curr_cluster": label}, free=dimensions | {"label"})
        rule = _Section(f"{_SECTION}.{label}", node.value, Interpolator(config, cluster_scope)).rule(label)
        for task in rule.tasks:
            if (other := rule_by_task.setdefault(task, rule)) is not rule:
                raise ConfigError(
                    f"the label '{task}' is in the clusters '{other.label}' and '{label}'",
                    origin=rule.origin,
                    hint=f"A task runs in one job; '{other.label}' names it at {other.origin}.",
                )
        rules.append(rule)
    return tuple(rules)


class _Section(Selection):
    """One section of ``cluster``."""

    def rule(self, label: str) -> ClusterRule:
        """The rule of this section."""
        return ClusterRule(
            label=label,
            tasks=self.names("pipetasks"),
            dimensions=self.names("dimensions"),
            equal=self.equal(),
            template=self.text("clusterTemplate"),
            start=self.start(),
            partition=self._partition(),
            origin=self.nodes["pipetasks"].origin,
        )

    def _partition(self) -> Partition | None:
        dimensions = self.names("partitionDimensions")
        if not dimensions:
            return None
        limits = [*self._limits()]
        if len(limits) != 1:
            reason = "nothing says into how many parts" if not limits else "two keys say into how many parts"
            raise ConfigError(
                f"{self.key('partitionDimensions')} cuts clusters into parts, and {reason}",
                origin=self.nodes["partitionDimensions"].origin,
                hint="Give either 'partitionMaxClusters' or 'partitionMaxSize'.",
            )
        ((key, limit),) = limits
        if key == "partitionMaxSize":
            return Partition(dimensions=dimensions, most_values=limit)
        return Partition(dimensions=dimensions, most_clusters=limit)

    def _limits(self) -> Iterator[tuple[str, int]]:
        for key in ("partitionMaxClusters", "partitionMaxSize"):
            if text := self.text(key):
                yield key, parse_count(text, f"{self.name}.{key}", self.nodes[key].origin, least=1)
