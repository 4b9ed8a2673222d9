"""Validates a DAG before submission: parses it, and checks its submit descriptions with HTCondor's own parser."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from longshore.errors import SubmissionRefusedError
from longshore.services.htcondor.schedd.client import CondorClient

# ``condor_submit_dag`` accepts a DAG that names a missing node; DAGMan then ends as soon as it starts.


_VARS: Final = re.compile(r'(My\.|\+)?(\w+)="((?:[^"\\]|\\.)*)"(?:\s+|$)', re.ASCII)
_ESCAPED: Final = re.compile(r"\\(.)")
_AFTER: Final = re.compile(r"after\d+")
"""Variables that name the nodes a barrier's gate waits for, in place of edges."""
_VARS_MODES: Final = frozenset({"PREPEND", "APPEND"})
_OTHER_COMMANDS: Final = frozenset(
    ("CONFIG", "CONNECT", "DOT", "ENV", "INCLUDE", "JOBSTATE_LOG", "MAXJOBS", "NODE_STATUS_FILE", "PIN_IN", "PIN_OUT")
) | {"SET_JOB_ATTR"}
_NODE_COMMANDS: Final = frozenset(
    {"ABORT-DAG-ON", "CATEGORY", "DONE", "PRE_SKIP", "PRIORITY", "RETRY", "SAVE_POINT_FILE"}
)
_ALL_NODES: Final = "ALL_NODES"


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
    longest_values: dict[str, str] = msgspec.field(default_factory=dict)
    """Per variable, the value that is longest when quoted."""
    appended_values: dict[str, str] = msgspec.field(default_factory=dict)
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
    dag = ParsedDag()
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        words = line.split(None, 2)
        if not words or words[0].startswith("#"):
            continue
        command = words[0].upper()
        if command == "SUBMIT-DESCRIPTION":
            _read_description(dag, number, words, numbered)
        else:
            _read_line(dag, number, command, line)
    dag.faults += _graph_faults(dag)
    return dag


def _read_description(dag: ParsedDag, number: int, words: list[str], rest: Iterator[tuple[int, str]]) -> None:
    name = words[1] if len(words) > 1 else ""
    if name in dag.descriptions:
        dag.faults.append(DagFault(number, f"there are two descriptions '{name}'"))
    text: list[str] = []
    for _, line in rest:
        if line.strip() == "}":
            dag.descriptions[name] = Description(line=number, text="".join(text))
            return
        text.append(f"{line.strip()}\n")
    dag.faults.append(DagFault(number, f"the description '{name}' has no end"))


def _read_line(dag: ParsedDag, number: int, command: str, line: str) -> None:
    if command == "VARS":
        _read_vars(dag, number, line)
        return
    words = line.split()
    if command in {"JOB", "FINAL", "SERVICE", "PROVISIONER"}:
        _read_node(dag, number, command, words)
    elif command == "PARENT":
        _read_edges(dag, number, words)
    elif command in _NODE_COMMANDS:
        _check_nodes(dag, number, words[1:2])
    elif command == "SCRIPT":
        _check_nodes(dag, number, words[2:3])
    elif command in {"SPLICE", "SUBDAG"}:
        # Added by hand: only DAGMan reads its file.
        dag.nodes.update(dict.fromkeys(words[1:2] if command == "SPLICE" else words[2:3], ""))
    elif command == "REJECT":
        dag.faults.append(DagFault(number, "'REJECT' makes DAGMan refuse the DAG"))
    elif command not in _OTHER_COMMANDS:
        dag.faults.append(DagFault(number, f"'{words[0]}' is no command of a DAG"))


