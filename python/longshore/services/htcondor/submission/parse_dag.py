"""Parses the text of a DAG into nodes, edges and submit descriptions, and finds what DAGMan would reject.

``condor_submit_dag`` accepts a DAG that names a missing node; DAGMan then ends as soon as it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

_VARS: Final = re.compile(r'(My\.|\+)?(\w+)="((?:[^"\\]|\\.)*)"(?:\s+|$)', re.ASCII)
_AFTER: Final = re.compile(r"after\d+")
"""Variables that name the nodes a barrier's gate waits for, in place of edges."""
_PLACED: Final = frozenset({"PREPEND", "APPEND"})
_OTHERS: Final = frozenset(
    ("CONFIG", "CONNECT", "DOT", "ENV", "INCLUDE", "JOBSTATE_LOG", "MAXJOBS", "NODE_STATUS_FILE", "PIN_IN", "PIN_OUT")
) | {"SET_JOB_ATTR"}
_OF_NODES: Final = frozenset({"ABORT-DAG-ON", "CATEGORY", "DONE", "PRE_SKIP", "PRIORITY", "RETRY", "SAVE_POINT_FILE"})
_ALL: Final = "ALL_NODES"


class DagFault(msgspec.Struct, frozen=True):
    """One error of a DAG."""

    line: int
    """Number of the line, from 1; 0 for the DAG as a whole."""
    message: str


class Description(msgspec.Struct, kw_only=True):
    """A submit description, and the longest values of the variables that nodes give it."""

    line: int
    """Number of its first line."""
    text: str = ""
    worst: dict[str, str] = msgspec.field(default_factory=dict)
    """Per variable, the value that is longest when quoted."""
    appended: dict[str, str] = msgspec.field(default_factory=dict)
    """The same for variables that nodes append to the description, which override it."""
    nodes: int = 0
    """Number of nodes that use it."""


