"""Makes the published schemas of JSON documents from the records that declare them."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.house.source_trees import MODULES, PACKAGE

from longshore.reports.documents.document import Document, ErrorDocument
from longshore.reports.documents.run import CountsEntry

FOLDER: Final = Path(__file__).resolve().parents[2] / "etc" / "schema"
_SUFFIX: Final = re.compile("(Document|Entry)$")
_WORD: Final = re.compile("(?<!^)(?=[A-Z])")
_REF: Final = "#/$defs/"


def document_schemas() -> dict[Path, str]:
    """Return the schema of each kind of document as it is published, by its file."""
    return {
        FOLDER / f"{kind}.json": json.dumps(_schema(kind, document), indent=2) + "\n" for kind, document in _documents()
    }


def _documents() -> Iterator[tuple[str, type[msgspec.Struct]]]:
    """Every record that is a whole document, with its kind."""
    for path in MODULES:
        words = path.relative_to(PACKAGE).with_suffix("").parts
        if "documents" in words and words[-1] != "__init__":
            importlib.import_module(".".join(("longshore", *words)))
    yield "error", ErrorDocument
    kinds = [Document]
    for document in kinds:
        kinds.extend(document.__subclasses__())
        kind = next(field.default for field in msgspec.structs.fields(document) if field.name == "kind")
        if isinstance(kind, str):
            yield kind, document


def _schema(kind: str, document: type[msgspec.Struct]) -> dict[str, Any]:
    _, parts = msgspec.json.schema_components([document], ref_template=_REF + "{name}")
    records = _records(document)
    described = {
        name: _part(records[name], part) if name in records else _plain(part) | {"title": _title(name)}
        for name, part in sorted(parts.items())
    }
    root = described.pop(document.__name__)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:longshore:schema:{kind}",
        **root,
        **({"$defs": {_snake(name): part for name, part in described.items()}} if described else {}),
    }


def _records(document: type[msgspec.Struct]) -> dict[str, type[msgspec.Struct]]:
    """All records that a document consists of, by their names."""
    found: dict[str, type[msgspec.Struct]] = {}
    types: list[Any] = [msgspec.inspect.type_info(document)]
    while types:
        info = types.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls.__name__ in found:
                continue
            found[info.cls.__name__] = info.cls
            types += [field.type for field in info.fields]
        for name in ("types", "item_type", "value_type", "item_types", "type"):
            below = getattr(info, name, ())
            types += below if isinstance(below, tuple) else [below]
    return found


def _part(record: type[msgspec.Struct], part: dict[str, Any]) -> dict[str, Any]:
    """The schema of a record: with a description for each member, and no member that is not wanted."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(record)}
    told = _descriptions(record)
    properties = {
        name: ({"description": told[fields[name].name]} if fields[name].name in told else {}) | _plain(member)
        for name, member in part["properties"].items()
    }
    return {
        "title": _title(record.__name__),
        "description": part["description"],
        "type": "object",
        "properties": properties,
        "required": [name for name, field in fields.items() if field.default is not msgspec.UNSET],
        "additionalProperties": record is not CountsEntry,
    }


def _plain(value: Any) -> Any:
    """A schema without defaults, which only readers need, and with our names of parts."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    plain = {key: _plain(each) for key, each in value.items() if key != "default"}
    if "$ref" in plain:
        plain["$ref"] = _REF + _snake(plain["$ref"].removeprefix(_REF))
    if len(plain.get("enum", ())) == 1:
        plain["const"] = plain.pop("enum")[0]
    return plain


def _snake(name: str) -> str:
    return _WORD.sub("_", _SUFFIX.sub("", name)).lower()


def _title(name: str) -> str:
    return _snake(name).replace("_", " ").capitalize()


def _descriptions(record: type[msgspec.Struct]) -> dict[str, str]:
    """The text below each member, also of those that are inherited."""
    found = {}
    for base in reversed(record.__mro__):
        if base.__module__.startswith("longshore."):
            body = ast.parse(inspect.getsource(base)).body[0]
            assert isinstance(body, ast.ClassDef)
            for member, below in zip(body.body, body.body[1:], strict=False):
                if isinstance(member, ast.AnnAssign) and isinstance(below, ast.Expr):
                    assert isinstance(member.target, ast.Name)
                    assert isinstance(below.value, ast.Constant)
                    found[member.target.id] = " ".join(str(below.value.value).split())
    return found
