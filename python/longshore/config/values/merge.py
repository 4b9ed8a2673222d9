"""Turns layers of configuration into one tree, in which every value knows where it was written and what it replaced."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import TypeAlias

import msgspec

from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.origin import Origin


class LayerRank(IntEnum):
    """Kinds of layers, weakest first."""

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
        """What `Origin.layer` says for values of such a layer."""
        return self.name.lower().replace("_", " ")


PACKAGED = frozenset({LayerRank.DEFAULTS.label, LayerRank.SERVICE.label})
"""Layers that no person wrote for this run or this machine."""


class Marker(Enum):
    """What can stand in place of a value."""

    DELETE = "!delete"


Scalar: TypeAlias = str | int | float | bool | None
Value: TypeAlias = "Scalar | Marker | list[Node] | dict[str, Node]"


class Node(msgspec.Struct, frozen=True, gc=False):
    """A value and its history. The lists and maps in it are never changed, and so may be shared.

    Attributes
    ----------
    value
        A scalar, a list, a map, or a marker.
    origin
        Where it was written.
    overrode
        The value it replaced, which may have replaced another.
    """

    value: Value
    origin: Origin
    overrode: Node | None = None


class Layer(msgspec.Struct, frozen=True):
    """One source of configuration.

    Attributes
    ----------
    name
        What people call it: mostly the path of its file.
    rank
        How strong it is.
    root
        Its values.
    """

    name: str
    rank: LayerRank
    root: Node


class LayerStack(msgspec.Struct, frozen=True):
    """Layers of configuration, merged per rank.

    A layer is merged once, when it is added. A weak layer can be added after a strong one: `root` lays the few trees of
    the ranks over each other.

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
        deletes = self.deletes or any(_deletes(layer.root) for layer in layers)
        return LayerStack((*self.layers, *layers), trees, deletes)

    def root(self) -> Node:
        """All layers as one tree: maps are merged, anything else is replaced, and the strongest rank wins."""
        merged = Node({}, Origin(""))
        for rank in sorted(self.trees):
            merged = overlay(merged, self.trees[rank])
        return without_deleted(merged) if self.deletes else merged


def merge(layers: Iterable[Layer]) -> Node:
    """All layers as one tree; see `LayerStack`."""
    return LayerStack().with_layers(*layers).root()


def merge_over(root: Node, layer: Layer) -> Node:
    """A merged tree with a layer over it that is stronger than all others."""
    merged = overlay(root, layer.root)
    return without_deleted(merged) if _deletes(layer.root) else merged


def overlay(base: Node, over: Node) -> Node:
    """One tree laid over another; keys to delete stay as markers, for a third tree may come.

    It is associative: how layers are grouped does not matter, only their order does.
    """
    if isinstance(base.value, dict) and isinstance(over.value, dict) and over.overrode is None:
        merged = dict(base.value)
        for key, node in over.value.items():
            below = merged.get(key)
            merged[key] = node if below is None else overlay(below, node)
        return Node(merged, over.origin, base.overrode)
    # What already replaced something has a history of its own, which begins with what lies below; a map that replaced a
    # scalar, or a deleted key, is whole and takes nothing from the map below that.
    return Node(over.value, over.origin, base if over.overrode is None else overlay(base, over.overrode))


def without_deleted(node: Node) -> Node:
    """The tree without the keys that are marked for deletion."""
    if not isinstance(node.value, dict):
        return node
    kept = {key: without_deleted(item) for key, item in node.value.items() if item.value is not Marker.DELETE}
    if len(kept) == len(node.value) and all(kept[key] is item for key, item in node.value.items()):
        return node
    return Node(kept, node.origin, node.overrode)


def _deletes(node: Node) -> bool:
    """Whether a key of the tree is marked for deletion."""
    if not isinstance(node.value, dict):
        return False
    return any(item.value is Marker.DELETE or _deletes(item) for item in node.value.values())


def plain(node: Node) -> YamlValue:
    """The value as ordinary maps, lists and scalars, which the caller may change; a deleted key has none."""
    if isinstance(node.value, dict):
        return plain_map(node)
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return None if isinstance(node.value, Marker) else node.value


def plain_map(node: Node | None) -> dict[str, YamlValue]:
    """The items of a map as ordinary values; none where there is no map."""
    items = node.value if node is not None else None
    return {key: plain(item) for key, item in items.items()} if isinstance(items, dict) else {}


def with_origin(node: Node, origin: Origin) -> Node:
    """The same values as if all of them were written in one place."""
    if isinstance(node.value, dict):
        return Node({key: with_origin(item, origin) for key, item in node.value.items()}, origin)
    if isinstance(node.value, list):
        return Node([with_origin(item, origin) for item in node.value], origin)
    return Node(node.value, origin)


def tree(value: object, origin: Origin) -> Node:
    """Ordinary maps, lists and scalars as a tree in which all have one origin; anything else becomes its text."""
    if isinstance(value, Mapping):
        return Node({str(key): tree(item, origin) for key, item in value.items()}, origin)
    if isinstance(value, list | tuple):
        return Node([tree(item, origin) for item in value], origin)
    if value is None or isinstance(value, str | int | float | Marker):
        return Node(value, origin)
    return Node(str(value), origin)


def layer_from_mapping(
    mapping: Mapping[str, object], name: str, rank: LayerRank, origin: Origin | None = None
) -> Layer:
    """A layer of values that stand in no file, such as options of a command.

    Parameters
    ----------
    mapping
        The values.
    name
        What people call their source; where no origin is given, it is the origin's file.
    rank
        How strong they are.
    origin
        Where they come from.
    """
    return Layer(name, rank, tree(mapping, origin or Origin(name, layer=rank.label)))
