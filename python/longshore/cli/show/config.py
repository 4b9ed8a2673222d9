"""Formats a configuration, and explanations of its values, as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from longshore.cli.show.format import escape_controls
from longshore.config.explain import InterpolationStep, KeyExplanation, StepKind
from longshore.config.merge import Node, plain_value
from longshore.errors import Origin

_NO_WRAP: Final = 10**9


def config_text(root: Node, *, origins: bool) -> str:
    """Format the whole configuration as YAML, with the origin of each value if `origins` is set."""
    return "\n".join(_yaml_lines(root, 0, origins=origins))


def _yaml_lines(node: Node, depth: int, *, origins: bool) -> Iterator[str]:
    for key, child in node.value.items() if isinstance(node.value, dict) else ():
        start = f"{'  ' * depth}{_yaml_value(key)}:"
        if isinstance(child.value, dict) and child.value:
            yield start
            yield from _yaml_lines(child, depth + 1, origins=origins)
        else:
            place = f"  # {_origin_text(child.origin)}" if origins else ""
            yield f"{start} {_yaml_value(plain_value(child))}{place}"


def _yaml_value(value: Any) -> str:
    """A value in one line of YAML."""
    if isinstance(value, str) and any(ord(character) < 32 or ord(character) > 126 for character in value):
        # YAML would fold it over several lines; a JSON string is a double-quoted YAML string on one line.
        return json.dumps(value)
    text: str = yaml.safe_dump(value, default_flow_style=True, width=_NO_WRAP, allow_unicode=False)
    return text.removesuffix("\n").removesuffix("\n...")


def explain_text(values: Mapping[str, KeyExplanation]) -> str:
    """Format explained values, each with its history below it."""
    return "\n".join("\n".join(_explained_lines(key, explained)) for key, explained in values.items())


def _explained_lines(key: str, explained: KeyExplanation) -> Iterator[str]:
    if not explained.is_found and explained.error is None:
        default = f"; by default {_value_text(explained.default)}" if explained.default is not None else ""
        yield f"{escape_controls(key)}: not set{default}"
        return
    if explained.error:
        place = f"{explained.error.origin}: " if explained.error.origin else ""
        yield f"{escape_controls(key)}: {'cannot be worked out' if explained.is_found else 'not found'}"
        yield escape_controls(f"  error: {place}{explained.error.message}")
        if explained.error.hint:
            yield escape_controls(f"    {explained.error.hint}")
        if not explained.is_found:
            return
    else:
        yield f"{escape_controls(key)}: {_value_text(explained.value)}"
    yield f"  from {_origin_text(explained.origin)}"
    yield from _step_lines(explained.steps)
    for overridden in explained.overridden_values:
        yield f"  overrode {_value_text(overridden.value)} from {_origin_text(overridden.origin)}"
    for overridden in explained.hidden_values:
        section = escape_controls(str(overridden.section))
        yield f"  hides {_value_text(overridden.value)} in {section}, from {_origin_text(overridden.origin)}"


def _step_lines(steps: Sequence[InterpolationStep]) -> Iterator[str]:
    if len(steps) < 2 or (len(steps) == 2 and steps[0].text == steps[-1].text):
        return
    for step in steps:
        indent = "  " * (step.depth + 1)
        text = _value_text(step.text)
        match step.kind:
            case StepKind.WRITTEN:
                yield f"{indent}written {text}"
            case StepKind.ENVIRONMENT:
                yield f"{indent}with the environment {text}"
            case StepKind.VARIABLE:
                yield f"{indent}{{{escape_controls(step.name)}}} is {text}, from {_origin_text(step.origin)}"
            case StepKind.UNDEFINED:
                yield f"{indent}{{{escape_controls(step.name)}}} is defined nowhere: {text}"
            case StepKind.VALUE:
                yield f"{indent}gives {text}"


def _value_text(value: Any) -> str:
    return (
        escape_controls(_yaml_value(value))
        if not isinstance(value, str)
        else escape_controls(json.dumps(value, ensure_ascii=False))
    )


def _origin_text(origin: Origin | None) -> str:
    if origin is None:
        return "a current value"
    layer = f" ({origin.layer})" if origin.layer else ""
    return escape_controls(f"{origin}{layer}")
