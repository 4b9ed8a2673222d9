"""Lowers requests that nobody made to what a service can give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from longshore.model.job import JobSettings
from longshore.model.request import MIB

_FIELDS: Final = {
    "requestCpus": ("cpus", "cpus"),
    "requestMemory": ("memory", "memory_b"),
    "requestDisk": ("disk", "disk_b"),
}
"""Resource name and field of the request, per configuration key."""


def lower_to_capacity(settings: JobSettings, capacity: Mapping[str, int]) -> tuple[JobSettings, list[str]]:
    """Lower what only the package's defaults ask for, and say so.

    A request of the user's is never touched: when it cannot be granted, that is an error of the service's check.

    Parameters
    ----------
    settings
        Settings of a profile.
    capacity
        The largest amount of each resource one job can have.

    Returns
    -------
    tuple
        The settings, and a note per request that was lowered.
    """
    notes = []
    lower: dict[str, int] = {}
    for key in settings.defaulted:
        resource, name = _FIELDS.get(key, ("", ""))
        asked = getattr(settings.request, name, None)
        there = capacity.get(resource)
        if asked is not None and there is not None and asked > there:
            lower[name] = there
            notes.append(f"'{key}' is {_shown(key, asked)} by default; lowered to the {_shown(key, there)} there are")
    if lower:
        settings = msgspec.structs.replace(settings, request=msgspec.structs.replace(settings.request, **lower))
    return settings, notes


def _shown(key: str, amount: int) -> str:
    return str(amount) if key == "requestCpus" else f"{amount // MIB} MiB"