def _read_node(dag: ParsedDag, number: int, command: str, words: list[str]) -> None:
    name, description = (*words[1:3], "", "")[:2]
    if not description:
        dag.faults.append(DagFault(number, f"the node '{name}' has no description"))
    if name in dag.nodes:
        dag.faults.append(DagFault(number, f"there are two nodes '{name}'"))
    if command == "FINAL":
        if dag.final:
            dag.faults.append(DagFault(number, f"'{name}' is a second final node, beside '{dag.final}'"))
        dag.final = name
    dag.nodes[name] = description
    if description in dag.descriptions:
        dag.descriptions[description].nodes += 1


def _read_edges(dag: ParsedDag, number: int, words: list[str]) -> None:
    try:
        child_at = [word.upper() for word in words].index("CHILD")
    except ValueError:
        child_at = len(words)
    parents, children = words[1:child_at], words[child_at + 1 :]
    if not parents or not children:
        dag.faults.append(DagFault(number, "an edge has no parent, or no child"))
    _check_nodes(dag, number, [*parents, *children])
    if dag.final in {*parents, *children}:
        dag.faults.append(DagFault(number, f"the final node '{dag.final}' is in an edge"))
    for child in children:
        dag.parents.setdefault(child, []).extend(parents)


def _read_vars(dag: ParsedDag, number: int, line: str) -> None:
    _, _, rest = line.strip().partition(" ")
    node, _, rest = rest.partition(" ")
    _check_nodes(dag, number, [node])
    mode = next((word for word in _VARS_MODES if rest.startswith(f"{word} ")), "")
    rest = rest[len(mode) :].strip()
    of_all = node.upper() == _ALL_NODES
    descriptions = [dag.descriptions.get(dag.nodes.get(node, ""))] if not of_all else dag.descriptions.values()
    value_maps = [
        each.appended_values if mode == "APPEND" else each.longest_values for each in descriptions if each is not None
    ]
    position = 0
    while position < len(rest):
        assignment = _VARS.match(rest, position)
        if assignment is None:
            dag.faults.append(
                DagFault(number, f"the variables of '{node}' cannot be read from: {rest[position:][:60]}")
            )
            return
        value = assignment[3]
        if "\\" in value:
            value = _ESCAPED.sub(r"\1", value)
        name = f"{assignment[1] or ''}{assignment[2]}"
        if _AFTER.fullmatch(assignment[2]):
            _check_nodes(dag, number, value.split())
            dag.parents.setdefault(node, []).extend(value.split())
        for values in value_maps:
            longest = values.get(name)
            if longest is None or _weight(value) > _weight(longest):
                values[name] = value
        position = assignment.end()


def _weight(value: str) -> tuple[int, int]:
    """Rank of a value by its risk: number of special characters, then length."""
    return 0 if value.isalnum() else sum(map(value.count, "'\"\\$")), len(value)


def _check_nodes(dag: ParsedDag, number: int, names: Iterable[str]) -> None:
    missing = [
        # A node of a splice is named ``SPLICE+NODE``.
        name
        for name in names
        if name not in dag.nodes and name.partition("+")[0] not in dag.nodes and name.upper() != _ALL_NODES
    ]
    dag.faults += [DagFault(number, f"there is no node '{name}'") for name in missing]


def _graph_faults(dag: ParsedDag) -> Iterator[DagFault]:
    for name, description in dag.nodes.items():
        if description and description not in dag.descriptions:
            yield DagFault(0, f"the node '{name}' has the description '{description}', which does not exist")
    for child, parents in dag.parents.items():
        if len(set(parents)) < len(parents):
            twice = next(parent for parent in parents if parents.count(parent) > 1)
            yield DagFault(0, f"the edge from '{twice}' to '{child}' exists twice")
    if cycle := _find_cycle(dag):
        yield DagFault(0, f"the nodes {', '.join(cycle[:5])} are in a cycle, or behind one")


