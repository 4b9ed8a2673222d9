"""Reads the pipelines that a pipeline imports, and those that they import, and joins them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from longshore.config.values.merge import Node
from longshore.errors import ConfigError
from longshore.graph.declaration.imports import Import, merge_imports, read_imports, select_imported
from longshore.world.read.yaml_file import read_yaml

_DEEPEST: Final = 50

Find: TypeAlias = Callable[[Node, Path], Path]
"""Finds the file that a text names, seen from a folder as well."""


@dataclass(frozen=True)
class ImportReader:
    """Joins pipelines with what they import.

    Attributes
    ----------
    find
        Finds an imported file, which the folder of the importing one may hold.
    files
        The files that were read.
    """

    find: Find
    files: list[Path] = field(default_factory=list)

    def whole(self, node: Node, path: Path, trail: tuple[Path, ...] = ()) -> Node:
        """A pipeline with all that it imports.

        Parameters
        ----------
        node
            The pipeline.
        path
            The file that it stands in.
        trail
            The files that led to it.

        Raises
        ------
        ConfigError
            An import is wrong, or pipelines import each other.
        FilesError
            A file is not there.
        """
        items = read_imports(node)
        if not items:
            return node
        trail = (*trail, path.resolve())
        return merge_imports(node, [select_imported(self._read(item, path, trail), item) for item in items])

    def _read(self, item: Import, path: Path, trail: tuple[Path, ...]) -> Node:
        found = self.find(item.location, path.parent)
        origin = item.location.origin
        if found.resolve() in trail:
            ring = [*trail[trail.index(found.resolve()) :], found]
            names = " -> ".join(f"'{each.name}'" for each in ring)
            raise ConfigError(
                f"pipelines import each other: {names}", origin=origin, hint="Take one of the imports out."
            )
        if len(trail) > _DEEPEST:
            raise ConfigError(f"pipelines import each other more than {_DEEPEST} deep", origin=origin)
        if found not in self.files:
            self.files.append(found)
        return self.whole(pipeline_in(read_yaml(found)), found, trail)


def pipeline_in(node: Node) -> Node:
    """The pipeline that a file holds, at its top or under ``pipeline``."""
    inner = node.value.get("pipeline") if isinstance(node.value, dict) and len(node.value) == 1 else None
    return inner or node
