"""Format of a payload's file, by its suffix: graph file, quantum graph, pipeline or WfFormat."""

from __future__ import annotations

from typing import Final

QUANTUM_GRAPH: Final = "quantum_graph"
_GRAPH_FILE: Final = "graph_file"
_SOURCE_BY_SUFFIX: Final = {
    ".jsonl": _GRAPH_FILE,
    ".jsonl.gz": _GRAPH_FILE,
    ".qg": QUANTUM_GRAPH,
    ".qgraph": QUANTUM_GRAPH,
    ".yaml": "pipeline",
    ".yml": "pipeline",
    ".json": "wfformat",
}
"""Source per file suffix."""


def source_of_file_name(name: str) -> str:
    """Return the source that a file name implies; empty if it implies none."""
    file = name.partition("#")[0]
    return next((source for ending, source in _SOURCE_BY_SUFFIX.items() if file.endswith(ending)), "")


def is_graph_file(name: str, source: str) -> bool:
    """Tell whether ``graphFile`` names a graph file, given ``graphSource``."""
    return bool(name) and (source.strip() or source_of_file_name(name)) == _GRAPH_FILE