def _find_cycle(dag: ParsedDag) -> list[str]:
    """Nodes of a cycle, or behind one."""
    parents_of = {child: set(parents) for child, parents in dag.parents.items()}
    children: dict[str, list[str]] = {}
    for child, parents in parents_of.items():
        for parent in parents:
            children.setdefault(parent, []).append(child)
    open_parents = {child: len(parents) for child, parents in parents_of.items()}
    ready = [name for name in dag.nodes if name not in open_parents]
    while ready:
        for child in children.get(ready.pop(), ()):
            open_parents[child] -= 1
            if not open_parents[child]:
                ready.append(child)
    return [f"'{name}'" for name, count in open_parents.items() if count and name in dag.nodes]


_QUOTED: Final = frozenset({"arguments", "environment"})
_EXPRESSIONS: Final = re.compile(
    r"(my\.|\+).*|request_(?!disk|memory).*|periodic_.*|on_exit_.*|retry_until|requirements|rank|allowed_.*_duration",
    re.IGNORECASE,
)
_WITH_UNIT: Final = re.compile(r"request_(disk|memory)", re.IGNORECASE)
_AMOUNT: Final = re.compile(r"\d+(\.\d+)?\s*[kmgtp]?b?", re.IGNORECASE)
_TEXTS: Final = frozenset({"on_exit_hold_reason", "periodic_hold_reason"})


def validate_dag(
    dag: Path, lines: Iterable[str], client: CondorClient, *, is_folder: Callable[[str], bool] = os.path.isdir
) -> None:
    """Refuse a DAG with errors; no daemon is asked.

    `lines` contains those of included files. Raises `SubmissionRefusedError` if the DAG cannot work.
    """
    parsed = parse_dag(lines)
    if parsed.faults:
        fault = parsed.faults[0]
        more = f" (and {len(parsed.faults) - 1} more like it)" if parsed.faults[1:] else ""
        raise SubmissionRefusedError(
            f"'{dag}'{_line_text(fault.line)}: {fault.message}{more}", hint="Correct it, or prepare the run again."
        )
    for name, description in parsed.descriptions.items():
        commands = client.expand_macros(_filled_text(description))
        if why := description_error(commands, client):
            raise SubmissionRefusedError(
                f"'{dag}'{_line_text(description.line)}: of the submit description '{name}' {why}",
                hint="Values of 'profile.condor', 'attrs', 'directives' and 'releaseExpr' are used unchanged.",
            )
        folder = commands.get("initialdir", "")
        if folder and not is_folder(folder):
            raise SubmissionRefusedError(
                f"jobs of the submit description '{name}' would run in '{folder}', which is no directory on this host: "
                "HTCondor would accept none of them",
                hint="Create it, or correct 'workingDirectory'.",
            )


def _line_text(line: int) -> str:
    return f", line {line}" if line else ""


def _filled_text(description: Description) -> str:
    """A submit description with the values that are most likely to break it."""
    before, after = (
        "".join(f"{name} = {value}\n" for name, value in values.items())
        for values in ({"JOB": "j0", "RETRY": "0", **description.longest_values}, description.appended_values)
    )
    return before + description.text + after


def description_error(commands: Mapping[str, str], client: CondorClient) -> str:
    """The error of a submit description, given its commands with macros expanded; empty if there is no error."""
    for name, value in commands.items():
        plain = name.lower()
        if plain in _QUOTED and not _is_quoted(value):
            return f"'{name}' has a quote that is not closed: {value}"
        if _WITH_UNIT.fullmatch(plain) and _AMOUNT.fullmatch(value):
            continue
        is_read = plain not in _TEXTS and (_EXPRESSIONS.fullmatch(plain) or _WITH_UNIT.fullmatch(plain))
        if is_read and not client.is_expression(value):
            return f"'{name}' is no expression: {value}"
    return ""


def _is_quoted(value: str) -> bool:
    """Whether arguments or variables in HTCondor's new syntax have balanced quotes."""
    if not value.startswith('"'):
        return True
    inner = value[1:-1].replace('""', "")
    return len(value) > 1 and value.endswith('"') and '"' not in inner and not value.count("'") % 2
