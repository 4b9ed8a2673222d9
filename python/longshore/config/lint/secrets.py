"""Detects values that look like secrets (passwords, tokens), by the name of their key or by their form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from longshore.config.lint.schema_check import Finding, Severity
from longshore.config.values.merge import PACKAGED_LAYERS, Node

_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|secret|token$|api[_-]?key|access[_-]?key|private[_-]?key|credential", re.IGNORECASE
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|\bAKIA[0-9A-Z]{16}\b"
    r"|\bgh[pousr]_[A-Za-z0-9]{36}"
    r"|\bglpat-[\w-]{20}"
    r"|\bxox[abprs]-[\w-]{10}"
    r"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]+"
    r"|\b[a-z][a-z0-9+]{1,11}://[^\s/:@{}$<>]{1,100}:[^\s/@{}$<>]{1,100}@",
)
_MAX_SEARCHED = 20_000


def find_secrets(node: Node, key: str = "") -> Iterator[Finding]:
    """Warn of each user-written value that looks like a secret, without showing it."""
    if isinstance(node.value, dict):
        for name, below in node.value.items():
            yield from find_secrets(below, name)
    elif isinstance(node.value, list):
        for below in node.value:
            yield from find_secrets(below, key)
    elif (
        isinstance(node.value, str)
        and node.value
        and node.origin.layer not in PACKAGED_LAYERS
        and _is_secret(key, node.value)
    ):
        yield Finding(
            message=f"the value of '{key}' looks like a secret",
            origin=node.origin,
            hint="It would be written to the run directory. Name an environment variable or a file that holds it.",
            severity=Severity.WARNING,
            hidden=True,
        )


def hide_secrets(text: str) -> str:
    """Mask the parts of a text whose form looks like a secret."""
    return _SECRET_VALUE.sub("(hidden)", text)


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret, by its name or by the form of its value."""
    return bool(value) and _is_secret(name, value)


def _is_secret(key: str, value: str) -> bool:
    if _SECRET_VALUE.search(value[:_MAX_SEARCHED]):
        return True
    # A reference to a secret elsewhere, or the path of a file, is no secret.
    refers = any(mark in value for mark in "{$<") or value[0] in "~/." or " " in value
    return bool(_SECRET_NAME.search(key)) and not refers and not key.lower().endswith(("file", "path", "dir", "name"))
