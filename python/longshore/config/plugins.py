"""Plug-ins and what is shipped: entry points by group and name, packaged files, and those of `longshore init`."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping
from functools import cache, reduce
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from longshore.errors import FilesError, Origin
from longshore.system.atomic import create_file, make_executable
from longshore.system.folder import make_folders

# Location of the files Longshore ships: inside the package in a wheel, beside it in a source tree.


_PACKAGE = Path(__file__).resolve().parent.parent
_IN_WHEEL = _PACKAGE / "_shipped"
_SHIPPED = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent.parent


shipped_path = _SHIPPED.joinpath
"""Returns the path of a shipped file or folder, such as ``shipped_path("etc", "defaults.yaml")``."""


# Plug-in discovery: entry points by group and name, and the files that plug-in packages ship. Longshore registers its
# own services in the same groups. They are read from `entry_points.txt`: a checkout that is not installed has them, and
# commands that need no other plug-in do not search all installed packages. Where no package in a folder of the search
# path registers anything, and none is elsewhere, the search does without `importlib.metadata`. The reason is in
# decision 0057.


SERVICES: Final = "longshore.wms"
"""Entry-point group of services."""
KEYS: Final = "longshore.keys"
"""Entry-point group of tables of keys, each by the name of its service."""
GRAPH_SOURCES: Final = "longshore.graphs"
"""Entry-point group of sources of task graphs."""
ADAPTERS: Final = "longshore.adapters"
"""Entry-point group of functions that make a service of a class of another system, from the class and its name."""
CLUSTERING: Final = "longshore.clustering"
"""Entry-point group of clustering algorithms."""
SITE_GRAPHS: Final = "longshore.site_graphs"
"""Entry-point group of backends that search resource graphs."""
SITE_MATCH: Final = "longshore.site_match"
"""Entry-point group of algorithms of requirements."""
SITE_SELECTION: Final = "longshore.site_selection"
"""Entry-point group of algorithms that select a site."""
SITES: Final = "longshore.sites"
"""Entry-point group in which a package names a sub-package that holds site profiles."""

_BUILT_IN: Final = Path(__file__).resolve().parent.parent / "entry_points.txt"
_GROUPS: Final = "longshore."
_METADATA: Final = (".dist-info", ".egg-info", "egg-info")
_OURSELVES: Final = re.compile(r"longshore-\d")


class Plugin(msgspec.Struct, frozen=True):
    """An entry point: its name, and the module and attribute that define its class or function.

    `is_built_in` is true when Longshore itself registers it, `is_registered` unless only its path is known.
    """

    name: str
    module: str
    attribute: str
    is_built_in: bool = False
    is_registered: bool = True

    def load(self, origin: Origin | None = None) -> Any:
        """Import the class or function; `origin` is where a configuration names what no package registers.

        Raises `ImportError`, `AttributeError`, `ValueError` or `TypeError` when the import fails.
        """
        if self.is_built_in:
            module = importlib.import_module(self.module)
        else:
            from longshore.config.foreign_code import import_foreign, import_named

            module = (
                import_foreign(self.module)
                if self.is_registered
                else import_named(self.module, f"'{self.name}'", origin)
            )
        return reduce(getattr, filter(None, self.attribute.split(".")), module)

    @property
    def folder(self) -> Path | None:
        """Return the folder of the plug-in's package, which holds the files it ships."""
        return package_folder(self.module)

    @property
    def import_path(self) -> str:
        """Dotted path of the class or function."""
        return f"{self.module}.{self.attribute}"


def built_in_plugins(group: str) -> Mapping[str, Plugin]:
    """Return Longshore's own entries of a group, by name."""
    return _built_in().get(group, {})


def lacks_package(name: str) -> bool:
    """Whether the package of a dotted name is not installed, so that its import fails and runs no code."""
    top = name.partition(".")[0]
    try:
        return top.isidentifier() and top not in sys.modules and find_spec(top) is None
    except (ImportError, ValueError):
        return False


def all_plugins(group: str) -> Mapping[str, Plugin]:
    """Return all entries of a group, by name; an installed package cannot replace a built-in one."""
    return {**_installed(tuple(sys.path)).get(group, {}), **built_in_plugins(group)}


