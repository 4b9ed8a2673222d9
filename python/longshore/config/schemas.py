"""JSON Schemas of configurations and site profiles, made of the tables of keys of Longshore and of services."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Final

from longshore.config.keys import JOB, PAYLOAD, PROFILE, ROOT, RUN, SITE, USERS, KeyTable, properties_of
from longshore.config.plugins import KEYS, SERVICES, Plugin, all_plugins
from longshore.config.schema import RENAMED_KEYS
from longshore.config.value_types import Schema

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_LEVELS: Final = {
    JOB: ("Values of jobs", "Keys for the root and for every section."),
    PAYLOAD: ("The payload", "Keys for payload and the root."),
    RUN: ("Values of a run", "Keys for the root and the command line."),
}


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
        "allOf": [{"$ref": "#/$defs/job"}, {"$ref": "#/$defs/run"}],
        "$defs": config["$defs"],
    }


def key_table(service: Plugin) -> KeyTable:
    """Return the keys that a service adds; none where its package registers no table that can be used."""
    table = _tables(tuple(sys.path)).get(service.name)
    return table if isinstance(table, KeyTable) else KeyTable(service.name, {})


def key_tables() -> tuple[KeyTable, ...]:
    """Return all tables that can be used, Longshore's own first."""
    return tuple(table for table in _tables(tuple(sys.path)).values() if isinstance(table, KeyTable))


def unusable_tables() -> tuple[str, ...]:
    """Return what is wrong with each table of another package that cannot be used, and so is left out."""
    return tuple(table for table in _tables(tuple(sys.path)).values() if isinstance(table, str))


def service_plugins() -> Iterator[Plugin]:
    """Iterate over registered services, each once, Longshore's own first."""
    seen: set[str] = set()
    for plugin in sorted(all_plugins(SERVICES).values(), key=lambda plugin: (not plugin.is_built_in, plugin.name)):
        if plugin.import_path not in seen:
            seen.add(plugin.import_path)
            yield plugin


@cache
def _tables(_path: tuple[str, ...]) -> dict[str, KeyTable | str]:
    """Return each table by the name of its owner, or what is wrong with it; cached per search path of packages."""
    plugins = sorted(all_plugins(KEYS).values(), key=lambda plugin: not plugin.is_built_in)
    return {plugin.name: plugin.load() if plugin.is_built_in else _load(plugin) for plugin in plugins}


def _load(plugin: Plugin) -> KeyTable | str:
    place = f"'{plugin.module}:{plugin.attribute}'"
    try:
        table = plugin.load()
    except Exception as error:  # noqa: BLE001 - code of another package may raise anything
        return f"the keys of '{plugin.name}' cannot be read from {place}: {type(error).__name__}: {error}"
    return table if isinstance(table, KeyTable) else f"{place}, which has the keys of '{plugin.name}', is no 'KeyTable'"


@cache
def _schemas(_path: tuple[str, ...]) -> tuple[Schema, Schema]:
    """Return the configuration and profile schemas, cached per search path of packages."""
    tables = {name: table for name, table in _tables(_path).items() if isinstance(table, KeyTable)}
    services = all_plugins(SERVICES)
    rows = [
        row for name, table in tables.items() for row in (table.of_user(name).rows if name in services else table.rows)
    ]
    maps = {table.map for table in tables.values()}
    in_map = [row for row in rows if row.steps[0] in maps]
    others = [row for row in rows if row.steps[0] not in maps]
    below = {level: properties_of(row for row in others if row.level == level) for level in (JOB, PAYLOAD, RUN)}
    # A service's own map is in the section of a label and in that of a site, whichever its keys are for.
    own = properties_of(in_map)
    of_jobs = {row.name for row in in_map if row.level == JOB and row.name in maps}
    below[JOB] |= {name: entry for name, entry in own.items() if name in of_jobs}
    profile = properties_of(row for row in others if row.level in (SITE, PROFILE)) | own
    definitions: Schema = {
        level.value: {"title": title, "description": text, "properties": below[level]}
        for level, (title, text) in _LEVELS.items()
    }
    definitions["site"] = {
        "title": "One site",
        "description": "Values for jobs at one site, and settings of its workload manager.",
        "allOf": [{"$ref": "#/$defs/job"}, {"$ref": "#/$defs/run"}],
        "properties": profile,
    }
    about_profile = {row.name for row in others if row.level == PROFILE} - {"limits"}
    definitions["place"] = {
        "title": "Of sites",
        "description": "Keys for the profile of a site, and for all sites in a user's configuration. Their types are "
        "those under site.",
        "properties": {
            key: {name: entry[name] for name in ("title", "description", USERS) if name in entry}
            for key, entry in profile.items()
            if key not in about_profile | RENAMED_KEYS.keys() | below[JOB].keys() | below[RUN].keys()
        },
    }
    config: Schema = {
        "$schema": _DIALECT,
        "$id": "urn:longshore:schema:config",
        "title": "Configuration of Longshore",
        "description": "A BPS configuration, as Longshore reads it. Other keys are the user's variables.",
        "type": "object",
        "allOf": [{"$ref": f"#/$defs/{name}"} for name in ("run", "payload", "job", "place")],
        "properties": properties_of(row for row in others if row.level == ROOT),
        "$defs": definitions,
    }
    site: Schema = {
        "$schema": _DIALECT,
        "$id": "urn:longshore:schema:site",
        "title": "Profile of a site",
        "description": "The profile of a site: a place where jobs run. It can also have any key of a configuration, "
        "such as requestMemory or environment, as a default for jobs of this site.",
        "type": "object",
        "properties": profile,
    }
    return config, site
