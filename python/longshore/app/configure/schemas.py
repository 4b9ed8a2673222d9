"""Composes the schemas of configurations and of site profiles from Longshore's own keys and those of services."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from longshore.errors import ConfigError
from longshore.sites.profile import PROFILE_ONLY_KEYS, RENAMED_KEYS
from longshore.world.plugins import SERVICES, Plugin, registered
from longshore.world.shipped_files import shipped

Properties: TypeAlias = dict[str, dict[str, Any]]
"""JSON Schema per key."""

_REFERENCE: Final = "#/$defs/"


class Fragment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys that a service adds.

    Attributes
    ----------
    title
        Name of its workload manager, for people.
    job
        Keys that can stand wherever values of jobs can.
    run
        Keys of a run as a whole.
    site
        Keys of a site's profile and section.
    """

    title: str
    job: Properties = {}
    run: Properties = {}
    site: Properties = {}

    @property
    def added(self) -> frozenset[str]:
        """Names of keys of jobs and runs; of a map that others have too, those it adds to the map."""
        found: set[str] = set()
        for key, entry in (self.job | self.run).items():
            if key not in self.site:
                found |= {key} if "type" in entry else {*entry.get("properties", ())}
        return frozenset(found)


def configuration_schema() -> dict[str, Any]:
    """The schema of configurations."""
    return _schemas(tuple(sys.path))[0]


def site_schema() -> dict[str, Any]:
    """The schema of what only profiles of sites have."""
    return _schemas(tuple(sys.path))[1]


def profile_schema() -> dict[str, Any]:
    """The schema of a profile with all keys of a configuration that it can have beside its own."""
    config, site = configuration_schema(), site_schema()
    return {
        **site,
        "properties": {**config["properties"], **site["properties"]},
        "allOf": [{"$ref": f"{_REFERENCE}job"}, {"$ref": f"{_REFERENCE}run"}],
        "$defs": config["$defs"],
    }


def schema_fragment(plugin: Plugin) -> Fragment:
    """The keys that a service adds, from the file `schema.json` of its package.

    Raises
    ------
    ConfigError
        The file is no such schema.
    """
    path = plugin.folder / "schema.json" if plugin.folder else None
    if path is None or not path.is_file():
        return Fragment(plugin.name)
    try:
        document = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
        definitions: Mapping[str, Any] = document["$defs"]
        parts = {part: definitions.get(part, {}).get("properties", {}) for part in ("job", "run", "site")}
        return msgspec.convert({"title": document["title"], **_without_references(parts, definitions)}, Fragment)
    except (msgspec.MsgspecError, AttributeError, KeyError, RecursionError) as error:
        raise ConfigError(f"the schema '{path}' of the service '{plugin.name}' cannot be used: {error!r}") from error


@cache
def _schemas(_path: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schemas of configurations and of what only profiles have, for one search path of packages."""
    config: dict[str, Any] = msgspec.json.decode(shipped("etc", "schema", "config.json").read_bytes())
    site: dict[str, Any] = msgspec.json.decode(shipped("etc", "schema", "site.json").read_bytes())
    definitions = config["$defs"]
    job, run = definitions["job"]["properties"], definitions["run"]["properties"]
    for fragment in map(schema_fragment, _services()):
        _add(job, fragment.job)
        _add(run, fragment.run)
        _add(site["properties"], fragment.site)
    definitions["site"]["properties"] = site["properties"]
    definitions["place"]["properties"] = {
        key: {name: entry[name] for name in ("title", "description") if name in entry}
        for key, entry in site["properties"].items()
        if key not in (PROFILE_ONLY_KEYS - {"limits"}) | RENAMED_KEYS.keys() | job.keys() | run.keys()
    }
    return config, site


def _services() -> Iterator[Plugin]:
    """Each registered service once, Longshore's own first."""
    seen: set[str] = set()
    for plugin in sorted(registered(SERVICES).values(), key=lambda plugin: (not plugin.built_in, plugin.name)):
        if plugin.dotted not in seen:
            seen.add(plugin.dotted)
            yield plugin


def _add(known: Properties, more: Properties) -> None:
    """Add the keys that are not known, also those of maps; a key that is known keeps its schema."""
    for key, entry in more.items():
        if key not in known:
            known[key] = entry
        elif "properties" in entry:
            _add(known[key].setdefault("properties", {}), entry["properties"])


def _without_references(value: Any, definitions: Mapping[str, Any]) -> Any:
    """A part of a schema in which each reference to one of the definitions is replaced by that."""
    if isinstance(value, list):
        return [_without_references(each, definitions) for each in value]
    if not isinstance(value, dict):
        return value
    name = str(value.get("$ref", "")).removeprefix(_REFERENCE)
    if name in definitions:
        return _without_references(definitions[name], definitions)
    return {key: _without_references(below, definitions) for key, below in value.items()}
