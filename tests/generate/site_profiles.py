"""Makes the reference page of site profiles from their schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from longshore.config.schemas import site_schema

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "site-profiles.md"
OWN_PAGES = frozenset({"lsf", "sge", "slurm"})
"""Services whose keys have pages of their own."""

_HEAD = """# Site profiles

<!-- Made by `python -m tests.generate` from the schema; do not edit. -->

The keys of a site's profile. A profile can also have any [key of a configuration](configuration.md), as a default for
its jobs. [How to describe a site](../how-to/describe-a-site.md) shows profiles in use. A section `site.NAME` of a
configuration can have each of these keys. The root of a configuration can have `limits` and the keys below it in this
table, for all sites. The keys under `slurm` are in [Slurm](slurm.md), those under `lsf` in [LSF](lsf.md), and those
under `sge` in [Grid Engine](sge.md).
"""


def page() -> str:
    """The text of the page."""
    schema = site_schema()
    return "\n".join([_HEAD, *_table("Keys", schema), *_below(schema)]).rstrip() + "\n"


def _below(schema: dict[str, Any]) -> Iterator[str]:
    for key, value in schema["properties"].items():
        if key in OWN_PAGES:
            continue
        if "properties" in value:
            yield from _table(f"Under `{key}`", value)
        elif "properties" in value.get("items", {}):
            yield from _table(f"In each item of `{key}`", value["items"])


def _table(title: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "| key | type | |"
    yield "|---|---|---|"
    for key, value in schema["properties"].items():
        cells = (f"`{key}`", _type(value), value["description"])
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _type(value: dict[str, Any]) -> str:
    if "anyOf" in value:
        return " or ".join(_type(each) for each in value["anyOf"])
    if "enum" in value:
        return ", ".join(f"`{choice}`" for choice in value["enum"] if choice is not None)
    kinds = value.get("type", [])
    return " or ".join(kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null")