class ParsedDag(msgspec.Struct, kw_only=True):
    """The content of a DAG."""

    nodes: dict[str, str] = msgspec.field(default_factory=dict)
    """Name of the submit description per node."""
    final: str | None = None
    """Name of the final node."""
    parents: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Names of the parents per node."""
    descriptions: dict[str, Description] = msgspec.field(default_factory=dict)
    faults: list[DagFault] = msgspec.field(default_factory=list)
    """Errors, in the order of the lines."""


def parse_dag(lines: Iterable[str]) -> ParsedDag:
    """Parse the lines of a DAG; the caller expands included files."""
    found = ParsedDag()
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        words = line.split(None, 2)
        if not words or words[0].startswith("#"):
            continue
        command = words[0].upper()
        if command == "SUBMIT-DESCRIPTION":
            _read_description(found, number, words, numbered)
        else:
            _read_line(found, number, command, line)
    found.faults += _of_whole(found)
    return found


def _read_description(found: ParsedDag, number: int, words: list[str], rest: Iterator[tuple[int, str]]) -> None:
    name = words[1] if len(words) > 1 else ""
    if name in found.descriptions:
        found.faults.append(DagFault(number, f"there are two descriptions '{name}'"))
    text: list[str] = []
    for _, line in rest:
        if line.strip() == "}":
            found.descriptions[name] = Description(line=number, text="".join(text))
            return
        text.append(f"{line.strip()}\n")
    found.faults.append(DagFault(number, f"the description '{name}' has no end"))


def _read_line(found: ParsedDag, number: int, command: str, line: str) -> None:
    words = line.split()
    if command in {"JOB", "FINAL", "SERVICE", "PROVISIONER"}:
        _read_node(found, number, command, words)
    elif command == "PARENT":
        _read_edges(found, number, words)
    elif command == "VARS":
        _read_vars(found, number, line)
    elif command in _OF_NODES:
        _known(found, number, words[1:2])
    elif command == "SCRIPT":
        _known(found, number, words[2:3])
    elif command in {"SPLICE", "SUBDAG"}:
        # Added by hand: only DAGMan reads its file.
        found.nodes.update(dict.fromkeys(words[1:2] if command == "SPLICE" else words[2:3], ""))
    elif command == "REJECT":
        found.faults.append(DagFault(number, "'REJECT' says that DAGMan is to refuse the DAG"))
    elif command not in _OTHERS:
        found.faults.append(DagFault(number, f"'{words[0]}' is no command of a DAG"))


def _read_node(found: ParsedDag, number: int, command: str, words: list[str]) -> None:
    name, description = (*words[1:3], "", "")[:2]
    if not description:
        found.faults.append(DagFault(number, f"the node '{name}' has no description"))
    if name in found.nodes:
        found.faults.append(DagFault(number, f"there are two nodes '{name}'"))
    if command == "FINAL":
        if found.final:
            found.faults.append(DagFault(number, f"'{name}' is a second final node, beside '{found.final}'"))
        found.final = name
    found.nodes[name] = description
    if description in found.descriptions:
        found.descriptions[description].nodes += 1


def _read_edges(found: ParsedDag, number: int, words: list[str]) -> None:
    try:
        middle = [word.upper() for word in words].index("CHILD")
    except ValueError:
        middle = len(words)
    before, after = words[1:middle], words[middle + 1 :]
    if not before or not after:
        found.faults.append(DagFault(number, "an edge has no parent, or no child"))
    _known(found, number, [*before, *after])
    if found.final in {*before, *after}:
        found.faults.append(DagFault(number, f"the final node '{found.final}' is in an edge"))
    for child in after:
        found.parents.setdefault(child, []).extend(before)


def _read_vars(found: ParsedDag, number: int, line: str) -> None:
    _, _, rest = line.strip().partition(" ")
    node, _, rest = rest.partition(" ")
    _known(found, number, [node])
    place = next((word for word in _PLACED if rest.startswith(f"{word} ")), "")
    rest = rest[len(place) :].strip()
    of_all = node.upper() == _ALL
    described = [found.descriptions.get(found.nodes.get(node, ""))] if not of_all else found.descriptions.values()
    given = [each.appended if place == "APPEND" else each.worst for each in described if each is not None]
    position = 0
    while position < len(rest):
        got = _VARS.match(rest, position)
        if got is None:
            found.faults.append(
                DagFault(number, f"the variables of '{node}' cannot be read from: {rest[position:][:60]}")
            )
            return
        value = re.sub(r"\\(.)", r"\1", got[3])
        if _AFTER.fullmatch(got[2]):
            _known(found, number, value.split())
            found.parents.setdefault(node, []).extend(value.split())
        for values in given:
            name = f"{got[1] or ''}{got[2]}"
            if name not in values or _weight(value) > _weight(values[name]):
                values[name] = value
        position = got.end()


def _weight(value: str) -> tuple[int, int]:
    """Rank of a value by its risk: number of special characters, then length."""
    return sum(map(value.count, "'\"\\$")), len(value)


def _known(found: ParsedDag, number: int, names: Iterable[str]) -> None:
    # A node of a splice is named ``SPLICE+NODE``.
    missing = [name for name in names if name.partition("+")[0] not in found.nodes and name.upper() != _ALL]
    found.faults += [DagFault(number, f"there is no node '{name}'") for name in missing]


def _of_whole(found: ParsedDag) -> Iterator[DagFault]:
    for name, description in found.nodes.items():
        if description and description not in found.descriptions:
            yield DagFault(0, f"the node '{name}' has the description '{description}', which is not there")
    for child, parents in found.parents.items():
        if len(set(parents)) < len(parents):
            twice = next(parent for parent in parents if parents.count(parent) > 1)
            yield DagFault(0, f"the edge from '{twice}' to '{child}' is there twice")
    if ring := _in_ring(found):
        yield DagFault(0, f"the nodes {', '.join(ring[:5])} wait for each other in a ring, or for such a ring")


def _in_ring(found: ParsedDag) -> list[str]:
    """Nodes of a cycle, or behind one."""
    waits = {child: set(parents) for child, parents in found.parents.items()}
    children: dict[str, list[str]] = {}
    for child, parents in waits.items():
        for parent in parents:
            children.setdefault(parent, []).append(child)
    left = {child: len(parents) for child, parents in waits.items()}
    ready = [name for name in found.nodes if name not in left]
    while ready:
        for child in children.get(ready.pop(), ()):
            left[child] -= 1
            if not left[child]:
                ready.append(child)
    return [f"'{name}'" for name, count in left.items() if count and name in found.nodes]
