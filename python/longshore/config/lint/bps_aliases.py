"""Reads keys that BPS's own guide misspells as the intended keys, and warns of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from longshore.config.lint.schema_check import Finding, Severity, key_name
from longshore.config.values.merge import PACKAGED_LAYERS, Node, overlay

_ROOT_ALIASES: Final = {"pipetasks": "pipetask"}
_RUN_ALIASES: Final = {"subdirTemplate": "subDirTemplate", "gqraphFile": "qgraphFile"}
_JOB_ALIASES: Final = {"concurrency_limit": "concurrencyLimit"}
"""The intended key per misspelling: at the root, of a run, of jobs."""

_RUN_SECTIONS: Final = ("payload", "bps_cmdline")
_JOB_SECTIONS: Final = ("finalJob", "customJob")
_LABEL_SECTIONS: Final = ("pipetask", "cluster", "site", "cloud")


def add_intended_keys(root: Node) -> Node:
    """One layer with the value of each misspelled key under the intended key too, unless that is set already.

    The misspelled key stays, because it may be a variable as well.
    """
    if not isinstance(root.value, dict):
        return root
    top = _add_keys(root, _ROOT_ALIASES | _RUN_ALIASES | _JOB_ALIASES)
    values = dict(top.value) if isinstance(top.value, dict) else {}
    for name in (*_RUN_SECTIONS, *_JOB_SECTIONS):
        if name in values:
            values[name] = _add_keys(values[name], _JOB_ALIASES | (_RUN_ALIASES if name in _RUN_SECTIONS else {}))
    for name in _LABEL_SECTIONS:
        section = values.get(name)
        if section is not None and isinstance(section.value, dict):
            below = {label: _add_keys(part, _JOB_ALIASES) for label, part in section.value.items()}
            if any(below[label] is not part for label, part in section.value.items()):
                values[name] = Node(below, section.origin, section.replaced_node)
    return Node(values, root.origin, root.replaced_node)


def _add_keys(node: Node, meant: Mapping[str, str]) -> Node:
    if not isinstance(node.value, dict) or not any(wrong in node.value for wrong in meant):
        return node
    values = dict(node.value)
    for wrong, right in meant.items():
        written = values.get(wrong)
        # `pipetasks` of a cluster is valid text; at the root only a map makes sense.
        if written is None or (wrong in _ROOT_ALIASES and not isinstance(written.value, dict)):
            continue
        values[right] = overlay(written, values[right]) if right in values else written
    return Node(values, node.origin, node.replaced_node)


def find_misspelled_keys(root: Node) -> Iterator[Finding]:
    """Warn of each key that is read as another."""
    top = root.value if isinstance(root.value, dict) else {}
    yield from _find_in_section(root, _ROOT_ALIASES | _RUN_ALIASES | _JOB_ALIASES, ())
    for name in (*_RUN_SECTIONS, *_JOB_SECTIONS):
        if name in top:
            yield from _find_in_section(
                top[name], _JOB_ALIASES | (_RUN_ALIASES if name in _RUN_SECTIONS else {}), (name,)
            )
    for name in _LABEL_SECTIONS:
        section = top.get(name)
        if section is not None and isinstance(section.value, dict):
            for label, part in section.value.items():
                yield from _find_in_section(part, _JOB_ALIASES, (name, label))


def _find_in_section(node: Node, meant: Mapping[str, str], place: tuple[str, ...]) -> Iterator[Finding]:
    if not isinstance(node.value, dict):
        return
    for wrong, right in meant.items():
        written = node.value.get(wrong)
        if written is None or written.origin.layer in PACKAGED_LAYERS:
            continue
        if wrong not in _ROOT_ALIASES or isinstance(written.value, dict):
            yield Finding(
                message=f"'{key_name((*place, wrong))}' is read as '{key_name((*place, right))}'",
                origin=written.origin,
                hint=f"Write '{right}': BPS itself does not know '{wrong}', though its guide has it.",
                severity=Severity.WARNING,
                path=(*place, wrong),
                at_key=True,
            )
