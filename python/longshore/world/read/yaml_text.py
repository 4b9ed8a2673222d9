"""YAML parser: one document's text becomes a tree of values with lines and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Final, TypeAlias

import msgspec
import yaml

from longshore.config.merge import LayerRank, Marker, Node, YamlScalar
from longshore.config.schema import Finding
from longshore.config.yaml11 import check_comment, check_key_signs, check_signs, check_unquoted_word
from longshore.errors import ConfigError, Origin
from longshore.model.wording import quote_value
from longshore.world.read.yaml_errors import LINE_END, explain_syntax_error

try:
    from yaml import CSafeLoader as _SafeLoader
except ImportError:  # pragma: no cover - PyYAML without libyaml reads the same, only slower
    from yaml import SafeLoader as _SafeLoader  # type: ignore[assignment]

MAX_DEPTH: Final = 100
_TOO_DEEP: Final = f"values are nested more than {MAX_DEPTH} deep"
MAX_NODES: Final = 500_000
"""Maximum of values in a document with aliases expanded: nine lines of aliases can expand to billions."""

_TAG: Final = "tag:yaml.org,2002:"
_TRUE: Final = frozenset({"yes", "true", "on"})
_BOOLEAN = re.compile(r"yes|no|true|false|on|off", re.IGNORECASE)
_INTEGER = re.compile(r"[-+]?(0b[01]+|0x[0-9a-f]+|[0-9]+)", re.IGNORECASE)
_SPECIAL_FLOATS: Final = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}


class SizedTree(msgspec.Struct, frozen=True, gc=False):
    """A tree, its number of values (each alias counts as its expansion), and its depth."""

    node: Node
    size: int = 1
    height: int = 0


Include: TypeAlias = Callable[[Node, int], SizedTree]
"""Resolves ``!include``: takes the node with the file's name and the nesting depth."""


def refuse_include(name: Node, _depth: int) -> SizedTree:
    """Refuse every ``!include``."""
    raise ConfigError("'!include' can only be used in a file", origin=name.origin)


def read_document(
    text: str,
    name: str,
    layer: str = "",
    *,
    include: Include = refuse_include,
    depth: int = 0,
    notes: list[Finding] | None = None,
) -> SizedTree:
    """Parse a document into a tree; an empty one becomes null.

    `name` and `layer` go into origins and errors. `depth` is the document's own nesting depth in others. `notes`
    collects warnings about the text, and duplicate keys, whose last value then counts; without `notes` a duplicate key
    is an error.

    Raises `ConfigError` when the text is no YAML, has a duplicate key or an unknown tag, or is too deep or too large.
    """
    place = Origin(name, 1, 1, layer)
    try:
        top = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, place) from error
    except yaml.reader.ReaderError as error:
        raise _character_error(error, text, place) from error
    except UnicodeEncodeError as error:
        raise ConfigError("the text is not Unicode", origin=place, hint="Write it in UTF-8.") from error
    except _LimitError as error:
        mark = error.mark
        raise ConfigError(str(error), origin=Origin(name, mark.line + 1, mark.column + 1, layer)) from error
    if top is None:
        return SizedTree(Node(None, place))
    return _TreeBuilder(name, layer, include, notes, text).build(top, depth)


KeyPlaces: TypeAlias = dict[tuple[int, int, str], tuple[int, int]]
"""Line and column of a key, by line and column of its value and its own name; all count from 1."""


def key_places(text: str) -> KeyPlaces:
    """Find the position of each key in a valid document; anchors, tags and comments may separate it from its value."""
    places: KeyPlaces = {}
    for node in compose_nodes(text):
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if isinstance(key, yaml.ScalarNode):
                mark = value.start_mark
                place = (key.start_mark.line + 1, key.start_mark.column + 1)
                places.setdefault((mark.line + 1, mark.column + 1, key.value), place)
    return places


def compose_nodes(text: str) -> Iterator[yaml.Node]:
    """Compose a valid document, and yield each of its values once, with its marks; keys are left out."""
    seen: set[int] = set()
    stack = [yaml.compose(text, Loader=_Loader)]
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node, yaml.SequenceNode):
            stack += node.value
        elif isinstance(node, yaml.MappingNode):
            stack += [value for _, value in node.value]


class _LimitError(Exception):
    """The document is deeper or larger than allowed."""

    def __init__(self, message: str, mark: yaml.Mark) -> None:
        super().__init__(message)
        self.mark = mark


class _Loader(_SafeLoader):
    """Loader that limits size and depth; PyYAML's composer is recursive and has no limit."""

    depth = 0
    count = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: object) -> None:
        self.depth += 1
        self.count += 1
        if current_node is not None and self.depth > MAX_DEPTH:
            raise _LimitError(_TOO_DEEP, current_node.start_mark)
        if current_node is not None and self.count > MAX_NODES:
            raise _LimitError(f"there are more than {MAX_NODES:,} values", current_node.start_mark)

    def ascend_resolver(self) -> None:
        self.depth -= 1


