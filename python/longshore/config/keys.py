"""The form of the table of keys: a row per key, the types of values, and the JSON Schemas that rows make.

A key of the configuration is described once, in a row: `longshore.config.core_keys` has those of every run, and each
service has its own, in the module that the entry point group ``longshore.keys`` names. The schemas of configurations
and profiles, the shipped defaults, the reference pages, shell completion and the checks of keys come from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, reduce
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from longshore.config.value_types import MAPS, RAW_LINES, Schema, ValueType
from longshore.model.values import YamlValue

Properties: TypeAlias = dict[str, Schema]
"""JSON Schema per key."""

REFERENCE: Final = "#/$defs/"
"""Beginning of a reference to a part of a schema."""


class Level(StrEnum):
    """Sections in which a key may stand, with the keys of the same level."""

    JOB = "job"
    """The root and every section: a value of each job."""
    RUN = "run"
    """The root, `payload`, and the sections of sites and clouds: a value of the whole run."""
    PAYLOAD = "payload"
    """The root and `payload`."""
    SITE = "site"
    """The profile of a site, a section of `site`, and the root, where it holds for all sites."""
    PROFILE = "profile"
    """The profile of a site, about the profile itself."""
    ROOT = "root"
    """The root only: a section with keys of its own."""


JOB: Final = Level.JOB
RUN: Final = Level.RUN
PAYLOAD: Final = Level.PAYLOAD
SITE: Final = Level.SITE
PROFILE: Final = Level.PROFILE
ROOT: Final = Level.ROOT

USERS: Final = "x-users"
"""Annotation of a key with the services that use it, by short names; all do where it is missing.

``bps`` stands for any plug-in of BPS. With ``pilots``, a service that has pilots uses the key for the jobs in them.
"""
BATCH: Final = ("slurm", "sge", "lsf")
ENGINES: Final = ("local", *BATCH)
ALL_BUT_BPS: Final = (*ENGINES, "htcondor")
KEEPERS: Final = ("local", "pilots")


# ------------------------------------------------------------------------------------------------------------- rows


class Key(msgspec.Struct, frozen=True):
    """A row of the table: all that is known of one key.

    Attributes
    ----------
    name
        The key. A key below another has the keys that lead to it in front: ``siteSelection.probe.timeout``. ``NAME`` is
        any name (``cluster.NAME.dimensions``), and ``[]`` stands behind a list of maps (``partitions[].memory``).
    type
        What its value may be.
    level
        Where it may stand.
    description
        What it says, in sentences; the first is shown by shells.
    default
        Its value in the shipped defaults; not set for none. A map has defaults of keys in that section.
    example
        A right value, for a key without a default.
    graphs
        Its value in the defaults for quantum graphs, where that differs.
    implied
        The default as people read it, where the code that uses the key supplies it and no shipped file has it.
    bps
        Whether BPS has it too, or BPS's name for it.
    users
        Short names of the services that use it, see `USERS`; empty for all. The rows of a service are its own.
    holds
        Levels whose keys may stand in the map.
    spellings
        Other names of it.
    series
        Whether its name with a number is a further one, such as ``command2``, and the last digit of the first.
    exclusive
        Whether it is an error in runs of services that do not use it.
    passed
        Whether its value reaches the service as it is: an attribute of jobs (`JobSettings.attributes`).
    """

    name: str
    type: ValueType
    level: Level
    description: str
    default: YamlValue | UnsetType = UNSET
    example: YamlValue | UnsetType = UNSET
    graphs: YamlValue | UnsetType = UNSET
    implied: str = ""
    bps: bool | str = False
    users: tuple[str, ...] = ()
    holds: tuple[Level, ...] = ()
    spellings: tuple[str, ...] = ()
    series: bool = False
    exclusive: bool = False
    passed: bool = False

    @property
    def steps(self) -> tuple[str, ...]:
        """The keys that lead to it, and itself."""
        return tuple(self.name.split("."))


class KeyTable(msgspec.Struct, frozen=True, dict=True):
    """The keys of one owner: of Longshore itself, or of a service.

    Attributes
    ----------
    title
        The owner's name for people.
    groups
        Rows by heading, in the order of pages and files; a row stands after the row of the map that it is in.
    map
        Key of a service's own map, which jobs and sites have; empty for none.
    bps_default
        Whether BPS uses the service where none is named.
    """

    title: str
    groups: Mapping[str, Sequence[Key]]
    map: str = ""
    bps_default: bool = False

    @cached_property
    def rows(self) -> tuple[Key, ...]:
        """All rows, in order."""
        return tuple(row for rows in self.groups.values() for row in rows)

    def of_user(self, service: str) -> KeyTable:
        """Return the table with a service as the user of each key that is in no map of the table."""
        own = {row.name for row in self.rows}
        groups = {
            heading: tuple(
                row if row.users or row.name.rpartition(".")[0] in own else replace(row, users=(service,))
                for row in rows
            )
            for heading, rows in self.groups.items()
        }
        return replace(self, groups=groups)

    def level(self, *levels: Level) -> tuple[Key, ...]:
        """Return the rows of some levels."""
        return tuple(row for row in self.rows if row.level in levels)

    def defaults(self) -> dict[str, YamlValue]:
        """Return the default values, as maps in each other."""
        found: dict[str, Any] = {}
        for row in self.rows:
            if row.default is not UNSET:
                *above, last = row.steps
                reduce(lambda place, step: place.setdefault(step, {}), above, found)[last] = row.default
        return found

    def below(self, name: str) -> tuple[Key, ...]:
        """Return the rows of the keys directly in a map, by its name."""
        depth = name.count(".") + 1
        return tuple(row for row in self.rows if row.name.startswith(f"{name}.") and row.name.count(".") == depth)

    def names(self, *levels: Level) -> tuple[str, ...]:
        """Return the names of the keys of some levels in the service's own map, without that of the map."""
        return tuple(row.steps[-1] for row in self.below(self.map) if row.level in levels)

    @property
    def raw_keys(self) -> tuple[str, ...]:
        """Keys of raw options beside the own map."""
        return tuple(row.name for row in self.level(JOB) if row.type is RAW_LINES)

    @property
    def added_keys(self) -> frozenset[str]:
        """Names of added job and run keys; for a map of Longshore's, the keys added to it."""
        own = {row.name for row in self.rows}
        top = {row.name for row in self.level(JOB, RUN) if len(row.steps) == 1}
        shared = {row.steps[1] for row in self.level(JOB, RUN) if len(row.steps) == 2 and row.steps[0] not in own}
        return frozenset(top - {self.map} | shared)

    @property
    def keys(self) -> frozenset[str]:
        """Names of the keys that a service adds, beside those in maps that others read too."""
        return frozenset(row.name for row in self.level(JOB, RUN, SITE) if "." not in row.name)


