"""Turns a configuration, and what was found out about its values, into text for people and JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml

from longshore.cli.show_json import SCHEMA_VERSION, error_document
from longshore.cli.words import visible
from longshore.config.explain import Explained, Kind, Replaced, Step
from longshore.config.merge import Node, plain
from longshore.origin import Origin

_WIDE: Final = 10**9


def config_text(root: Node, *, origins: bool) -> str:
    """Return the whole configuration as YAML, with the place of each value behind it if that is wanted."""
    return "\n".join(_yaml_lines(root, 0, origins=origins))


def _yaml_lines(node: Node, depth: int, *, origins: bool) -> Iterator[str]:
    for key, below in node.value.items() if isinstance(node.value, dict) else ():
        begin = f"{'  ' * depth}{_flow(key)}:"
        if isinstance(below.value, dict) and below.value:
            yield begin
            yield from _yaml_lines(below, depth + 1, origins=origins)
        else:
            place = f"  # {_place(below.origin)}" if origins else ""
            yield f"{begin} {_flow(plain(below))}{place}"


def _flow(value: Any) -> str:
    """A value in one line of YAML."""
    if isinstance(value, str) and any(ord(character) < 32 or ord(character) > 126 for character in value):
        # As YAML would fold it, it would take several lines; JSON's strings are YAML's double-quoted ones.
        return json.dumps(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, width=_WIDE, allow_unicode=False)
    return text.removesuffix("\n").removesuffix("\n...")


def config_document(root: Node, *, origins: bool) -> dict[str, Any]:
    """Return the whole configuration as ``config show --json`` gives it."""
    document = {"schema_version": SCHEMA_VERSION, "kind": "config_show", "values": _finite(plain(root))}
    if origins:
        document["origins"] = [{"path": list(path), "origin": _origin(origin)} for path, origin in _origins(root, ())]
    return document


def _origins(node: Node, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Origin]]:
    if isinstance(node.value, dict) and node.value:
        for key, below in node.value.items():
            yield from _origins(below, (*path, key))
    elif path:
        yield path, node.origin


def explain_document(values: Mapping[str, Explained]) -> dict[str, Any]:
    """Return what is known of some values as ``config explain --json`` gives it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "explain",
        "values": {key: _explained(value) for key, value in values.items()},
    }


def _explained(explained: Explained) -> dict[str, Any]:
    document = {
        "found": explained.found,
        "value": _finite(explained.value),
        "origin": _origin(explained.origin),
        "written": _finite(explained.written),
        "overrode": [_replaced(each) for each in explained.overrode],
        "hides": [_replaced(each) for each in explained.hides],
        "steps": [_step(each) for each in explained.steps],
    }
    return {**document, "error": error_document(explained.error)["error"]} if explained.error else document


def _replaced(replaced: Replaced) -> dict[str, Any]:
    document = {"value": _finite(replaced.value), "origin": _origin(replaced.origin)}
    return document if replaced.section is None else {**document, "section": replaced.section}


def _step(step: Step) -> dict[str, Any]:
    return {
        "kind": step.kind.value,
        "depth": step.depth,
        "name": step.name,
        "text": step.text,
        "origin": _origin(step.origin),
    }


def _origin(origin: Origin | None) -> dict[str, Any] | None:
    document: dict[str, Any] | None = msgspec.to_builtins(origin)
    return document


def _finite(value: Any) -> Any:
    """The value with what JSON has no number for as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): _finite(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_finite(below) for below in value]
    return value


def explain_text(values: Mapping[str, Explained]) -> str:
    """Return what is known of some values, each with its history below it."""
    return "\n".join("\n".join(_explained_lines(key, explained)) for key, explained in values.items())


def _explained_lines(key: str, explained: Explained) -> Iterator[str]:
    if not explained.found:
        yield f"{visible(key)}: not found"
        return
    if explained.error:
        place = f"{explained.error.origin}: " if explained.error.origin else ""
        yield f"{visible(key)}: cannot be worked out"
        yield visible(f"  error: {place}{explained.error.message}")
        if explained.error.hint:
            yield visible(f"    {explained.error.hint}")
    else:
        yield f"{visible(key)}: {_shown(explained.value)}"
    yield f"  from {_place(explained.origin)}"
    yield from _step_lines(explained.steps)
    for replaced in explained.overrode:
        yield f"  overrode {_shown(replaced.value)} from {_place(replaced.origin)}"
    for replaced in explained.hides:
        yield f"  hides {_shown(replaced.value)} in {visible(str(replaced.section))}, from {_place(replaced.origin)}"


def _step_lines(steps: Sequence[Step]) -> Iterator[str]:
    if len(steps) < 2 or (len(steps) == 2 and steps[0].text == steps[-1].text):
        return
    for step in steps:
        indent = "  " * (step.depth + 1)
        text = _shown(step.text)
        match step.kind:
            case Kind.WRITTEN:
                yield f"{indent}written {text}"
            case Kind.ENVIRONMENT:
                yield f"{indent}with the environment {text}"
            case Kind.VARIABLE:
                yield f"{indent}{{{visible(step.name)}}} is {text}, from {_place(step.origin)}"
            case Kind.UNDEFINED:
                yield f"{indent}{{{visible(step.name)}}} is defined nowhere: {text}"
            case Kind.VALUE:
                yield f"{indent}gives {text}"


def _shown(value: Any) -> str:
    return visible(_flow(value)) if not isinstance(value, str) else visible(json.dumps(value, ensure_ascii=False))


def _place(origin: Origin | None) -> str:
    if origin is None:
        return "a current value"
    layer = f" ({origin.layer})" if origin.layer else ""
    return visible(f"{origin}{layer}")
