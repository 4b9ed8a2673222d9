"""Pipeline imports: reads imported pipelines recursively and joins them into one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from longshore.config.merge import Node, map_items
from longshore.errors import ConfigError
from longshore.graphs.declarations import Import, merge_imports, read_imports, select_imported
from longshore.world.read.yaml_includes import read_yaml

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
