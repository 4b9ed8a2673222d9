"""JSON Schemas of configurations and site profiles, composed of Longshore's keys and those of services."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from longshore.config.plugins import SERVICES, Plugin, all_plugins, shipped_path
from longshore.config.schema import PROFILE_ONLY_KEYS, RENAMED_KEYS, USERS
from longshore.errors import DECODE_ERRORS, ConfigError

Schema: TypeAlias = dict[str, Any]
"""JSON Schema that can be extended."""
Properties: TypeAlias = dict[str, Schema]
"""JSON Schema per key."""

_REFERENCE: Final = "#/$defs/"


class SchemaFragment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Schema fragment of a service: keys of jobs, of runs, and of a site's profile and section.

    `title` is the workload manager's display name. `bps_default` says that BPS uses the service where none is named.
    `exclusive` are added keys that are an error in runs of other services.
    """

    title: str
    job: Properties = {}
    run: Properties = {}
    site: Properties = {}
    bps_default: bool = False
    exclusive: tuple[str, ...] = ()

    @property
    def added_keys(self) -> frozenset[str]:
        """Names of added job and run keys; for a shared map, the keys added to it."""
        found: set[str] = set()
        for key, entry in (self.job | self.run).items():
            if key not in self.site:
                found |= {key} if "type" in entry else {*entry.get("properties", ())}
        return frozenset(found)

    @property
    def keys(self) -> frozenset[str]:
        """Names of the keys that the service adds, beside those in maps that others read too."""
        added = (key for key, entry in (self.job | self.run).items() if entry.keys() - {"properties"})
        return frozenset({*added, *self.site})


def configuration_schema() -> Schema:
    """Return the schema of configurations."""
    return _schemas(tuple(sys.path))[0]


def site_schema() -> Schema:
    """Return the schema of keys that only site profiles have."""
    return _schemas(tuple(sys.path))[1]


def profile_schema() -> Schema:
    """Return the schema of site profiles, including configuration keys they may hold."""
    config, site = configuration_schema(), site_schema()
    return {
        **site,
        "properties": {**config["properties"], **site["properties"]},
        "allOf": [{"$ref": f"{_REFERENCE}job"}, {"$ref": f"{_REFERENCE}run"}],
        "$defs": config["$defs"],
    }


def schema_fragment(plugin: Plugin) -> SchemaFragment:
    """Return the schema fragment of a service from `schema.json` of its package; raises `ConfigError` if invalid."""
    path = plugin.folder / "schema.json" if plugin.folder else None
    if path is None or not path.is_file():
        return SchemaFragment(plugin.name)
    try:
        document = msgspec.json.decode(path.read_bytes(), type=Schema)
        definitions: Schema = document["$defs"]
        parts = {part: definitions.get(part, {}).get("properties", {}) for part in ("job", "run", "site")}
        return msgspec.convert(
            {
                "title": document["title"],
                "bps_default": document.get("bpsDefault", False),
                "exclusive": document.get("exclusive", ()),
                **_inline_references(parts, definitions),
            },
            SchemaFragment,
        )
    except (AttributeError, KeyError, *DECODE_ERRORS) as error:
        raise ConfigError(f"the schema '{path}' of the service '{plugin.name}' cannot be used: {error!r}") from error


@cache
def _schemas(_path: tuple[str, ...]) -> tuple[Schema, Schema]:
    """Return the configuration and profile schemas, cached per search path of packages."""
    config: Schema = msgspec.json.decode(shipped_path("etc", "schema", "config.json").read_bytes())
    site: Schema = msgspec.json.decode(shipped_path("etc", "schema", "site.json").read_bytes())
    definitions = config["$defs"]
    job, run = definitions["job"]["properties"], definitions["run"]["properties"]
    for plugin in service_plugins():
        fragment = schema_fragment(plugin)
        _add_keys(job, fragment.job, plugin.name)
        _add_keys(run, fragment.run, plugin.name)
        _add_keys(site["properties"], fragment.site, plugin.name)
    definitions["site"]["properties"] = site["properties"]
    definitions["place"]["properties"] = {
        key: {name: entry[name] for name in ("title", "description", USERS) if name in entry}
        for key, entry in site["properties"].items()
        if key not in (PROFILE_ONLY_KEYS - {"limits"}) | RENAMED_KEYS.keys() | job.keys() | run.keys()
    }
    return config, site


def service_plugins() -> Iterator[Plugin]:
    """Iterate over registered services, each once, Longshore's own first."""
    seen: set[str] = set()
    for plugin in sorted(all_plugins(SERVICES).values(), key=lambda plugin: (not plugin.is_built_in, plugin.name)):
        if plugin.import_path not in seen:
            seen.add(plugin.import_path)
            yield plugin


def _add_keys(known: Properties, more: Properties, service: str) -> None:
    """Add unknown keys of a service, which alone uses them, also within maps; a known key keeps its schema."""
    for key, entry in more.items():
        if key not in known:
            known[key] = {**entry, USERS: [service]}
        elif "properties" in entry:
            _add_keys(known[key].setdefault("properties", {}), entry["properties"], service)


def _inline_references(value: Any, definitions: Schema) -> Any:
    """Return a schema with references to definitions inlined."""
    if isinstance(value, list):
        return [_inline_references(each, definitions) for each in value]
    if not isinstance(value, dict):
        return value
    name = str(value.get("$ref", "")).removeprefix(_REFERENCE)
    if name in definitions:
        return _inline_references(definitions[name], definitions)
    return {key: _inline_references(below, definitions) for key, below in value.items()}
