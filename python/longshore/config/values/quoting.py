"""Values of the configuration as errors show them: as written, with the way to quote what YAML reads otherwise."""

from __future__ import annotations

import re
from typing import Final

from longshore.config.values.merge import Node, plain_value
from longshore.model.wording import quote_value

_WORD: Final = re.compile(r"[A-Za-z_][\w.:]*")


def quote_node(node: Node) -> str:
    """Return a value in quotes, as it was written: ``yes``, not the truth value that it is."""
    name = _placeholder(node)
    if node.value is None:
        return "'null'"
    return quote_value(f"{{{name}}}" if name else node.written or plain_value(node))


def quoting_hint(node: Node) -> str:
    """Return how to write a value that is meant as text."""
    if name := _placeholder(node):
        return f"Quote it: '{{{name}}}'. Without quotation marks a brace opens a map."
    if node.value is None:
        return 'Give it a value; an empty text is written "".'
    word = node.written or (str(node.value).lower() if isinstance(node.value, bool) else "")
    if word:
        return f"Quote it if the word is meant: '{word}'."
    return "Words such as true and no must be quoted in YAML to be text."


def is_placeholder(node: Node) -> bool:
    """Tell whether a value is a placeholder that lacks its quotation marks."""
    return bool(_placeholder(node))


def _placeholder(node: Node) -> str:
    """Return the name of an unquoted placeholder, which YAML reads as a map with one key; empty for other values."""
    value = node.value
    if not isinstance(value, dict) or len(value) != 1:
        return ""
    name, below = next(iter(value.items()))
    return name if below.value is None and _WORD.fullmatch(name) else ""
