"""Which tasks and labels the sections ``cluster`` and ``ordering`` choose, as rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from longshore.config.interpolate import Interpolator, Scope
from longshore.config.merge import Node, plain_value
from longshore.config.quantities import parse_bool, parse_count
from longshore.config.search import Config
from longshore.contract.algorithms import ClusterRule, Partition, Start
from longshore.errors import ConfigError, Origin
from longshore.model.wording import did_you_mean, quote_value
from longshore.model.workflow import Implementation

# Reads the selectors of a section of ``cluster`` or ``ordering``: labels, dimensions, equal dimensions, start.


_Word = TypeVar("_Word", bound=StrEnum)


class Selection:
    """Selectors of one section.

    Parameters
    ----------
    name
        Its name, with that of its parent section: ``cluster.coadd``.
    nodes
        Its keys.
    values
        Interpolates variables.
    """

    def __init__(self, name: str, nodes: Mapping[str, Node], values: Interpolator) -> None:
        self.name = name
        self.nodes = nodes
        self._values = values

    def text(self, key: str) -> str:
        """The text of a key; empty where the key is missing."""
        node = self.nodes.get(key)
        if node is None or node.value is None:
            return ""
        if not node.has_text:
            raise ConfigError(f"{self.key(key)} must be text, not {quote_value(plain_value(node))}", origin=node.origin)
        return str(self._values.template(node.text, node.origin, name=key)).strip()

    def names(self, key: str) -> tuple[str, ...]:
        """The comma-separated names of a key, each once."""
        return tuple(dict.fromkeys(name for part in self.text(key).split(",") if (name := part.strip())))

    def equal(self) -> dict[str, tuple[str, ...]]:
        """The dimensions that replace another, from ``equalDimensions``."""
        equal: dict[str, tuple[str, ...]] = {}
        for pair in self.names("equalDimensions"):
            one, colon, other = (part.strip() for part in pair.partition(":"))
            if not (one and colon and other):
                raise ConfigError(
                    f"{self.key('equalDimensions')} has {quote_value(pair)}, which is no pair of dimensions",
                    origin=self.origin("equalDimensions"),
                    hint="Pairs are written as in 'visit:exposure, group:visit'.",
                )
            # Each may replace the other.
            equal[one] = (*equal.get(one, ()), other)
            equal[other] = (*equal.get(other, ()), one)
        return equal

    def start(self) -> Start | None:
        """The tasks or jobs that determine the groups of the others, from ``findDependencyMethod``."""
        return self.word("findDependencyMethod", Start)

    def word(self, key: str, words: type[_Word]) -> _Word | None:
        """The enum member of a key; ``None`` where the key is missing."""
        text = self.text(key)
        if not text:
            return None
        try:
            return words(text)
        except ValueError:
            choices = " or ".join(f"'{word}'" for word in words)
            raise ConfigError(
                f"{self.key(key)} must be {choices}, not {quote_value(text)}",
                origin=self.origin(key),
                hint=did_you_mean(text, [*words]),
            ) from None

    def origin(self, key: str) -> Origin:
        """Where the value of a key was written."""
        return self.nodes[key].origin

    def key(self, key: str) -> str:
        """The full key in quotes, as seen from the root."""
        return f"'{self.name}.{key}'"


# Reads the sections of ``cluster``, which say what tasks run together in one job, as rules for clustering.


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


# Reads the sections of ``ordering``, which order groups of jobs, as rules.


class Sorting(StrEnum):
    """How groups are sorted."""

    SORT = "sort"


class OrderingRule(msgspec.Struct, frozen=True, kw_only=True):
    """One section of ``ordering``.

    Attributes
    ----------
    name
        Its name.
    labels
        Labels of its jobs.
    dimensions
        Dimensions whose values define a group.
    equal
        Dimensions that replace another which a job lacks, in the order of preference.
    start
        Jobs that determine the groups of the others; ``None`` where each job determines its own.
    implementation
        How the ordering is implemented.
    blocking
        Whether a group with a failure blocks the groups after it.
    origin
        Where it was written.
    """

    name: str
    labels: tuple[str, ...]
    dimensions: tuple[str, ...]
    equal: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    start: Start | None = None
    implementation: Implementation = Implementation.GROUP
    blocking: bool = False
    origin: Origin


def parse_ordering_rules(config: Config, scope: Scope) -> tuple[OrderingRule, ...]:
    """Read the sections of ``ordering``, in the order in which they are written.

    Raises
    ------
    ConfigError
        A value is wrong or missing.
    """
    hit = config.lookup("ordering", scope)
    if hit is None or hit.value is None:
        return ()
    if hit.node is None or not isinstance(hit.node.value, dict):
        raise ConfigError("'ordering' must be a map of orders by their names", origin=hit.origin)
    return tuple(
        _read_rule(name, node, Interpolator(config, scope)) for name, node in hit.node.value.items() if node.value
    )


def _read_rule(name: str, node: Node, values: Interpolator) -> OrderingRule:
    if not isinstance(node.value, dict):
        raise ConfigError(f"'ordering.{name}' must be a map", origin=node.origin)
    section = Selection(f"ordering.{name}", node.value, values)
    section.word("ordering_type", Sorting)
    return OrderingRule(
        name=name,
        labels=_required_names(section, "labels", node.origin),
        dimensions=_required_names(section, "dimensions", node.origin),
        equal=section.equal(),
        start=section.start(),
        implementation=section.word("implementation", Implementation) or Implementation.GROUP,
        blocking=_is_blocking(section),
        origin=node.origin,
    )


def _required_names(section: Selection, key: str, origin: Origin) -> tuple[str, ...]:
    names = section.names(key)
    if not names:
        raise ConfigError(
            f"'{section.name}' says no {key}",
            origin=section.origin(key) if key in section.nodes else origin,
            hint=f"An order is made of labels and dimensions: {section.name}: {{labels: ..., dimensions: ...}}.",
        )
    return names


def _is_blocking(section: Selection) -> bool:
    node = section.nodes.get("blocking")
    if node is None or node.value is None:
        return False
    text = node.value if isinstance(node.value, bool) else section.text("blocking")
    return parse_bool(text, f"{section.name}.blocking", node.origin)