def bps_attribute(name: str) -> str:
    """Return the attribute of a job of BPS that has the value of a key: ``mail_to`` of ``mailTo``.

    The names are those of ``GenericWorkflowJob`` in ``lsst.ctrl.bps``.
    """
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


# ---------------------------------------------------------------------------------------------------- JSON Schemas


class _Node:
    """A key in the tree of keys; without a row where another owner describes the map that it is."""

    def __init__(self) -> None:
        self.row: Key | None = None
        self.below: dict[str, _Node] = {}


def properties_of(rows: Iterable[Key]) -> Properties:
    """Return the JSON Schema of each key at the top of some rows, with the keys in it; a key's first row holds."""
    top: dict[str, _Node] = {}
    for row in rows:
        nodes, node = top, _Node()
        for step in row.steps:
            node = nodes.setdefault(step.removesuffix("[]"), _Node())
            nodes = node.below
        node.row = node.row or row
    return _properties(top)


def _properties(nodes: Mapping[str, _Node]) -> Properties:
    found: Properties = {}
    for name, node in nodes.items():
        if node.row is None:
            found[name] = _with_keys_below({}, node)
            continue
        found[name] = _with_keys_below(_entry(node.row, name, node.row.description), node)
        for other in node.row.spellings:
            found[other] = _entry(node.row, other, f"Another name of {name}.")
        if node.row.series and not name[-1].isdigit():
            text = "{} of the second component of a heterogeneous job; further ones have consecutive numbers."
            found[f"{name}1"] = _entry(node.row, f"{name}1", text.format(f"The {name}"))
            for other in node.row.spellings:
                found[f"{other}1"] = _entry(node.row, f"{other}1", f"Another name of {name}1.")
    return found


def _with_keys_below(entry: Schema, node: _Node) -> Schema:
    """Return the schema of a map with those of its keys; of a list of maps, with those of each map's keys."""
    if not node.below:
        return entry
    named = node.below.get("NAME")
    below = _properties({name: each for name, each in node.below.items() if name != "NAME"})
    if node.row is not None and node.row.type is MAPS:
        required = [name for name, each in below.items() if "null" not in each.get("type", ("null",))]
        items = {"type": "object", "required": required, "additionalProperties": False, "properties": below}
        return {**entry, "items": items}
    if below:
        entry["properties"] = below
    for name, each in node.below.items():
        if each.row is not None and each.row.series and name[-1].isdigit():
            entry["patternProperties"] = {f"^{name.rstrip('0123456789')}[0-9]+$": dict(each.row.type.schema)}
    if named is not None and named.row is not None:
        entry["additionalProperties"] = _with_keys_below(_entry(named.row, "NAME", named.row.description), named)
    return entry


def _entry(row: Key, name: str, description: str) -> Schema:
    """Return the schema of one key, without the keys in it."""
    entry: Schema = {"title": _title(name), "description": description, **row.type.schema}
    if row.holds:
        entry["allOf"] = [{"$ref": f"{REFERENCE}{level}"} for level in row.holds]
    if row.type.unit:
        entry["x-unit"] = row.type.unit
    if row.users:
        entry[USERS] = list(row.users)
    return entry


def _title(name: str) -> str:
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name).replace("_", " ").lower()
    return words[:1].upper() + words[1:]
