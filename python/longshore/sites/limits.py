"""Limits of a site on runs and jobs: operators set them, users can only lower them (decision 0006)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from longshore.config.merge import Node, plain_value
from longshore.config.quantities import parse_count, parse_memory, parse_walltime
from longshore.errors import ConfigError, Origin
from longshore.model.values import YamlValue
from longshore.model.wording import name_all, quote_value
from longshore.model.workflow import MIB, WHOLE_NODE_B, WHOLE_NODE_CPUS, JobSettings, Request


class SiteLimit(msgspec.Struct, frozen=True, kw_only=True):
    """One limit; ``pollFloor`` is a minimum, all others are maxima."""

    amount: float
    """Bytes, seconds, a count, or a count per second."""
    written: str
    """The amount as written in the profile."""
    origin: Origin


PER_USER: Final = "perUser"
"""Section of the limits that count over all runs of a user."""
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]")
"""Signs that no name of a concurrency limit has."""
SiteLimits = dict[str, SiteLimit]
"""Limit per key of ``limits``."""

_RATE = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*(?:/\s*(\d{0,6})\s*(s|sec|second|min|minute|m|h|hour))?\s*", re.ASCII)
_RATE_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_REQUESTED: Final = {
    "cpus": ("requestCpus", "cpus"),
    "memory": ("requestMemory", "memory_b"),
    "walltime": ("requestWalltime", "walltime_s"),
    "perUser.cpus": ("requestCpus", "cpus"),
}
"""Configuration key and field of the request, per limit of one job."""


def read_limits(node: Node | None) -> SiteLimits:
    """Read a map ``limits``.

    Raises `ConfigError` if a limit is unknown or invalid.
    """
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise ConfigError(f"'limits' must be a map, not {quote_value(node.value)}", origin=node.origin)
    found: SiteLimits = {}
    for name, item in _flat_items(node.value):
        read = _READERS.get(name)
        if read is None:
            raise ConfigError(f"unknown limit '{name}'", origin=item.origin, hint=name_all(_READERS))
        if item.value is not None:
            amount = float(read(plain_value(item), f"limits.{name}", item.origin))
            found[name] = SiteLimit(amount=amount, written=item.text, origin=item.origin)
    return found


def _flat_items(items: Mapping[str, Node]) -> Iterator[tuple[str, Node]]:
    """Yield the limits of a map, those over all runs of a user with their section: ``perUser.jobs``."""
    for name, item in items.items():
        if name != PER_USER:
            yield name, item
        elif isinstance(item.value, dict):
            yield from ((f"{PER_USER}.{each}", below) for each, below in item.value.items())
        elif item.value is not None:
            raise ConfigError(
                f"'limits.{PER_USER}' must be a map, not {quote_value(plain_value(item))}",
                origin=item.origin,
                hint=f"For example '{PER_USER}: {{jobs: 500, cpus: 2000}}'.",
            )


def parse_rate(value: YamlValue, key: str, origin: Origin | None = None) -> float:
    """Submissions per second: a number, or such as ``10/s``, ``30/min``, ``10/5s``.

    Raises `ConfigError` if the text is not a rate.
    """
    found = None if isinstance(value, bool) else _RATE.fullmatch(str(value))
    seconds = int(found[2] or 1) * _RATE_UNITS[found[3][0]] if found and found[3] else 1
    if not found or not float(found[1]) or not seconds:
        raise ConfigError(
            f"'{key}' must be a number of submissions in a time, not {quote_value(value)}",
            origin=origin,
            hint="Accepted are a number per second (10), and such as 10/s, 30/min, 500/h.",
        )
    return float(found[1]) / seconds


def read_positive_count(value: YamlValue, key: str, origin: Origin | None) -> int:
    """Read a count of at least 1; raises `ConfigError` for another value."""
    return parse_count(value, key, origin, least=1)


_READERS: Final[dict[str, Callable[[YamlValue, str, Origin | None], float]]] = {
    "cpus": read_positive_count,
    "memory": parse_memory,
    "walltime": parse_walltime,
    "queued": read_positive_count,
    "running": read_positive_count,
    "arraySize": read_positive_count,
    "submitRate": parse_rate,
    "pollFloor": parse_walltime,
    "perUser.jobs": read_positive_count,
    "perUser.cpus": read_positive_count,
}


EXECUTOR_FIELDS: Final = {
    "queued": "max_waiting",
    "running": "max_active",
    "arraySize": "max_batch",
    "submitRate": "submit_per_s",
    "pollFloor": "poll_floor_s",
}
"""Field of `longshore.contract.executor.Limits` per limit of a run."""


def executor_limits(limits: SiteLimits) -> dict[str, float]:
    """Limits of a run, by the fields of an executor's limits."""
    return {
        field: limits[name].amount if name in {"submitRate", "pollFloor"} else int(limits[name].amount)
        for name, field in EXECUTOR_FIELDS.items()
        if name in limits
    }


