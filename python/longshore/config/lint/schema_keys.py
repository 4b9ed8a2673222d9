"""Names the keys and values that a schema of configurations knows at a place, for shell completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

_REFERENCE: Final = "#/$defs/"


class KnownKey(NamedTuple):
    """A key that a schema knows.

    Attributes
    ----------
    name
        The key, without the sections that it is in.
    description
        The first sentence of its description.
    is_section
        Whether it has keys of its own.
    is_value
        Whether it may be something else than a map.
    """

    name: str
    description: str
    is_section: bool
    is_value: bool


def find_keys(schema: Schema, path: Sequence[str]) -> Iterator[KnownKey]:
    """Yield the keys that a schema knows in a section, each once, in the order of the schema."""
    seen: set[str] = set()
    for entry in _entries_at(schema, path):
        for name in entry.get("properties", {}):
            if name not in seen:
                seen.add(name)
                yield _known_key(schema, [*path, name])


def find_choices(schema: Schema, path: Sequence[str]) -> Iterator[str]:
    """Yield the values that a schema allows for a key, as written in YAML; none where any value of a type may stand."""
    for entry in _entries_at(schema, path):
        yield from map(_written, entry.get("enum", ()))
        if "boolean" in _types(entry):
            yield from ("true", "false")


def takes_names(schema: Schema, path: Sequence[str]) -> bool:
    """Whether a section has keys with names of the user's choice, such as labels."""
    return any(isinstance(entry.get("additionalProperties"), dict) for entry in _entries_at(schema, path))


def _known_key(schema: Schema, path: Sequence[str]) -> KnownKey:
    entries = list(_entries_at(schema, path))
    text = next((entry["description"] for entry in entries if entry.get("description")), "")
    types = {kind for entry in entries for kind in _types(entry)}
    is_section = any(
        entry.get("properties") or isinstance(entry.get("additionalProperties"), dict) for entry in entries
    )
    return KnownKey(
        name=path[-1],
        description=text.partition(". ")[0].removesuffix("."),
        is_section=is_section,
        is_value=not is_section or not types <= {"object", "null"} or any("enum" in entry for entry in entries),
    )


def _entries_at(schema: Schema, path: Sequence[str]) -> Iterator[Schema]:
    """Yield the parts of a schema that describe the value at a path."""
    entries: list[Schema] = list(_parts(schema, schema))
    for name in path:
        below = [each for entry in entries if (each := _below(entry, name)) is not None]
        entries = [part for each in below for part in _parts(schema, each)]
    yield from entries


def _below(entry: Schema, name: str) -> Schema | None:
    found = entry.get("properties", {}).get(name, entry.get("additionalProperties"))
    return found if isinstance(found, dict) else None


def _parts(schema: Schema, entry: Schema) -> Iterator[Schema]:
    """Yield an entry and the entries that it is composed of."""
    yield entry
    name = str(entry.get("$ref", "")).removeprefix(_REFERENCE)
    if name in schema.get("$defs", {}):
        yield from _parts(schema, schema["$defs"][name])
    for word in ("allOf", "anyOf", "oneOf"):
        for each in entry.get(word, ()):
            yield from _parts(schema, each)


def _types(entry: Schema) -> Iterable[str]:
    kinds = entry.get("type", ())
    return (kinds,) if isinstance(kinds, str) else kinds


def _written(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
