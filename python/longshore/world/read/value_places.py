"""Finds the place in a YAML file of a value's key, or of a character of its text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import yaml

from longshore.errors import LongshoreError, Origin
from longshore.world.read.yaml_text import compose_nodes, key_places

_LINE_BREAK: Final = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""Line breaks of YAML 1.1."""


def locate_error(error: LongshoreError, text: str, file: str) -> None:
    """Move an error from values in a file of a given text to the parts that it is about."""
    error.details = tuple(
        msgspec.structs.replace(detail, origin=_part_origin(detail.origin, detail.part, text, file))
        for detail in error.details
    )
    error.origin = _part_origin(error.origin, error.part, text, file)


def _part_origin(origin: Origin | None, part: str | int | None, text: str, file: str) -> Origin | None:
    if origin is None or part is None or origin.file != file:
        return origin
    place = (
        key_places(text).get((origin.line, origin.column, part))
        if isinstance(part, str)
        else find_character(text, origin.line, origin.column, part)
    )
    return origin if place is None else msgspec.structs.replace(origin, line=place[0], column=place[1])


def find_character(text: str, line: int, column: int, index: int) -> tuple[int, int] | None:
    """Find the line and column of a character in the text of a value.

    `line` and `column` are those of the value in a valid document, and count from 1. Only texts on one line without
    escapes, and literal blocks have their characters where they can be found; ``None`` for others.
    """
    node = next(_scalars_at(text, line - 1, column - 1), None)
    if node is None or not 0 <= index < len(node.value):
        return None
    lines = _LINE_BREAK.split(text)
    if node.style == ">":
        return None
    if node.style != "|":
        start = lines[line - 1].find(node.value, column - 1)
        return None if start < 0 else (line, start + index + 1)
    number = node.value.count("\n", 0, index)
    in_line = index - (node.value.rfind("\n", 0, index) + 1)
    wanted = node.value.split("\n")[number]
    # The text of a block begins below its indicator.
    written = lines[line + number] if line + number < len(lines) else ""
    indent = len(written) - len(wanted)
    if indent < 0 or written != " " * indent + wanted:
        return None
    return line + number + 1, indent + in_line + 1


def _scalars_at(text: str, line: int, column: int) -> Iterator[yaml.ScalarNode]:
    for node in compose_nodes(text):
        if isinstance(node, yaml.ScalarNode) and (node.start_mark.line, node.start_mark.column) == (line, column):
            yield node
