"""Reads keys that BPS's own guide misspells as the intended keys, and warns of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from longshore.config.lint.schema_check import Finding, Severity, key_of
from longshore.config.values.merge import PACKAGED, Node, overlay

_ROOT: Final = {"pipetasks": "pipetask"}
_RUN: Final = {"subdirTemplate": "subDirTemplate", "gqraphFile": "qgraphFile"}
_JOB: Final = {"concurrency_limit": "concurrencyLimit"}
"""The intended key per misspelling: at the root, of a run, of jobs."""

_RUNS: Final = ("payload", "bps_cmdline")
_JOBS: Final = ("finalJob", "customJob")
_LABELLED: Final = ("pipetask", "cluster", "site", "cloud")


def respelled(root: Node) -> Node:
    """One layer with the value of each misspelled key under the intended key too, unless that is set already.

    The misspelled key stays, because it may be a variable as well.
    """
    if not isinstance(root.value, dict):
        return root
    top = _with(root, _ROOT | _RUN | _JOB)
    values = dict(top.value) if isinstance(top.value, dict) else {}
    for name in (*_RUNS, *_JOBS):
        if name in values:
            values[name] = _with(values[name], _JOB | (_RUN if name in _RUNS else {}))
    for name in _LABELLED:
        section = values.get(name)
        if section is not None and isinstance(section.value, dict):
            below = {label: _with(part, _JOB) for label, part in section.value.items()}
            if any(below[label] is not part for label, part in section.value.items()):
                values[name] = Node(below, section.origin, section.overrode)
    return Node(values, root.origin, root.overrode)


def _with(node: Node, meant: Mapping[str, str]) -> Node:
    if not isinstance(node.value, dict) or not any(wrong in node.value for wrong in meant):
        return node
    values = dict(node.value)
    for wrong, right in meant.items():
        written = values.get(wrong)
        # `pipetasks` of a cluster is valid text; at the root only a map makes sense.
        if written is None or (wrong in _ROOT and not isinstance(written.value, dict)):
            continue
        values[right] = overlay(written, values[right]) if right in values else written
    return Node(values, node.origin, node.overrode)


def misspelt(root: Node) -> Iterator[Finding]:
    """Warn of each key that is read as another."""
    top = root.value if isinstance(root.value, dict) else {}
    yield from _found(root, _ROOT | _RUN | _JOB, ())
    for name in (*_RUNS, *_JOBS):
        if name in top:
            yield from _found(top[name], _JOB | (_RUN if name in _RUNS else {}), (name,))
    for name in _LABELLED:
        section = top.get(name)
        if section is not None and isinstance(section.value, dict):
            for label, part in section.value.items():
                yield from _found(part, _JOB, (name, label))


def _found(node: Node, meant: Mapping[str, str], place: tuple[str, ...]) -> Iterator[Finding]:
    if not isinstance(node.value, dict):
        return
    for wrong, right in meant.items():
        written = node.value.get(wrong)
        if written is None or written.origin.layer in PACKAGED:
            continue
        if wrong not in _ROOT or isinstance(written.value, dict):
            yield Finding(
                message=f"'{key_of((*place, wrong))}' is read as '{key_of((*place, right))}'",
                origin=written.origin,
                hint=f"Write '{right}': BPS itself does not know '{wrong}', though its guide has it.",
                severity=Severity.WARNING,
                path=(*place, wrong),
                at_key=True,
            )
