"""Makes entries of reference pages from rows of the table of keys: an anchor per key, its description first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import yaml
from msgspec import UNSET

from longshore.config.keys import JOB, PAYLOAD, PROFILE, ROOT, RUN, SITE, Key, Level
from longshore.model.values import YamlValue

_PLACES: Final[dict[Level, str]] = {
    JOB: "in every section",
    RUN: "at the root, under `payload`, `site.NAME` or `cloud.NAME`",
    PAYLOAD: "under `payload` or at the root",
    SITE: "in the profile of a site",
    PROFILE: "in the profile of a site",
    ROOT: "at the root",
}


_USERS: Final = {"bps": "plug-ins of BPS", "pilots": "jobs in pilots"}


def index(rows: Iterable[Key]) -> str:
    """Return a line with a link to each key, in the order of their names."""
    names = sorted({row.name for row in rows}, key=str.lower)
    return " · ".join(f"[`{name}`](#{anchor(name)})" for name in names)


def anchor(name: str) -> str:
    """Return the anchor that Sphinx and GitHub give the heading of a key."""
    return name.replace("[]", "").replace(".", "").lower()


def entries(rows: Iterable[Key], *, owner: str = "") -> Iterator[str]:
    """Yield the lines of the entries of some keys: name, description, and what a value may be."""
    for row in rows:
        yield f"### `{row.name}`\n"
        yield f"{row.description}\n"
        facts = "; ".join(_facts(row, owner))
        yield f"{facts[:1].upper()}{facts[1:]}.\n"


def _facts(row: Key, owner: str) -> Iterator[str]:
    name = row.type.name or "any value that is described in the text"
    yield f"{name} ({row.type.unit})" if row.type.unit else name
    if row.implied:
        yield f"default {_code(row.implied) if not row.implied.startswith('`') else row.implied}"
    elif row.default is not UNSET and not isinstance(row.default, dict):
        yield f"default {_code(_yaml(row.default))}"
    if row.graphs is not UNSET and not isinstance(row.graphs, dict):
        yield f"default for quantum graphs {_code(_yaml(row.graphs))}"
    if row.example is not UNSET and row.default is UNSET and row.graphs is UNSET:
        name = "" if row.steps[-1] == "NAME" else f"{row.steps[-1]}: "
        yield f"example {_code(name + _yaml(row.example))}"
    if "." not in row.name:
        yield _PLACES[row.level]
    if row.users and row.users != (owner,):
        yield f"used by {_users(row.users)}"
    if row.spellings:
        yield f"also {', '.join(f'`{other}`' for other in row.spellings)}"
    if row.series:
        yield "numbered for further ones"
    if row.bps:
        yield "as in BPS" if row.bps is True else f"`{row.bps}` in BPS"


def _users(users: Iterable[str]) -> str:
    names = [_USERS.get(user, f"`{user}`") for user in users]
    return f"{', '.join(names[:-1])} and {names[-1]}" if names[1:] else names[0]


def _code(text: str) -> str:
    text = " ".join(text.split())
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}" if text else "empty"


def _yaml(value: YamlValue) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False, allow_unicode=True)
    text = text.removesuffix("\n").removesuffix("\n...")
    return "" if text == "''" else text
