"""Finds a service by its short name, an entry point, or the dotted path of its class."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from longshore.contract.service import EventSource, ReportSource, WmsService
from longshore.errors import UnknownServiceError
from longshore.origin import Origin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS: Final = "longshore.wms"

BUILT_IN: Final = {
    "htcondor": "longshore.services.htcondor.service.HTCondorService",
    "local": "longshore.services.local.service.LocalService",
    "slurm": "longshore.services.slurm.service.SlurmService",
}
"""Dotted class path per short name."""

PLANNED: Final = frozenset({"sge", "lsf"})
"""Short names that are kept for services this version does not have."""

_BPS_PACKAGES: Final = {
    "lsst.ctrl.bps.htcondor": "htcondor",
    "lsst.ctrl.bps.wms.htcondor": "htcondor",
    "lsst.ctrl.bps.parsl": "parsl",
    "lsst.ctrl.bps.panda": "panda",
}
"""Short name per package of BPS's own services."""


def short_name(name: str) -> str:
    """The short name behind one of BPS's dotted names; any other name as it is."""
    for package, short in _BPS_PACKAGES.items():
        if name == package or name.startswith(f"{package}."):
            return short
    return name


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
    short = short_name(name)
    found = {} if short in BUILT_IN else _registered()
    if short in BUILT_IN:
        kind = _import(BUILT_IN[short], name, origin)
    elif short in found:
        kind = _import(found[short].value.replace(":", "."), name, origin)
    elif "." in short:
        kind = _import(short, name, origin)
    else:
        raise _unknown(name, [*BUILT_IN, *found], origin)
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


def service_names() -> list[str]:
    """The short names of all services that can be used, without importing any."""
    return sorted({*BUILT_IN, *_registered()})


def _registered() -> dict[str, EntryPoint]:
    """What installed packages offer, by short name."""
    from importlib.metadata import entry_points  # 15 ms, which the services that we ship need not cost

    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _import(path: str, name: str, origin: Origin | None) -> Any:
    module, _, attribute = path.rpartition(".")
    try:
        # Without a module, or with a dot in front, the name is relative to nothing: ValueError and TypeError.
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise UnknownServiceError(
            f"the service '{name}' cannot be imported: {error}",
            origin=origin,
            hint="The name of a class is its module and its own name, joined by a dot; the module must be installed.",
        ) from error


def _unknown(name: str, there: list[str], origin: Origin | None) -> UnknownServiceError:
    what = "this version has no service" if short_name(name) in PLANNED else "there is no service"
    return UnknownServiceError(
        f"{what} '{name}'; there are: {', '.join(sorted(there))}",
        origin=origin,
        hint=f"A package adds one by an entry point in the group '{ENTRY_POINTS}'; or name its class by its path.",
    )
