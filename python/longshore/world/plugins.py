"""Finds what packages register in groups of entry points, and the files a package ships beside its code.

Longshore's own services are entries of the same kind. They come from `entry_points.txt`, so that a checkout that is not
installed has them, and so that commands that need no other need not search all installed packages.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from functools import cache, reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

SERVICES: Final = "longshore.wms"
"""Group of services."""
GRAPH_SOURCES: Final = "longshore.graphs"
"""Group of sources of task graphs."""
CLUSTERING: Final = "longshore.clustering"
"""Group of clustering algorithms."""
SITES: Final = "longshore.sites"
"""Group in which a package names a package of its own that holds profiles of sites."""

_BUILT_IN: Final = Path(__file__).resolve().parent.parent / "entry_points.txt"
_GROUPS: Final = "longshore."


class Plugin(msgspec.Struct, frozen=True):
    """One entry point.

    Attributes
    ----------
    name
        Name under which it is registered.
    module, attribute
        Where its class or function is defined.
    built_in
        Whether Longshore itself registers it.
    """

    name: str
    module: str
    attribute: str
    built_in: bool = False

    def load(self) -> Any:
        """Import the class or function.

        Raises
        ------
        ImportError, AttributeError, ValueError, TypeError
            It cannot be imported.
        """
        return reduce(getattr, filter(None, self.attribute.split(".")), importlib.import_module(self.module))

    @property
    def folder(self) -> Path | None:
        """Folder of its package, where the files it ships lie."""
        return package_folder(self.module)

    @property
    def dotted(self) -> str:
        """Dotted path of the class or function."""
        return f"{self.module}.{self.attribute}"


def built_in(group: str) -> Mapping[str, Plugin]:
    """Longshore's own entries of a group, by name."""
    return _built_in().get(group, {})


def registered(group: str) -> Mapping[str, Plugin]:
    """All entries of a group, by name; an installed package cannot replace a built-in one."""
    return {**_installed(tuple(sys.path)).get(group, {}), **built_in(group)}


def find_plugin(group: str, name: str) -> Plugin | None:
    """The entry of a name; installed packages are searched only where Longshore has none."""
    return built_in(group).get(name) or registered(group).get(name)


def package_folder(module: str) -> Path | None:
    """Folder of the package that has a module; ``None`` where the module is in no package.

    No module is imported for it.
    """
    top, *parts = module.split(".")
    try:
        spec = find_spec(top) if top else None
    except (ImportError, ValueError):
        return None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        return None
    folder = Path(folders[0])
    for part in parts:
        if not (folder / part).is_dir():
            break
        folder /= part
    return folder


def template_texts(service: type) -> dict[str, str]:
    """Text of each template that a service ships, by file name without ``.j2``; a subclass has those of its parents."""
    texts: dict[str, str] = {}
    for parent in reversed(service.__mro__):
        if folder := package_folder(parent.__module__):
            texts |= {path.name.removesuffix(".j2"): path.read_text("utf-8") for path in folder.glob("templates/*.j2")}
    return texts


@cache
def _built_in() -> dict[str, dict[str, Plugin]]:
    """Longshore's own entries, by group and name."""
    groups: dict[str, dict[str, Plugin]] = {}
    entries: dict[str, Plugin] = {}
    for line in _BUILT_IN.read_text("utf-8").splitlines():
        name, is_entry, value = line.partition(" = ")
        if is_entry:
            entries[name] = _plugin(name, value, built_in=True)
        elif line:
            entries = groups.setdefault(line.strip("[]"), {})
    return groups


@cache
def _installed(_path: tuple[str, ...]) -> dict[str, dict[str, Plugin]]:
    """The entries of installed packages, by group and name, for one search path."""
    from importlib.metadata import distributions  # 15 ms, which most commands need not spend

    groups: dict[str, dict[str, Plugin]] = {}
    for distribution in distributions():
        for point in distribution.entry_points:
            if point.group.startswith(_GROUPS):
                groups.setdefault(point.group, {}).setdefault(point.name, _plugin(point.name, point.value))
    return groups


def _plugin(name: str, value: str, *, built_in: bool = False) -> Plugin:
    module, _, attribute = value.partition("[")[0].strip().partition(":")
    return Plugin(name, module, attribute, built_in)
