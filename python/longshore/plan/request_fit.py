"""Lowers default requests to the capacity of a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from longshore.model.workflow.job import JobSettings
from longshore.model.workflow.request import MIB

_FIELDS: Final = {
    "requestCpus": ("cpus", "cpus"),
    "requestMemory": ("memory", "memory_b"),
    "requestDisk": ("disk", "disk_b"),
}
"""Resource name and field of the request, per configuration key."""


def lower_to_capacity(settings: JobSettings, capacity: Mapping[str, int]) -> tuple[JobSettings, list[str]]:
    """Lower the requests that come from defaults to the largest amounts that one job can have.

    Returns the settings, and a note per lowered request. A user's own request never changes: if it cannot be granted,
    the service's check reports an error.
    """
    notes = []
    lower: dict[str, int] = {}
    for key in settings.defaulted:
        resource, name = _FIELDS.get(key, ("", ""))
        asked = getattr(settings.request, name, None)
        there = capacity.get(resource)
        if asked is not None and there is not None and asked > there:
            lower[name] = there
            notes.append(
                f"'{key}' is {_with_unit(key, asked)} by default; lowered to the available {_with_unit(key, there)}"
            )
    if lower:
        settings = msgspec.structs.replace(settings, request=msgspec.structs.replace(settings.request, **lower))
    return settings, notes


def _with_unit(key: str, amount: int) -> str:
    return str(amount) if key == "requestCpus" else f"{amount // MIB} MiB"
