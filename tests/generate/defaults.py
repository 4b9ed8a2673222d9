"""Makes the files of shipped defaults from the tables of keys: every key with its description above it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import UNSET

from longshore.config.keys import PAYLOAD, PROFILE, SITE, Key, KeyTable
from longshore.config.plugins import built_in_plugins
from longshore.config.schemas import key_tables

ROOT: Final = Path(__file__).resolve().parents[2]
SERVICES: Final = ROOT / "python" / "longshore" / "services"
CORE: Final = ROOT / "etc" / "defaults.yaml"
GRAPHS: Final = ROOT / "etc" / "lsst.yaml"
_WIDTH: Final = 120
_HEAD: Final = """# {}
#
# Made by `python -m tests.generate` from the tables of keys; do not edit. Every key has its description above it. A key
# without a default is commented out, as `#key: example`. Keys of a commented section follow it, indented; NAME is any
# name.
"""


def files() -> dict[Path, str]:
    """Return the text of each file of defaults."""
    core, graphs, _, *_ = key_tables()
    texts = {
        CORE: _text("The defaults of Longshore: the weakest layer of every configuration.", core, core.rows, "default"),
        GRAPHS: _text(
            "The defaults of LSST pipelines: a second layer of defaults, for quantum graphs only.",
            KeyTable("", {"other defaults than those of every run": _graph_rows(core), **graphs.groups}),
            (*core.rows, *graphs.rows),
            "graphs",
        ),
    }
    for name, plugin in built_in_plugins("longshore.keys").items():
        if "services" in plugin.module:
            table = plugin.load()
            title = f"The defaults of {table.title}, weaker than the configuration of users and sites."
            texts[SERVICES / name / "defaults.yaml"] = _text(
                title, table, (*core.rows, *graphs.rows, *table.rows), "default"
            )
    return texts


def _graph_rows(core: KeyTable) -> tuple[Key, ...]:
    return tuple(row for row in core.rows if row.graphs is not UNSET)


def _text(title: str, table: KeyTable, known: tuple[Key, ...], column: str) -> str:
    """Return the text of a file; `column` has the defaults, `known` the rows that describe keys of maps."""
    texts = {row.name: row.description for row in reversed(known)}
    lines: list[str] = []
    for heading, rows in table.groups.items():
        body = list(_body(tuple(rows), texts, column))
        if body:
            lines += ["", f"# {heading.rjust(_WIDTH - 2, '-').replace('-' + heading, ' ' + heading)}", *body]
    text = _HEAD.format(title) + "\n".join(lines).rstrip() + "\n"
    return text if yaml.safe_load(text) else text + "{}\n"


def _body(rows: tuple[Key, ...], texts: Mapping[str, str], column: str) -> Iterator[str]:
    rows = tuple(row for row in rows if row.level not in (SITE, PROFILE) or "." in row.name)
    top = [row for row in rows if "." not in row.name or _parent(row) not in {each.name for each in rows}]
    payload = [row for row in top if row.level is PAYLOAD]
    for row in top:
        if row.name == "payload" or ([row] == payload[:1] and "payload" not in {each.name for each in top}):
            yield from _payload(payload, rows, texts, column)
        elif row.level is not PAYLOAD:
            yield from _key(row, rows, texts, column, 0)


def _payload(payload: list[Key], rows: tuple[Key, ...], texts: Mapping[str, str], column: str) -> Iterator[str]:
    yield from ("", *_comment(texts["payload"], 0), "payload:")
    below = [line for row in payload for line in _key(row, rows, texts, column, 1)]
    yield from below[1:]


def _parent(row: Key) -> str:
    return row.name.rpartition(".")[0]


def _key(row: Key, rows: tuple[Key, ...], texts: Mapping[str, str], column: str, depth: int) -> Iterator[str]:
    """Yield the lines of a key: a blank, its description, the key, and the keys below it."""
    value = getattr(row, column)
    indent = "  " * depth
    above = row.steps[:-1]
    if above and _parent(row) not in {each.name for each in rows}:
        # The map is described in another table.
        for step, outer in enumerate(above):
            mark = "" if value is not UNSET else "#"
            yield from ("", *_comment(texts[".".join(above[: step + 1])], depth + step), f"{indent}{mark}{outer}:")
            indent += "  "
        yield from list(_below(row, rows, texts, column, depth + len(above)))[1:]
        return
    yield from _below(row, rows, texts, column, depth)


def _below(row: Key, rows: tuple[Key, ...], texts: Mapping[str, str], column: str, depth: int) -> Iterator[str]:
    name, value = row.steps[-1], getattr(row, column)
    indent = "  " * depth
    below = [each for each in rows if _parent(each) == row.name]
    if isinstance(value, dict) or any(_has_default(each, rows, column) for each in below):
        yield from ("", *_comment(row.description, depth), f"{indent}{name}:")
        inner = []
        for key, item in (value if isinstance(value, dict) else {}).items():
            text = texts.get(f"{row.name}.{key}", texts.get(key, ""))
            inner += ["", *_comment(text, depth + 1), *_entry(key, item, f"{indent}  ")]
        for each in below:
            inner += _key(each, rows, texts, column, depth + 1)
        yield from inner[1:]
        return
    yield from _key_lines(row, value, texts, indent)
    for each in below:
        yield from _key(each, rows, texts, column, depth + 1)


def _key_lines(row: Key, value: Any, texts: Mapping[str, str], indent: str) -> Iterator[str]:
    name = row.steps[-1]
    yield from ("", *_comment(row.description, len(indent) // 2))
    if value is not UNSET:
        yield from _entry(name, value, indent)
    elif name == "NAME" or row.example is UNSET:
        yield f"{indent}#{name}:"
    else:
        yield f"{indent}#{name}: {_flow(row.example)}"


def _has_default(row: Key, rows: tuple[Key, ...], column: str) -> bool:
    return getattr(row, column) is not UNSET or any(
        _has_default(each, rows, column) for each in rows if _parent(each) == row.name
    )


def _comment(text: str, depth: int) -> list[str]:
    prefix = "  " * depth + "# "
    return textwrap.wrap(text, _WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)


def _entry(name: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value:
        yield f"{indent}{name}: |"
        yield from (f"{indent}  {line}" for line in value.splitlines())
    elif isinstance(value, str) and len(value) > _WIDTH - len(name) - 6:
        yield f"{indent}{name}: >-"
        prefix = f"{indent}  "
        yield from textwrap.wrap(value, _WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False)
    else:
        yield f"{indent}{name}: {_flow(value)}"


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
