"""What kind of payload a file is: graph file, quantum graph, WfFormat, pipeline of LSST or of commands with imports."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from longshore.config.includes import read_yaml
from longshore.config.interpolate import Scope
from longshore.config.merge import Layer, LayerRank, Node, map_items
from longshore.config.plugins import shipped_path
from longshore.config.search import Config
from longshore.config.templates import expand_env
from longshore.errors import ConfigError
from longshore.graphs.declarations import (
    Import,
    PipelineKind,
    merge_imports,
    pipeline_kind,
    read_imports,
    select_imported,
)
from longshore.graphs.graph_file import holds_quanta
from longshore.system.reading import can_see_file

# Format of a payload's file, by its suffix: graph file, quantum graph, pipeline or WfFormat.


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


# Location of a file that a configuration names: in the current directory, else in another folder.


def locate_file(name: str, folder: Path) -> Path | None:
    """Return the path of an existing file, looked up in the current directory, then in `folder`."""
    return next((path for path in (Path(name), folder / name) if can_see_file(path)), None) if name else None


# Pipeline imports: reads imported pipelines recursively and joins them into one.


_MAX_DEPTH: Final = 50

FindFile: TypeAlias = Callable[[Node, Path], Path]
"""Finds a file by name, with a folder as second place to search."""


class ImportReader(msgspec.Struct, frozen=True):
    """Joins pipelines with their imports.

    `find` locates an imported file, also beside the trail one; `files` collects the files that were read.
    """

    find: FindFile
    files: list[Path] = msgspec.field(default_factory=list)

    def join(self, node: Node, path: Path, trail: tuple[Path, ...] = ()) -> Node:
        """Return a pipeline joined with its imports; `trail` holds the files that led to it.

        Raises `ConfigError` if an import is wrong or circular, `FilesError` if a file is missing.
        """
        items = read_imports(node)
        if not items:
            return node
        trail = (*trail, path.resolve())
        return merge_imports(node, [select_imported(self._read_import(item, path, trail), item) for item in items])

    def _read_import(self, item: Import, path: Path, trail: tuple[Path, ...]) -> Node:
        found = self.find(item.location, path.parent)
        origin = item.location.origin
        if found.resolve() in trail:
            cycle = [*trail[trail.index(found.resolve()) :], found]
            names = " -> ".join(f"'{each.name}'" for each in cycle)
            raise ConfigError(
                f"pipelines import each other: {names}", origin=origin, hint="Take one of the imports out."
            )
        if len(trail) > _MAX_DEPTH:
            raise ConfigError(f"pipelines import each other more than {_MAX_DEPTH} deep", origin=origin)
        if found not in self.files:
            self.files.append(found)
        return self.join(pipeline_node(read_yaml(found)), found, trail)


def pipeline_node(node: Node) -> Node:
    """Return the pipeline in a file: its root or the section ``pipeline``."""
    items = map_items(node)
    return items.get("pipeline", node) if len(items) == 1 else node


# Detects payloads of LSST (quantum graphs and their pipelines), which have defaults of their own.


_OTHER_SOURCES: Final = ("pipelineYaml", "pipeline", "wfformat", "graphFile", "graphSource", "customJob")


def is_lsst(config: Config, *, site: str, env: Mapping[str, str], folder: Path) -> bool:
    """Tell whether the payload is a quantum graph, or a pipeline from which one is made.

    A pipeline that cannot be read here is LSST's if its path begins with the variable of a package, or if a Butler is
    configured.

    `config` is merged without LSST's defaults. `site` and `env` define the search scope. `folder` is the folder of
    the user's file, searched for a pipeline after the current folder.
    """

    def text(key: str) -> str:
        value = config.search(key, Scope(current={"curr_site": site}, env=env)).value
        return value if isinstance(value, str) else ""

    try:
        if text("qgraphFile"):
            return True
        if file := text("graphFile"):
            if is_graph_file(file, source := text("graphSource")):
                graph_path = locate_file(file, folder)
                return graph_path is not None and holds_quanta(graph_path)
            return (source.strip() or source_of_file_name(file)) == QUANTUM_GRAPH
        pipeline = text("pipelineYaml").partition("#")[0]
        if pipeline:
            kind = _find_kind(pipeline, folder)
            if kind is None:
                return _is_in_package(config) or bool(text("butlerConfig"))
            return kind is PipelineKind.LSST
        # With a command of their own that makes the graph, users may need no pipeline.
        return bool(text("createQuantumGraph")) and not any(map(config.node_at, _OTHER_SOURCES))
    except ConfigError:
        return False  # reported where the value is needed


def is_lsst_pipeline(name: str, folder: Path) -> bool:
    """Tell whether a file, in the current folder or else in `folder`, is a pipeline of LSST tasks."""
    return _find_kind(name, folder) is PipelineKind.LSST


def _find_kind(name: str, folder: Path) -> PipelineKind | None:
    """Return the kind of a pipeline's file; ``None`` if there is no file."""
    if "://" in name:
        return PipelineKind.LSST  # only LSST's packages read those
    for path in (Path(name), folder / name):
        try:
            return _cached_pipeline_kind(path, path.stat().st_mtime_ns)
        except ConfigError:
            return PipelineKind.COMMANDS  # its reader reports the error
        except (OSError, ValueError):
            continue
    return None


def _is_in_package(config: Config) -> bool:
    """Tell whether the path of the pipeline begins with a variable such as ``DRP_PIPE_DIR``."""
    found = config.lookup("pipelineYaml", Scope())
    return bool(found and found.node and re.match(r"\$\{?[A-Z]\w*_DIR\b", str(found.node.value)))


def lsst_layer(*, with_service: bool) -> Layer:
    """Return LSST's defaults, a layer above the package's; `with_service` keeps BPS's default service in it."""
    root = read_yaml(shipped_path("etc", "lsst.yaml"), rank=LayerRank.DEFAULTS)
    if not with_service:
        values = {key: node for key, node in map_items(root).items() if key != "wmsServiceClass"}
        root = msgspec.structs.replace(root, value=values)
    return Layer("lsst", LayerRank.DEFAULTS, root)


@lru_cache(maxsize=16)
def _cached_pipeline_kind(path: Path, _changed_ns: int) -> PipelineKind:
    # Called for each site; the second argument makes a changed file be read again.
    return _read_pipeline_kind(path, ())


def _read_pipeline_kind(path: Path, trail: tuple[Path, ...]) -> PipelineKind:
    if path in trail:
        return PipelineKind.COMMANDS  # its reader reports the cycle
    node = pipeline_node(read_yaml(path))
    kind = pipeline_kind(node)
    if kind is PipelineKind.LSST and not _has_tasks(node):
        # Judged by its imports that are at hand: LSST's own are named by variables of a release.
        env = {**os.environ, "PWD": str(Path.cwd())}
        for item in read_imports(node):
            name = expand_env(item.location.text, env)
            imported = locate_file(name, path.parent)
            if imported and _read_pipeline_kind(imported, (*trail, path)) is PipelineKind.COMMANDS:
                return PipelineKind.COMMANDS
    return kind


def _has_tasks(node: Node) -> bool:
    tasks = map_items(node).get("tasks")
    return tasks is not None and bool(tasks.value)
