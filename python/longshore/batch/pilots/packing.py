"""Packing rule: which jobs run in pilots, and why others run as jobs of their own (pure functions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from longshore.batch.pilots.allocation_script import margin_s
from longshore.batch.pilots.settings import PilotSettings
from longshore.model.tasks import Scalar
from longshore.model.workflow import MIB, Request

PACKING_KEY: Final = "packing"
"""Attribute of jobs that says whether they run in pilots: ``pilot``, or missing."""
_TERMS_KEYS: Final = ("queue", "accountingGroup", "accountingUser")
"""Attributes that an allocation has one value of."""
_OWN_WORDS: Final = ("container", "longshore")
"""Keys of jobs' settings that are part of their commands."""


class PackingRule(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether jobs run in pilots.

    `settings` is the service's own map of the site, and `attributes` are those of the allocations.
    """

    pilot: PilotSettings
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict)
    attributes: Mapping[str, Scalar] = msgspec.field(default_factory=dict)

    def packs(self, attributes: Mapping[str, Scalar], settings: Mapping[str, Any], request: Request) -> bool:
        """Whether jobs with these values run in pilots."""
        return is_wanted(attributes) and not self.obstacle(attributes, settings, request)

    def obstacle(self, attributes: Mapping[str, Scalar], settings: Mapping[str, Any], request: Request) -> str:
        """Return why jobs that want it cannot run in pilots; empty if they can."""
        return _too_much(self.pilot, request) or self._other_terms(attributes, settings)

    def _other_terms(self, attributes: Mapping[str, Scalar], settings: Mapping[str, Any]) -> str:
        for key in _TERMS_KEYS:
            if key in attributes and attributes[key] != self.attributes.get(key):
                return f"'{key}' is not that of the pilots"
        if settings.get("launcher"):
            return "a launcher starts their commands"
        for key, value in settings.items():
            if key not in _OWN_WORDS and value not in (self.settings.get(key), _empty_of(self.settings.get(key))):
                return f"'{key}' is not that of the pilots"
        return ""


def is_wanted(attributes: Mapping[str, Scalar]) -> bool:
    """Whether jobs are to run in pilots where they can."""
    return attributes.get(PACKING_KEY) == "pilot"


def _too_much(pilot: PilotSettings, request: Request) -> str:
    """Return what of a request no pilot has; empty if it fits."""
    if request.cpus > pilot.cpus:
        return f"{request.cpus} processors are more than a pilot's {pilot.cpus}"
    if (request.memory_b or 0) > pilot.memory_b:
        return f"{(request.memory_b or 0) / MIB:.0f} MiB of memory are more than a pilot's {pilot.memory_b / MIB:.0f}"
    longest_s = pilot.walltime_s - margin_s(pilot.walltime_s)
    if (request.walltime_s or 0.0) > longest_s:
        return f"{request.walltime_s:.0f} s of run time are more than the {longest_s:.0f} s that a pilot has for jobs"
    if request.disk_b:
        return "pilots do not count disk"
    return f"pilots have no '{min(request.resources)}'" if any(request.resources.values()) else ""


def _empty_of(value: object) -> object:
    """Return what a missing value may also be written as."""
    return [] if value is None else value
