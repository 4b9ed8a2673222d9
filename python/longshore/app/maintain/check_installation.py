"""Checks of the installation: versions, dependencies, and plug-ins that cannot be imported."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

import longshore
from longshore.app.maintain.diagnosis import Diagnosis, DiagnosisState
from longshore.world.plugins import (
    ADAPTERS,
    CLUSTERING,
    GRAPH_SOURCES,
    SERVICES,
    SITE_GRAPHS,
    SITE_MATCH,
    SITE_SELECTION,
    Plugin,
    all_plugins,
)

_AREA: Final = "installation"
_GROUPS: Final = (SERVICES, GRAPH_SOURCES, ADAPTERS, CLUSTERING, SITE_GRAPHS, SITE_MATCH, SITE_SELECTION)
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)[^;>]*(?:>=\s*([0-9.]+))?[^;]*(;.*extra\s*==.*)?")
_OLDEST_PYTHON: Final = (3, 11)


def check_installation() -> Iterator[Diagnosis]:
    """Check Python, the dependencies and the place of the installation."""
    folder = Path(longshore.__file__).resolve().parent
    python = ".".join(map(str, sys.version_info[:3]))
    yield Diagnosis(
        area=_AREA,
        state=DiagnosisState.OK,
        message=f"Longshore {longshore.__version__} in '{folder}', Python {python} in '{sys.prefix}'",
    )
    if sys.version_info < _OLDEST_PYTHON:
        yield _problem(f"Python {python} is too old", "Install Longshore with Python 3.11 or later.")
    try:
        requirements = metadata.requires("longshore") or []
    except metadata.PackageNotFoundError:
        yield Diagnosis(
            area=_AREA,
            state=DiagnosisState.NOTE,
            message="it is a checkout that is not installed: versions of dependencies are not checked",
            hint="To install it: pip install -e .",
        )
        return
    yield from _check_requirements(requirements)


def check_plugins() -> Iterator[Diagnosis]:
    """Import every entry point, and name those that cannot be imported."""
    count = 0
    for group in _GROUPS:
        for plugin in all_plugins(group).values():
            try:
                plugin.load()
            except Exception as error:  # noqa: BLE001 - the module of a package may raise anything
                if group != ADAPTERS or not isinstance(error, ImportError):
                    yield _broken_plugin(group, plugin, error)
                # Without the packages of another system, nothing of it can be adapted.
            else:
                count += 1
    yield Diagnosis(area=_AREA, state=DiagnosisState.OK, message=f"{count} entry points were imported")


def _check_requirements(requirements: list[str]) -> Iterator[Diagnosis]:
    found = []
    for text in requirements:
        requirement = _REQUIREMENT.match(text)
        if requirement is None or requirement[3]:
            continue
        name, least = requirement[1], requirement[2]
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield _problem(f"the package '{name}' is missing", f"Install it: pip install '{name}'")
            continue
        if least and version_numbers(version) < version_numbers(least):
            yield _problem(
                f"the package '{name}' {version} is older than {least}", f"Install it: pip install '{name}>={least}'"
            )
            continue
        found.append(f"{name} {version}")
    yield Diagnosis(area=_AREA, state=DiagnosisState.OK, message=f"dependencies: {', '.join(found)}")


def version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the beginning of a version, without zeros at the end."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in match[0].split(".")] if match else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _broken_plugin(group: str, plugin: Plugin, error: Exception) -> Diagnosis:
    package = plugin.module.partition(".")[0]
    hint = "Install Longshore anew." if plugin.is_built_in else f"Repair or remove the package that has '{package}'."
    return Diagnosis(
        area=_AREA,
        state=DiagnosisState.ERROR if plugin.is_built_in else DiagnosisState.WARNING,
        message=f"the entry point '{plugin.name}' of '{group}' cannot be imported: {type(error).__name__}: {error}",
        hint=hint,
    )


def _problem(message: str, hint: str) -> Diagnosis:
    return Diagnosis(area=_AREA, state=DiagnosisState.ERROR, message=message, hint=hint)