class _TreeBuilder:
    """Converts PyYAML's nodes to ours."""

    def __init__(self, name: str, layer: str, include: Include, notes: list[Finding] | None, text: str) -> None:
        self.name = name
        self.layer = layer
        self.include = include
        self.notes = notes
        self.text = text
        self._lines: list[str] | None = None
        self._built: dict[int, SizedTree] = {}
        self._open: set[int] = set()

    def origin(self, node: yaml.Node) -> Origin:
        """Return the position of a node."""
        return Origin(self.name, node.start_mark.line + 1, node.start_mark.column + 1, self.layer)

    def build(self, node: yaml.Node, depth: int, key: str = "") -> SizedTree:
        """Build the tree of a node; items of a list have the key of the list."""
        if node.tag == "!include":
            name = Node(node.value if isinstance(node, yaml.ScalarNode) else None, self.origin(node))
            # An included file counts as a level even when it adds none, which bounds chains of includes.
            return self._check_depth(self.include(name, depth + 1), node, depth)
        if isinstance(node, yaml.ScalarNode):
            value = self._parse_scalar(node)
            if self.notes is not None:
                self._note_traps(node, value, key)
            return SizedTree(Node(value, self.origin(node), written=node.value if isinstance(value, bool) else ""))
        # PyYAML reuses the node for each alias: it is built once, but counted at each use.
        if id(node) in self._built:
            return self._check_depth(self._built[id(node)], node, depth)
        if id(node) in self._open:
            raise ConfigError("an alias stands for something that it is a part of", origin=self.origin(node))
        self._check_depth(SizedTree(Node(None, self.origin(node))), node, depth)
        self._open.add(id(node))
        built = (
            self._build_map(node, depth) if isinstance(node, yaml.MappingNode) else self._build_list(node, depth, key)
        )
        if built.size > MAX_NODES:
            raise ConfigError(f"aliases make more than {MAX_NODES:,} values of this", origin=self.origin(node))
        self._open.remove(id(node))
        self._built[id(node)] = built
        return built

    def _check_depth(self, built: SizedTree, node: yaml.Node, depth: int) -> SizedTree:
        if depth + built.height > MAX_DEPTH:
            raise ConfigError(_TOO_DEEP, origin=self.origin(node))
        return built

    def _note_traps(self, node: yaml.ScalarNode, value: object, key: str) -> None:
        """Note what surprises in a scalar."""
        assert self.notes is not None
        traps = [check_signs(node.value, key, quoted=bool(node.style))]
        if not node.style:
            traps += [check_unquoted_word(node.value, value), check_comment(key, self._behind(node.end_mark))]
        self.notes += [msgspec.structs.replace(trap, origin=self.origin(node)) for trap in traps if trap]

    def _behind(self, mark: yaml.Mark) -> str:
        """Return the rest of a line."""
        if self._lines is None:
            self._lines = LINE_END.split(self.text)
        return self._lines[mark.line][mark.column :] if mark.line < len(self._lines) else ""

    def _build_list(self, node: yaml.Node, depth: int, key: str) -> SizedTree:
        if node.tag != f"{_TAG}seq":
            raise self._unknown_tag(node)
        items = [self.build(item, depth + 1, key) for item in node.value]
        for item in items:
            if item.node.value is Marker.DELETE:
                raise ConfigError("'!delete' can only be the value of a key", origin=item.node.origin)
        return _make_collection(Node([item.node for item in items], self.origin(node)), items)

    def _build_map(self, node: yaml.Node, depth: int) -> SizedTree:
        if node.tag != f"{_TAG}map":
            raise self._unknown_tag(node)
        entries: dict[str, SizedTree] = {}
        first: dict[str, yaml.Node] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError("a key must be text, not a list or map", origin=self.origin(key))
            # Keys are the text as written: `no: 1` and `010: 1` have the keys 'no' and '010'.
            name = key.value
            if not key.style:
                message, hint = check_key_signs(name)
                if message:
                    raise ConfigError(message, origin=self.origin(key), hint=hint)
            if name in first:
                self._report_duplicate_key(key, first[name])
            first[name] = key
            entries[name] = self.build(value, depth + 1, name)
        items = self._merge_maps(merged, entries, depth) if merged else entries
        return _make_collection(
            Node({name: item.node for name, item in items.items()}, self.origin(node)), items.values()
        )

    def _report_duplicate_key(self, key: yaml.Node, first: yaml.Node) -> None:
        message = f"the key {quote_value(key.value)} is given twice"
        hint = f"It was given first at {self.origin(first)}; remove one of the two."
        if self.notes is None:
            raise ConfigError(message, origin=self.origin(key), hint=hint)
        self.notes.append(Finding(message=message, origin=self.origin(key), hint=hint))

    def _merge_maps(self, sources: list[yaml.Node], entries: dict[str, SizedTree], depth: int) -> dict[str, SizedTree]:
        """Merge the maps listed under ``<<``; among several maps, the first wins."""
        merged_entries: dict[str, SizedTree] = {}
        for source in reversed(sources):
            built = self.build(source, depth + 1)
            if not isinstance(built.node.value, dict):
                raise ConfigError("'<<' can only take in maps", origin=self.origin(source))
            # Size and depth of the parts of an alias are not kept; those of the whole are a safe upper bound.
            merged_entries |= {
                name: SizedTree(item, built.size, built.height) for name, item in built.node.value.items()
            }
        return merged_entries | entries

    def _parse_scalar(self, node: yaml.ScalarNode) -> YamlScalar | Marker:
        text: str = node.value
        if "\0" in text:
            raise ConfigError(
                "the text has the null character, which no path, command or variable can have",
                origin=self.origin(node),
            )
        kind = node.tag.removeprefix(_TAG)
        try:
            match kind:
                case "str" | "timestamp" | "value" | "merge":
                    return text
                case "null":
                    return None
                case "bool" if _BOOLEAN.fullmatch(text):
                    return text.lower() in _TRUE
                case "int":
                    return _parse_integer(text)
                case "float":
                    return _parse_float(text)
                case "!delete":
                    return Marker.DELETE
        except ValueError:
            pass
        if kind in {"bool", "int", "float"}:
            raise ConfigError(f"{quote_value(text)} cannot be read as '{kind}'", origin=self.origin(node))
        raise self._unknown_tag(node)

    def _unknown_tag(self, node: yaml.Node) -> ConfigError:
        tag = node.tag.replace(_TAG, "!!", 1)
        return ConfigError(
            f"the tag {quote_value(tag)} is not known here",
            origin=self.origin(node),
            hint="Known are '!include FILE' and, as the value of a key, '!delete'.",
        )


