"""Settings of a service that all batch systems have (pure functions)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from longshore.config.values.quantities import parse_walltime
from longshore.contract.context import Context
from longshore.errors import ConfigError
from longshore.model.values import YamlValue

_SITE_KEYS: Final = ("account", "qos", "directives", "partitions")
"""Keys of a site's description that the scripts of a dialect may read, beside the service's own map."""


def executor_settings(service: str, ctx: Context) -> dict[str, Any]:
    """Return the executor's settings: the run's, and those of the site over them."""
    site_settings = ctx.site.settings
    settings = dict(ctx.settings.get("executor", {}))
    settings |= {name: site_settings[name] for name in (service, *_SITE_KEYS) if site_settings.get(name)}
    if lines := (site_settings.get("setup") or {}).get("submit"):
        settings["setup"] = list(lines)
    return settings


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


def on_submit_error(service: str, own: Mapping[str, YamlValue]) -> str:
    """Return what a refusal ends: the ``job`` or the ``run``."""
    return choice(service, own, "onSubmitError", "job", "run")


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
