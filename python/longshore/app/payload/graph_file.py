"""Reads the tasks of a payload from a graph file, and writes them to one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from longshore.app.payload.payload import AcquiredPayload
from longshore.config.merge import Node, plain_value
from longshore.errors import LongshoreError, Origin
from longshore.graphs.graph_file import graph_lines, read_graph_file, read_header
from longshore.graphs.quantum_graph import RUN_GRAPH
from longshore.model.tasks import Command, TaskGraph
from longshore.world.read.graph_file import open_graph_file, write_graph_file


def read_tasks(path: Path, name: str, origin: Origin | None) -> AcquiredPayload:
    """Read the tasks of a graph file; an empty `name` keeps the payload name of the file.

    `origin` is where the file was named. Raises `FilesError` or `GraphError` if it cannot be read or is wrong.
    """
    place = Origin(str(path))
    with open_graph_file(path, origin) as lines:
        content = read_graph_file(lines, place)
    graph = msgspec.structs.replace(content.graph, name=name or content.graph.name)
    start = Origin(place.file, 1, 1)
    commands = {label: _to_node(command, start) for label, command in content.commands.items()}
    return AcquiredPayload(graph=graph, files=(path,), commands=commands, values=content.values)


def write_tasks(acquired: AcquiredPayload, path: Path, root: Path) -> None:
    """Write the tasks of a payload to a graph file.

    Files in the run directory `root` are named by absolute paths. Raises `FilesError` or `GraphError` if the file
    cannot be written, or if a value does not fit into JSON.
    """
    commands = {label: _to_command(node) for label, node in acquired.commands.items()}
    write_graph_file(path, graph_lines(_with_absolute_paths(acquired, root), commands=commands, values=acquired.values))


def holds_quanta(path: Path) -> bool:
    """Tell whether a graph file's tasks are quanta; an unreadable file is not (its reader reports the error)."""
    try:
        with open_graph_file(path) as lines:
            return RUN_GRAPH in read_header(next(lines, b""), Origin(str(path))).values
    except LongshoreError:
        return False


def _with_absolute_paths(acquired: AcquiredPayload, root: Path) -> TaskGraph:
    """Return the graph with absolute paths, for use by another run in another directory."""
    kept_files = frozenset(acquired.kept_files)
    graph = acquired.graph
    files = {
        name: msgspec.structs.replace(file, path=str(root / file.path)) if file.path in kept_files else file
        for name, file in graph.files.items()
    }
    return msgspec.structs.replace(graph, files=files) if kept_files else graph


def _to_command(node: Node) -> Command:
    value = plain_value(node)
    return tuple(map(str, value)) if isinstance(value, list) else str(value)


def _to_node(command: Command, origin: Origin) -> Node:
    if isinstance(command, str):
        return Node(command, origin)
    return Node([Node(word, origin) for word in command], origin)
