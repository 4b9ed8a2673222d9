"""Reads keys that BPS's own guide misspells as the intended keys, and warns of them; accepts other spellings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from longshore.config.lint.schema_check import Finding, Severity, key_name
from longshore.config.values.merge import PACKAGED_LAYERS, Node, map_items, overlay
from longshore.config.values.search import LABEL_SECTIONS

_JOB_ALIASES: Final = {"concurrency_limit": "concurrencyLimit"}
_RUN_ALIASES: Final = {"subdirTemplate": "subDirTemplate", "gqraphFile": "qgraphFile"} | _JOB_ALIASES
_ROOT_ALIASES: Final = {"pipetasks": "pipetask"} | _RUN_ALIASES
"""The intended key per misspelling: of jobs, of a run, at the root."""

_SECTION_ALIASES: Final[Mapping[str, Mapping[str, str]]] = {
    "payload": _RUN_ALIASES,
    "bps_cmdline": _RUN_ALIASES,
    "finalJob": _JOB_ALIASES,
    "customJob": _JOB_ALIASES,
}


_SPELLINGS: Final[Mapping[str, Mapping[str, str]]] = {"finalJob": {"command": "command1"}}
"""Further spellings of keys, per section: as right as the intended key, so nothing warns of them."""


def add_intended_keys(root: Node) -> Node:
    """One layer with the value of each misspelled key under the intended key too, unless that is set already.

    Other accepted spellings are treated alike. The key as written stays, because it may be a variable as well.
    """
    if not isinstance(root.value, dict):
        return root
    values = dict(map_items(_add_keys(root, _ROOT_ALIASES)))
    for aliases_by_section in (_SECTION_ALIASES, _SPELLINGS):
        for name, aliases in aliases_by_section.items():
            if name in values:
                values[name] = _add_keys(values[name], aliases)
    for name in LABEL_SECTIONS:
        parts = map_items(values.get(name))
        corrected = {label: _add_keys(part, _JOB_ALIASES) for label, part in parts.items()}
        if any(corrected[label] is not part for label, part in parts.items()):
            values[name] = Node(corrected, values[name].origin, values[name].replaced_node)
    return Node(values, root.origin, root.replaced_node)


def _add_keys(node: Node, aliases: Mapping[str, str]) -> Node:
    found = list(_misspelled(node, aliases))
    if not found:
        return node
    values = dict(map_items(node))
    for _, intended, written in found:
        values[intended] = overlay(written, values[intended]) if intended in values else written
    return Node(values, node.origin, node.replaced_node)


def _misspelled(node: Node, aliases: Mapping[str, str]) -> Iterator[tuple[str, str, Node]]:
    """Each misspelled key of a map, the intended key, and the value."""
    items = map_items(node)
    for key, intended in aliases.items():
        # `pipetasks` of a cluster is valid text; at the root only a map makes sense.
        if (written := items.get(key)) is not None and (key != "pipetasks" or isinstance(written.value, dict)):
            yield key, intended, written


def find_misspelled_keys(root: Node) -> Iterator[Finding]:
    """Warn of each key that is read as another."""
    top = map_items(root)
    maps: list[tuple[tuple[str, ...], Node, Mapping[str, str]]] = [((), root, _ROOT_ALIASES)]
    maps += [((name,), top[name], aliases) for name, aliases in _SECTION_ALIASES.items() if name in top]
    for name in LABEL_SECTIONS:
        maps += [((name, label), part, _JOB_ALIASES) for label, part in map_items(top.get(name)).items()]
    for path, node, aliases in maps:
        for key, intended, written in _misspelled(node, aliases):
            if written.origin.layer not in PACKAGED_LAYERS:
                yield Finding(
                    message=f"'{key_name((*path, key))}' is read as '{key_name((*path, intended))}'",
                    origin=written.origin,
                    hint=f"Write '{intended}': BPS itself does not know '{key}', though its guide has it.",
                    severity=Severity.WARNING,
                    path=(*path, key),
                    at_key=True,
                )
