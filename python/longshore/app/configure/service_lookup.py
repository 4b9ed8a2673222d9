"""Finds a service by its registered name, one of BPS's names, or the dotted path of its class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from longshore.contract.capabilities import Queryable
from longshore.contract.service import EventSource, ReportSource, WmsService
from longshore.errors import UnknownServiceError
from longshore.origin import Origin
from longshore.world.plugins import SERVICES, Plugin, built_in, find_plugin, package_folder, registered

_BPS: Final = "lsst.ctrl.bps."
"""How names of BPS's own services begin, none of which can be used as it is."""


def short_name(name: str) -> str:
    """Short name of a service that is named by its class, or as BPS names it; any other name as it is."""
    plugin = _registered_as(name) if "." in name else None
    if plugin is None:
        return name
    entries = built_in(SERVICES) if plugin.built_in else registered(SERVICES)
    return next((each.name for each in entries.values() if each.dotted == plugin.dotted), name)


def find_service(name: str, *, origin: Origin | None = None) -> WmsService:
    """Import a service and make one.

    Parameters
    ----------
    name
        Short name, dotted class path, or one of BPS's names.
    origin
        Where the name was written.

    Raises
    ------
    UnknownServiceError
        There is none of that name, or what is there is no service.
    """
    plugin = find_service_plugin(name)
    if plugin is None:
        raise _unknown(name, origin)
    try:
        # Without a module, or with a dot in front, the name is relative to nothing: ValueError and TypeError.
        kind = plugin.load()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise UnknownServiceError(
            f"the service '{name}' cannot be imported: {error}",
            origin=origin,
            hint="The name of a class is its module and its own name, joined by a dot; the module must be installed.",
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, WmsService)):
        raise UnknownServiceError(
            f"'{name}' is no service: it does not derive from longshore.contract.service.WmsService", origin=origin
        )
    if missing := sorted(getattr(kind, "__abstractmethods__", ())):
        raise UnknownServiceError(
            f"'{name}' is no whole service: it lacks " + ", ".join(f"'{method}'" for method in missing), origin=origin
        )
    if not issubclass(kind, EventSource | ReportSource):
        raise UnknownServiceError(f"'{name}' is no whole service: it lacks 'events' or 'report'", origin=origin)
    return kind()


def find_service_plugin(name: str) -> Plugin | None:
    """The entry of a service, which is not imported; ``None`` where no service can have that name."""
    if plugin := _registered_as(name):
        return plugin
    module, _, attribute = name.rpartition(".")
    return Plugin(name, module, attribute) if "." in name and not name.startswith(_BPS) else None


def service_names() -> list[str]:
    """The short names of all services that can be used; none is imported."""
    return sorted(name for name in registered(SERVICES) if "." not in name)


def queryable_services(name: str | None) -> Iterator[Queryable]:
    """The services that can be asked for runs, the one that is named, or all that are installed.

    Raises
    ------
    UnknownServiceError
        The one that is named cannot be used.
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
    """Name of the site where a service runs jobs if none is named; empty where it ships no site of its own name."""
    for parent in service.__mro__:
        if (name := vars(parent).get("name")) and _ships_site(package_folder(parent.__module__), name):
            return str(name)
    return ""


def default_site_of(name: str) -> str:
    """Like `default_site`, of a service that is not imported."""
    plugin = find_service_plugin(name)
    return name if plugin and _ships_site(plugin.folder, name) else ""


def _ships_site(folder: Path | None, name: str) -> bool:
    return folder is not None and (folder / "sites" / f"{name}.yaml").is_file()


def _registered_as(name: str) -> Plugin | None:
    """The entry of a name, of a class, or of what a dotted name begins with, as those of BPS's services do."""
    if "." not in name:
        return find_plugin(SERVICES, name)
    return _dotted(name, built_in(SERVICES).values()) or _dotted(name, registered(SERVICES).values())


def _dotted(name: str, plugins: Iterable[Plugin]) -> Plugin | None:
    for plugin in plugins:
        if name in {plugin.name, plugin.dotted} or ("." in plugin.name and name.startswith(f"{plugin.name}.")):
            return plugin
    return None


def _unknown(name: str, origin: Origin | None) -> UnknownServiceError:
    return UnknownServiceError(
        f"there is no service '{name}'; there are: {', '.join(service_names())}",
        origin=origin,
        hint=f"A package adds one by an entry point in the group '{SERVICES}'; or name its class by its path.",
    )
