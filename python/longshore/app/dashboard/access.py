"""Which requests the dashboard answers: reads of known addresses, with its token and from its own name (pure)."""

from __future__ import annotations

import hmac
import re
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

METHODS: Final = ("GET", "HEAD")
"""Methods of requests that change nothing."""
_LOCAL_NAMES: Final = frozenset({"127.0.0.1", "localhost", "[::1]"})
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:\s]+)(?::[0-9]{1,5})?", re.ASCII)
_LONGEST_PATH: Final = 2000


class Address(msgspec.Struct, frozen=True):
    """A page of the dashboard: that of a run, or the list of runs if `run` is empty."""

    run: str = ""


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not answered."""

    status: HTTPStatus
    why: str


def check_request(method: str, host: str | None, target: str, *, token: str) -> Address | Refusal:
    """Return the page that a request names, or why it is refused.

    `host` is the header of that name, `target` the path of the request. A page of another site that a browser was led
    to resolve to this host has another name, whatever the port; a forwarded port has the name ``localhost``.
    """
    if method not in METHODS:
        return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "The dashboard is only for looking: GET and HEAD.")
    if not is_local_name(host):
        return Refusal(HTTPStatus.FORBIDDEN, "The dashboard answers only to 127.0.0.1 and localhost.")
    if len(target) > _LONGEST_PATH:
        return Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, "The address is too long.")
    _, _, path = _path_of(target).partition("/")
    given, slash, rest = path.partition("/")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), token.encode()):
        return Refusal(
            HTTPStatus.FORBIDDEN,
            "The address lacks the token of this dashboard: open the one that its command printed.",
        )
    kind, _, run = rest.partition("/")
    if slash and not rest:
        return Address()
    if kind == "run" and run and "/" not in run:
        return Address(unquote(run))
    return Refusal(HTTPStatus.NOT_FOUND, "There is no such page.")


def is_local_name(host: str | None) -> bool:
    """Tell whether a header ``Host`` names this host as a user of the dashboard does."""
    found = _HOST.fullmatch(host or "")
    return found is not None and found["name"].lower() in _LOCAL_NAMES


def _path_of(target: str) -> str:
    """Return the path of a target; an empty one if it is no address."""
    try:
        return urlsplit(target).path
    except ValueError:
        return ""