def user_maximums(limits: SiteLimits, site: str) -> dict[str, int]:
    """Return the maximum of each concurrency limit by which engines keep the limits over all runs of a user."""
    return {
        user_limit(site, name): int(limit.amount) for name, limit in limits.items() if name.startswith(f"{PER_USER}.")
    }


def user_limit(site: str, name: str) -> str:
    """Return the name of the concurrency limit for a limit of a site, such as ``perUser.jobs``."""
    return f"{_NO_NAME.sub('_', site)}.{name}"


def job_ceilings(limits: SiteLimits) -> dict[str, float]:
    """Limits of one job, for a change of its request while the run lives."""
    return {name: limits[name].amount for name in _REQUESTED if name in limits}


def exceeded_ceilings(request: Request, ceilings: Mapping[str, float]) -> Iterator[str]:
    """Tell which ceilings of `job_ceilings` a request exceeds."""
    for name, (key, attribute) in _REQUESTED.items():
        asked, ceiling = getattr(request, attribute), ceilings.get(name)
        if asked is not None and ceiling is not None and asked > ceiling:
            most = _with_unit(name, ceiling)
            yield f"{_with_unit(name, asked)} of '{key}', and 'limits.{name}' of the site is {most}"


def lower_limits(ceilings: SiteLimits, own: SiteLimits, site: str) -> tuple[SiteLimits, list[str]]:
    """Lower the limits of a site by a user's own; a note per limit that the user tried to raise."""
    notes = []
    held = dict(ceilings)
    for name, limit in own.items():
        ceiling = ceilings.get(name)
        goes_beyond = ceiling is not None and (
            limit.amount < ceiling.amount if name == "pollFloor" else limit.amount > ceiling.amount
        )
        if ceiling is not None and goes_beyond:
            side = "below" if name == "pollFloor" else "above"
            notes.append(
                f"'limits.{name}' is {limit.written} ({limit.origin}), {side} the {ceiling.written} of the site "
                f"'{site}' ({ceiling.origin}), which holds"
            )
        else:
            held[name] = limit
    return held, notes


def lower_to_limits(
    settings: JobSettings, limits: SiteLimits, free: Collection[str], site: str
) -> tuple[JobSettings, list[str]]:
    """Lower the requests that no user chose to the limits, with a note each; memory never grows beyond its limit.

    `free` holds the configuration keys of the request that no user chose.
    """
    notes = []
    lower: dict[str, object] = {}
    for name, (key, attribute) in _REQUESTED.items():
        asked, limit = getattr(settings.request, attribute), limits.get(name)
        if key in free and asked is not None and limit is not None and asked > limit.amount:
            lower[attribute] = limit.amount if name == "walltime" else int(limit.amount)
            notes.append(
                f"'{key}' is {_with_unit(name, asked)} by default; lowered to {limit.written}, the 'limits.{name}' of "
                f"the site '{site}'"
            )
    if lower:
        settings = msgspec.structs.replace(settings, request=msgspec.structs.replace(settings.request, **lower))
    if (longest := limits.get("walltime")) is not None:
        settings = _walltime_within(settings, longest.amount)
    most = limits.get("memory")
    if most is None or "memoryMultiplier" not in settings.attributes:
        return settings, notes
    asked_most = settings.attributes.get("requestMemoryMax")
    if isinstance(asked_most, int) and asked_most > most.amount:
        notes.append(
            f"'requestMemoryMax' is {_with_unit('memory', asked_most)}; lowered to {most.written}, the 'limits.memory' "
            f"of the site '{site}'"
        )
    smallest = min(int(most.amount), asked_most) if isinstance(asked_most, int) else int(most.amount)
    return msgspec.structs.replace(settings, attributes={**settings.attributes, "requestMemoryMax": smallest}), notes


def _walltime_within(settings: JobSettings, most_s: float) -> JobSettings:
    """Cap the growth of run time."""
    growth = settings.rules.growth
    if growth.walltime is None:
        return settings
    capped = min(most_s, growth.walltime_most_s or most_s)
    grown = msgspec.structs.replace(growth, walltime_most_s=capped)
    return msgspec.structs.replace(settings, rules=msgspec.structs.replace(settings.rules, growth=grown))


def exceeded_limits(request: Request, limits: SiteLimits) -> Iterable[tuple[str, str, str, SiteLimit]]:
    """Limits that a request exceeds: name, configuration key, amount as text, and the limit."""
    for name, (key, attribute) in _REQUESTED.items():
        asked, limit = getattr(request, attribute), limits.get(name)
        if asked is not None and limit is not None and asked > limit.amount:
            yield name, key, _with_unit(name, asked), limit


def _with_unit(name: str, amount: float) -> str:
    if name == "memory" and amount == WHOLE_NODE_B:
        return "all memory of a node"
    if name == "memory":
        return f"{amount / MIB:.0f} MiB"
    if amount == WHOLE_NODE_CPUS:
        return "all processors of its nodes"
    if amount == math.inf:
        return "no time limit"
    return f"{amount:.0f} s" if name == "walltime" else f"{amount:.0f}"
