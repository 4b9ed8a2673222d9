"""Settings of a service that all batch systems have (pure functions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from longshore.config.values.quantities import parse_bool, parse_walltime
from longshore.errors import ConfigError
from longshore.model.values import YamlValue

HOPELESS_AFTER_S: Final = 600.0
"""Time that a job which can never start waits by default: enough for an operator who changes a limit."""


def own_map(service: str, settings: Mapping[str, object]) -> Mapping[str, YamlValue]:
    """Return the service's own map in the settings of a site or of an executor."""
    return cast("Mapping[str, YamlValue]", settings.get(service) or {})


def choice(service: str, own: Mapping[str, YamlValue], name: str, usual: str, other: str) -> str:
    """Read a key of a service's map that allows two words, `usual` (the default) and `other`.

    Raises `ConfigError` for any other value.
    """
    value = own.get(name) or usual
    if value not in (usual, other):
        raise ConfigError(f"'{service}.{name}' must be '{usual}' or '{other}', not '{value}'")
    return str(value)


def max_wait_s(service: str, own: Mapping[str, YamlValue]) -> float | None:
    """Return the longest wait in the queue by the merged maps of site and job; ``None`` for no limit.

    Raises `ConfigError` when the value is no time.
    """
    value = own.get("maxpendtime")
    return None if value is None else parse_walltime(value, f"{service}.maxpendtime")


def hopeless_after_s(service: str, own: Mapping[str, YamlValue]) -> float | None:
    """Return how long a job that can never start waits before it fails; ``None`` for as long as a person lets it.

    Raises `ConfigError` when the value is no time and not ``never``.
    """
    value = own.get("hopelessAfter")
    if value is None:
        return HOPELESS_AFTER_S
    return None if value == "never" else parse_walltime(value, f"{service}.hopelessAfter")


def on_submit_error(service: str, own: Mapping[str, YamlValue]) -> str:
    """Return what a refusal ends: the ``job`` or the ``run``."""
    return choice(service, own, "onSubmitError", "job", "run")


def wants_fence(service: str, own: Mapping[str, YamlValue]) -> bool:
    """Whether an attempt whose machine was lost ends only once no copy of it can live.

    Raises `ConfigError` when the setting is invalid.
    """
    value = own.get("fence")
    return False if value is None else parse_bool(value, f"{service}.fence")


def wants_native(service: str, settings: Mapping[str, object]) -> bool:
    """Whether runs with these executor settings have no engine.

    Raises `ConfigError` when the setting is invalid.
    """
    own = own_map(service, settings)
    if choice(service, own, "mode", "engine", "native") == "engine":
        return False
    if own.get("engineAs") == "job":
        raise ConfigError(f"'{service}.engineAs: job' means nothing with '{service}.mode: native', which has no engine")
    return True
