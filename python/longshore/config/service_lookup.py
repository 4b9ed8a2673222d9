"""Lookup of a service by registered name, BPS name or dotted class path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

from longshore.config.plugins import (
    ADAPTERS,
    SERVICES,
    Plugin,
    all_plugins,
    built_in_plugins,
    find_plugin,
    package_folder,
    shipped_path,
)
from longshore.contract.capabilities import Queryable
from longshore.contract.service import EventSource, ReportSource, WmsService
from longshore.errors import Origin, UnknownServiceError
from longshore.rundir.registry import is_remembered_service

SERVICE_VARIABLE: Final = "BPS_WMS_SERVICE_CLASS"
BPS_PACKAGE: Final = "lsst.ctrl.bps."
"""Prefix of the names of BPS's own service classes."""
_CLASS_HINT: Final = (
    "The name of a class is its module and its own name, joined by a dot; the module must be installed."
)
_BPS_HINT: Final = (
    "A plug-in of BPS needs LSST's package 'ctrl_bps' and its own: set up a release of LSST's software, or "
    "pip install 'longshore[bps]' and, for example, lsst-ctrl-bps-parsl."
)
BRIDGE: Final = "longshore.bps.LongshoreService"
"""Longshore as a plug-in of BPS. In a configuration it names no service: the site or the default does."""


@lru_cache(maxsize=1)
def default_service() -> str:
    """Return the service of runs that name none, from the shipped defaults."""
    # Its line is looked for: `ping` needs no other key, and parsing them all takes longer than the rest of it.
    text = shipped_path("etc", "defaults.yaml").read_text("utf-8")
    return next(line.split()[1] for line in text.splitlines() if line.startswith("wmsServiceClass:"))


def environment_service() -> str:
    """Return the service that the environment names; empty for none."""
    name = os.environ.get(SERVICE_VARIABLE, "")
    return "" if name == BRIDGE else name


def short_name(name: str) -> str:
    """Return the short name of a service given by class or BPS name; other names are returned unchanged."""
    plugin = _find_registered(name) if "." in name else None
    if plugin is None:
        return name
    entries = built_in_plugins(SERVICES) if plugin.is_built_in else all_plugins(SERVICES)
    return next((each.name for each in entries.values() if each.import_path == plugin.import_path), name)


def find_service(name: str, *, origin: Origin | None = None) -> WmsService:
    """Import a service by short name, dotted class path or BPS name, and instantiate it.

    `origin` is where the name was written. Raises `UnknownServiceError` if the name is unknown or is no service.
    """
    plugin = find_service_plugin(name)
    if plugin is None:
        raise _unknown_service_error(name, origin)
    try:
        # A name without module or with a leading dot raises ValueError or TypeError.
        service = plugin.load(origin)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise UnknownServiceError(
            f"the service '{name}' cannot be imported: {error}",
            origin=origin,
            hint=_BPS_HINT if name.startswith(BPS_PACKAGE) else _CLASS_HINT,
        ) from error
    if (adapted := _adapt_class(service, name)) is not None:
        return adapted
    if not (isinstance(service, type) and issubclass(service, WmsService)):
        raise UnknownServiceError(
            f"'{name}' is no service: it does not derive from longshore.contract.service.WmsService", origin=origin
        )
    if missing := sorted(getattr(service, "__abstractmethods__", ())):
        raise UnknownServiceError(
            f"'{name}' is no whole service: it lacks " + ", ".join(f"'{method}'" for method in missing), origin=origin
        )
    if not issubclass(service, EventSource | ReportSource):
        raise UnknownServiceError(f"'{name}' is no whole service: it lacks 'events' or 'report'", origin=origin)
    return service()


def _adapt_class(found: object, name: str) -> WmsService | None:
    """Return the service around a class of another system; ``None`` for other objects."""
    if not isinstance(found, type) or issubclass(found, WmsService):
        return None
    for adapter in all_plugins(ADAPTERS).values():
        try:
            adapt = adapter.load()
        except ImportError:
            # Without the packages of that system, the class is none of it.
            continue
        adapted: WmsService | None = adapt(found, name)
        if adapted is not None:
            return adapted
    return None


def find_run_service(name: str) -> WmsService:
    """Like `find_service`, for the name in a run directory: only installed services, and classes the user chose.

    Raises `UnknownServiceError` also for a class that neither an entry point nor the user's configuration names.
    """
    if names_foreign_code(name) and not is_remembered_service(name):
        raise UnknownServiceError(
            f"the run names '{name}' as its service, which is not installed, and your configuration does not name it",
            hint=f"If you trust that class: {SERVICE_VARIABLE}={name} longshore ...",
        )
    return find_service(name)


def names_foreign_code(name: str) -> bool:
    """Whether a service is named by the path of a class that no package registers, and not by the environment."""
    return "." in name and _find_registered(name) is None and os.environ.get(SERVICE_VARIABLE) != name


def find_service_plugin(name: str) -> Plugin | None:
    """Return the registration of a service without importing it; ``None`` for an impossible name."""
    if plugin := _find_registered(name):
        return plugin
    module, _, attribute = name.rpartition(".")
    return Plugin(name, module, attribute, is_registered=False) if "." in name else None


def service_names() -> list[str]:
    """Return the short names of all usable services, without importing them."""
    return sorted(name for name in all_plugins(SERVICES) if "." not in name)


def queryable_services(name: str | None) -> Iterator[Queryable]:
    """Iterate over services that can list runs: the named one, or all installed.

    Raises `UnknownServiceError` if the named one cannot be used.
    """
    for each in [name] if name else service_names():
        try:
            service = find_service(each)
        except UnknownServiceError:
            if name:
                raise
            continue
        if isinstance(service, Queryable):
            yield service


def default_site(service: type) -> str:
    """Return the site that a service uses by default; empty if it ships no site of its own name."""
    for parent in service.__mro__:
        if (name := vars(parent).get("name")) and _ships_site(package_folder(parent.__module__), name):
            return str(name)
    return ""


def default_site_by_name(name: str) -> str:
    """Like `default_site`, for a service that is not imported."""
    plugin = find_service_plugin(name)
    return name if plugin and _ships_site(plugin.folder, name) else ""


def _ships_site(folder: Path | None, name: str) -> bool:
    return folder is not None and (folder / "sites" / f"{name}.yaml").is_file()


def _find_registered(name: str) -> Plugin | None:
    """Return the registration for a name, a class, or a prefix of a dotted name, as BPS's services have."""
    if "." not in name:
        return find_plugin(SERVICES, name)
    return _match_dotted_name(name, built_in_plugins(SERVICES).values()) or _match_dotted_name(
        name, all_plugins(SERVICES).values()
    )


def _match_dotted_name(name: str, plugins: Iterable[Plugin]) -> Plugin | None:
    for plugin in plugins:
        if name in {plugin.name, plugin.import_path} or ("." in plugin.name and name.startswith(f"{plugin.name}.")):
            return plugin
    return None


def _unknown_service_error(name: str, origin: Origin | None) -> UnknownServiceError:
    return UnknownServiceError(
        f"there is no service '{name}'; there are: {', '.join(service_names())}",
        origin=origin,
        hint=f"A package adds one by an entry point in the group '{SERVICES}'; or name its class by its path.",
    )