def _make_collection(node: Node, items: Collection[SizedTree]) -> SizedTree:
    """Make a list or map with the size and depth of its items."""
    height = 1 + max((item.height for item in items), default=0)
    return SizedTree(node, 1 + sum(item.size for item in items), height)


def _parse_integer(text: str) -> int | str:
    """Parse an integer by YAML 1.1, except that ``12:30:45`` stays the time it means, not 45045."""
    digits = text.replace("_", "")
    if ":" in digits:
        return text
    if not _INTEGER.fullmatch(digits):
        raise ValueError(text)
    unsigned = digits.lstrip("+-").lower()
    if unsigned.startswith(("0b", "0x")):
        number = int(unsigned, 0)
    else:
        number = int(unsigned, 8 if unsigned.startswith("0") else 10)
    return -number if digits.startswith("-") else number


def _parse_float(text: str) -> float | str:
    """Parse a number by YAML 1.1, except that ``1:30.5`` stays text."""
    digits = text.replace("_", "").lower()
    return text if ":" in digits else float(_SPECIAL_FLOATS.get(digits, digits))


def _syntax_error(error: yaml.MarkedYAMLError, text: str, place: Origin) -> ConfigError:
    found = explain_syntax_error(error, text)
    origin = Origin(place.file, found.line + 1, found.column + 1, place.layer)
    if "maximum nesting depth" in (error.problem or ""):
        # libyaml 0.2.6 has a limit of its own, which is above ours, and meets it before a node is made.
        return ConfigError(_TOO_DEEP, origin=origin)
    return ConfigError(f"this is not YAML: {found.message}", origin=origin, hint=found.hint)


def _character_error(error: yaml.reader.ReaderError, text: str, place: Origin) -> ConfigError:
    # libyaml counts bytes, and the pure reader characters.
    before = text.encode()[: error.position].decode(errors="replace")
    column = len(before) - (before.rfind("\n") + 1) + 1
    code = error.character if isinstance(error.character, int) else ord(error.character[:1] or "\0")
    origin = Origin(place.file, before.count("\n") + 1, column, place.layer)
    if code == 0:
        return ConfigError("this is not text: it has the character NUL", origin=origin, hint="Delete it.")
    return ConfigError(
        f"this is not text: {error.reason[:100]} (character {code:#x})", origin=origin, hint="Delete the character."
    )


def parse_yaml(text: str, name: str, *, rank: LayerRank = LayerRank.FILE) -> Node:
    """Parse a text as YAML; an empty one becomes null. Raises `ConfigError` when it is no YAML."""
    return read_document(text, name, rank.label).node
