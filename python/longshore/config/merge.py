"""Merges configuration layers into one tree, in which each value knows its origin and the value it replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import TypeAlias, cast

import msgspec

from longshore.errors import ConfigError, Origin
from longshore.model.values import YamlValue


class LayerRank(IntEnum):
    """Precedence of configuration layers, weakest first."""

    DEFAULTS = 0
    SERVICE = 1
    SYSTEM = 2
    USER = 3
    SITE = 4
    ENVIRONMENT = 5
    FILE = 6
    COMMAND_LINE = 7

    @property
    def label(self) -> str:
        """`Origin.layer` of values from such a layer."""
        return self.name.lower().replace("_", " ")


PACKAGED_LAYERS = frozenset({LayerRank.DEFAULTS.label, LayerRank.SERVICE.label})
"""Layers shipped with packages, not written for this run or this machine."""
DEFAULT_LAYERS = PACKAGED_LAYERS | {LayerRank.SITE.label}
"""Layers with values that no person chose for this run."""
RUN_LAYERS = frozenset({LayerRank.FILE.label, LayerRank.COMMAND_LINE.label})
"""Layers that are written for one run."""


COMPUTED_LAYERS = frozenset({"computed", "bps_defined", "run directory", "backendOptions", "--site-path"})
"""`Layer.name` of values that no person wrote as configuration, such as the name of a file: their texts are data."""


class Marker(Enum):
    """Markers that can replace a value in a tree."""

    DELETE = "!delete"


YamlScalar: TypeAlias = str | int | float | bool | None
NodeValue: TypeAlias = "YamlScalar | Marker | list[Node] | dict[str, Node]"


class Node(msgspec.Struct, frozen=True, gc=False):
    """A value and its history. Its lists and maps are never changed, and so may be shared.

    Attributes
    ----------
    value
        A scalar, a list, a map, or a marker.
    origin
        Where it was written.
    replaced_node
        The value it replaced, which may have replaced another.
    written
        The text of an unquoted number or truth value, where Python would write the value otherwise: ``1.10``, ``007``,
        ``yes``. Empty for other values, and in a run of BPS, which knows values alone.
    """

    value: NodeValue
    origin: Origin
    replaced_node: Node | None = None
    written: str = ""

    @property
    def text(self) -> str:
        """The text of a scalar, for all that asks for no type: as written, or as Python writes the value."""
        return self.written or str(self.value)

    @property
    def has_text(self) -> bool:
        """Whether it is a scalar with a text: no list, no map, not null, and no truth value that only BPS names."""
        return isinstance(self.value, str | int | float) and (bool(self.written) or not isinstance(self.value, bool))

    @property
    def as_written(self) -> YamlValue:
        """The value of a scalar; its text if that is another one, as ``1.10`` and ``no`` are, but ``true`` is not."""
        if not self.written or (isinstance(self.value, bool) and self.written.lower() in {"true", "false"}):
            return None if isinstance(self.value, Marker) else cast("YamlValue", self.value)
        return self.written


class Layer(msgspec.Struct, frozen=True):
    """One source of configuration.

    Attributes
    ----------
    name
        Name for people: mostly the path of its file.
    rank
        Its precedence.
    root
        Its values.
    """

    name: str
    rank: LayerRank
    root: Node


class LayerStack(msgspec.Struct, frozen=True):
    """Configuration layers, merged per rank.

    Each layer is merged once, when it is added. A weak layer can be added after a strong one: `root` overlays the few
    trees of the ranks.

    Attributes
    ----------
    layers
        In the order in which they were added.
    trees
        Merged values per rank. Keys to delete are still marked.
    deletes
        Whether any key is marked for deletion.
    """

    layers: tuple[Layer, ...] = ()
    trees: Mapping[LayerRank, Node] = {}
    deletes: bool = False

    def with_layers(self, *layers: Layer) -> LayerStack:
        """The stack with more layers; among layers of one rank the last wins.

        Raises
        ------
        ConfigError
            The top of a layer is not a map.
        """
        trees = dict(self.trees)
        for layer in layers:
            if not isinstance(layer.root.value, dict):
                raise ConfigError(f"'{layer.name}' must hold keys with values", origin=layer.root.origin)
            below = trees.get(layer.rank)
            trees[layer.rank] = layer.root if below is None else overlay(below, layer.root)
        deletes = self.deletes or any(_has_deletions(layer.root) for layer in layers)
        return LayerStack((*self.layers, *layers), trees, deletes)

    def root(self) -> Node:
        """Merge all layers into one tree: maps are merged, other values replaced; the strongest rank wins."""
        merged = Node({}, Origin(""))
        for rank in sorted(self.trees):
            merged = overlay(merged, self.trees[rank])
        return drop_deleted_keys(merged) if self.deletes else merged


def merge_layers(layers: Iterable[Layer]) -> Node:
    """Merge layers into one tree; see `LayerStack`."""
    return LayerStack().with_layers(*layers).root()


def merge_over(root: Node, layer: Layer) -> Node:
    """Merge a layer over a merged tree; the layer is stronger than the whole tree."""
    merged = overlay(root, layer.root)
    return drop_deleted_keys(merged) if _has_deletions(layer.root) else merged


def overlay(base: Node, over: Node) -> Node:
    """Overlay one tree on another; keys to delete stay as markers, because a third tree may follow.

    The operation is associative: only the order of layers matters, not their grouping.
    """
    if isinstance(base.value, dict) and isinstance(over.value, dict) and over.replaced_node is None:
        merged = dict(base.value)
        for key, node in over.value.items():
            below = merged.get(key)
            merged[key] = node if below is None else overlay(below, node)
        return Node(merged, over.origin, base.replaced_node)
    # A value that replaced another has a history, to which the base is prepended; a map that replaced a scalar or a
    # deleted key takes nothing from a map below.
    replaced = base if over.replaced_node is None else overlay(base, over.replaced_node)
    return Node(over.value, over.origin, replaced, over.written)


def drop_deleted_keys(node: Node) -> Node:
    """The tree without the keys that are marked for deletion."""
    if not isinstance(node.value, dict):
        return node
    items = {key: drop_deleted_keys(item) for key, item in node.value.items() if item.value is not Marker.DELETE}
    if len(items) == len(node.value) and all(items[key] is item for key, item in node.value.items()):
        return node
    return Node(items, node.origin, node.replaced_node)


def drop_paths(node: Node, paths: Iterable[tuple[str, ...]]) -> Node:
    """Return a tree without the values at these paths; steps into a list are indices, and other items stay."""
    below: dict[str, list[tuple[str, ...]]] = {}
    for step, *rest in filter(None, paths):
        below.setdefault(step, []).append(tuple(rest))
    gone = {step for step, rests in below.items() if () in rests}
    if isinstance(node.value, dict):
        kept = {key: drop_paths(item, below.get(key, ())) for key, item in node.value.items() if key not in gone}
        return msgspec.structs.replace(node, value=kept)
    if isinstance(node.value, list):
        items = [(str(index), item) for index, item in enumerate(node.value)]
        left = [drop_paths(item, below.get(index, ())) for index, item in items if index not in gone]
        return msgspec.structs.replace(node, value=left)
    return node


def _has_deletions(node: Node) -> bool:
    """Whether a key of the tree is marked for deletion."""
    return any(item.value is Marker.DELETE or _has_deletions(item) for item in map_items(node).values())


def plain_value(node: Node) -> YamlValue:
    """The value as ordinary maps, lists and scalars, which the caller may change; deleted keys are left out."""
    if isinstance(node.value, dict):
        return plain_map(node)
    if isinstance(node.value, list):
        return [plain_value(item) for item in node.value]
    return None if isinstance(node.value, Marker) else node.value


def written_value(node: Node) -> YamlValue:
    """The value as `plain_value` gives it, but with the texts of scalars that were written in another way."""
    if isinstance(node.value, dict):
        return {key: written_value(item) for key, item in node.value.items()}
    if isinstance(node.value, list):
        return [written_value(item) for item in node.value]
    return node.as_written


def map_items(node: Node | None) -> Mapping[str, Node]:
    """The items of a map; empty where the node is missing or no map."""
    return node.value if node is not None and isinstance(node.value, dict) else {}


def plain_map(node: Node | None) -> dict[str, YamlValue]:
    """The items of a map as ordinary values; empty where the node is missing or no map."""
    return {key: plain_value(item) for key, item in map_items(node).items()}


def with_origin(node: Node, origin: Origin) -> Node:
    """Copy of the tree in which all values have one origin."""
    if isinstance(node.value, dict):
        return Node({key: with_origin(item, origin) for key, item in node.value.items()}, origin)
    if isinstance(node.value, list):
        return Node([with_origin(item, origin) for item in node.value], origin)
    return Node(node.value, origin, written=node.written)


def to_node(value: object, origin: Origin) -> Node:
    """Convert ordinary maps, lists and scalars to a tree with one origin; anything else becomes its text."""
    if isinstance(value, Mapping):
        return Node({str(key): to_node(item, origin) for key, item in value.items()}, origin)
    if isinstance(value, list | tuple):
        return Node([to_node(item, origin) for item in value], origin)
    if value is None or isinstance(value, str | int | float | Marker):
        return Node(value, origin)
    return Node(str(value), origin)


def make_layer(mapping: Mapping[str, object], name: str, rank: LayerRank, origin: Origin | None = None) -> Layer:
    """Make a layer of values that are in no file, such as options of a command.

    Without an `origin`, `name` is the file of the origin.
    """
    return Layer(name, rank, to_node(mapping, origin or Origin(name, layer=rank.label)))


def nest(node: Node, section: Iterable[str]) -> Node:
    """Nest a value in the maps that lead to its section."""
    for key in reversed(list(section)):
        node = Node({key: node}, node.origin)
    return node