def find_plugin(group: str, name: str) -> Plugin | None:
    """Find the entry of a name; searches installed packages only when Longshore has no such entry."""
    return built_in_plugins(group).get(name) or all_plugins(group).get(name)


def package_folder(module: str) -> Path | None:
    """Return the folder of a module's package without importing it; ``None`` when the module is in no package."""
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


SHIPPED_PROGRAMS: Final = ("longshore-job", "longshore-stage")
"""Programs of jobs that a site may replace as it may templates."""


def template_texts(service: type) -> dict[str, str]:
    """Return the text of each template a service ships, by file name without ``.j2``; subclasses inherit templates."""
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
            entries[name] = _plugin(name, value, is_built_in=True)
        elif line:
            entries = groups.setdefault(line.strip("[]"), {})
    return groups


@cache
def _installed(path: tuple[str, ...]) -> dict[str, dict[str, Plugin]]:
    """Entries of installed packages on one search path, by group and name."""
    groups: dict[str, dict[str, Plugin]] = {}
    if not any(map(_may_register, path)) and not _has_other_finders():
        return groups
    from importlib.metadata import distributions  # 15 ms and more, which most commands need not spend

    for distribution in distributions():
        for point in distribution.entry_points:
            if point.group.startswith(_GROUPS):
                groups.setdefault(point.group, {}).setdefault(point.name, _plugin(point.name, point.value))
    return groups


def _may_register(place: str) -> bool:
    """Return whether a package at a place of the search path may register anything for Longshore.

    The names are those that `importlib.metadata` searches for. Only it knows what an archive holds.
    """
    try:
        names = os.listdir(place or ".")
    except NotADirectoryError:
        return True
    except OSError:
        return False
    return any(_names_group(Path(place, name)) for name in names if _is_metadata(name))


def _is_metadata(name: str) -> bool:
    """Return whether a folder of this name may describe an installed package other than Longshore itself."""
    return name.lower().endswith(_METADATA) and not _OURSELVES.match(name)


def _names_group(metadata: Path) -> bool:
    try:
        return _GROUPS.encode() in (metadata / "entry_points.txt").read_bytes()
    except OSError:
        return False


def _has_other_finders() -> bool:
    """Return whether something other than the search path knows installed packages."""
    return any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder)


def _plugin(name: str, value: str, *, is_built_in: bool = False) -> Plugin:
    module, _, attribute = value.partition("[")[0].strip().partition(":")
    return Plugin(name, module, attribute, is_built_in)


# Example files for a new payload (`longshore init`); existing files are never overwritten.


STARTER_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "pipeline": ("pipeline.yaml",),
    "script": ("script.yaml", "script.sh"),
    "lsst": ("lsst.yaml",),
    "site": ("site.yaml",),
}
"""Files per kind of example."""

_NEXT_COMMANDS: Final[Mapping[str, str]] = {
    "pipeline": "longshore submit {path} --wait",
    "script": "longshore submitcmd {path} --wait",
    "lsst": "longshore config lint {path}",
    "site": "longshore config lint {path}",
}
"""Next command to run, per kind of example."""


def write_starter_files(kind: str, folder: Path) -> tuple[list[Path], str]:
    """Write the example files of a kind into a folder, which is created if missing; return the next command, too.

    Raises `FilesError` if a file exists (nothing is written then) or cannot be written.
    """
    targets = [folder / name for name in STARTER_FILES[kind]]
    for target in targets:
        if target.exists() or target.is_symlink():
            raise FilesError(
                f"'{target}' exists already", hint="Name another directory: longshore init --kind KIND DIR"
            )
    try:
        make_folders(folder)
        for target in targets:
            # Exclusive creation: a file that appears at this moment is not overwritten either.
            create_file(target, [shipped_path("etc", "starters", target.name).read_bytes()])
            if target.suffix == ".sh":
                make_executable(target)
    except OSError as error:
        raise FilesError(f"'{error.filename or folder}' cannot be written: {error.strerror}") from error
    return targets, _NEXT_COMMANDS[kind].format(path=targets[0])
