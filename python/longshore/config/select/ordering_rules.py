"""Reads the sections of ``ordering``, which order groups of jobs, as rules."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from longshore.config.select.selection import Selection
from longshore.config.values.interpolate import Interpolator
from longshore.config.values.merge import Node
from longshore.config.values.quantities import parse_bool
from longshore.config.values.scope import Scope
from longshore.config.values.search import Config
from longshore.contract.clustering import Start
from longshore.errors import ConfigError
from longshore.model.workflow.job_groups import Implementation
from longshore.origin import Origin


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
