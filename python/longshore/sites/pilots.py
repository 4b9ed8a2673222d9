"""Settings of pilots, as a site or a run writes them; apart because they are no limits and no requests of jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from longshore.config.merge import Node, plain_value
from longshore.config.quantities import parse_memory, parse_walltime
from longshore.errors import ConfigError, Origin
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all, quote_value
from longshore.model.workflow import MIB
from longshore.sites.limits import read_positive_count

SHORT_JOB_S: Final = 60.0
"""Run time in seconds below which ``packing: auto`` chooses pilots, where it is not written."""
MEMORY_PER_CPU_B: Final = 2048 * MIB
"""Memory of a pilot per processor, where it is not written."""
LEAST_LEASE_S: Final = 30.0
"""Shortest lease: a file system that is slow for some seconds must not stop all pilots."""
_LEAST_WALLTIME_S: Final = 60.0


def read_pilot(node: Node | None) -> dict[str, float]:
    """Read the written keys of a map ``pilot`` as fields of `PilotSettings`.

    Raises `ConfigError` if a key is unknown or a value invalid.
    """
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise ConfigError(f"'pilot' must be a map, not {quote_value(plain_value(node))}", origin=node.origin)
    found: dict[str, float] = {}
    for name, item in node.value.items():
        if name not in _READERS:
            raise ConfigError(
                f"'pilot' has no key '{name}'",
                origin=item.origin,
                hint=did_you_mean(name, list(_READERS), likeness=NAME_LIKENESS) or name_all(_READERS),
            )
        if item.value is not None:
            field, read = _READERS[name]
            found[field] = read(plain_value(item), f"pilot.{name}", item.origin)
    return found


def _read_seconds(least_s: float) -> Callable[[YamlValue, str, Origin | None], float]:
    """Return a reader of times that are not shorter."""

    def read(value: YamlValue, key: str, origin: Origin | None) -> float:
        seconds = parse_walltime(value, key, origin)
        if seconds < least_s:
            raise ConfigError(f"'{key}' must be at least {least_s:.0f} s, not {quote_value(value)}", origin=origin)
        return seconds

    return read


_READERS: Final[dict[str, tuple[str, Callable[[YamlValue, str, Origin | None], float]]]] = {
    "cpus": ("cpus", read_positive_count),
    "memory": ("memory_b", parse_memory),
    "walltime": ("walltime_s", _read_seconds(_LEAST_WALLTIME_S)),
    "count": ("count", read_positive_count),
    "nodes": ("nodes", read_positive_count),
    "idle": ("idle_s", _read_seconds(1.0)),
    "shortJob": ("short_job_s", _read_seconds(0.0)),
    "lease": ("lease_s", _read_seconds(LEAST_LEASE_S)),
}
"""Field of the kit's settings, and reader, per key."""
