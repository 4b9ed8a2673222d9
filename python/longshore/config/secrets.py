"""Finds values that look like secrets (passwords, tokens), by the name of their key or by their form."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from longshore.config.merge import PACKAGED_LAYERS, Node
from longshore.config.schema import Finding, Severity
from longshore.model.values import YamlValue

_SECRET_NAME = re.compile(
    r"pass(word|wd|phrase)|secret|token(?![\w.-])|api[_-]?key|access[_-]?key|private[_-]?key|credential", re.IGNORECASE
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
HIDDEN = "(hidden)"
"""What stands for a secret."""
_MAX_SEARCHED = 20_000
_REFERENCE = re.compile(r"\$<\w+>|\$\{\w[^}]*\}|\$\w+|<\w+:[^<>]*>|\{[^{}]*\}", re.ASCII)
"""A value elsewhere that a text names: an environment variable, a file or a key."""
_VARIABLE = re.compile(r"\$<(\w+)>|\$\{(\w+)", re.ASCII)
"""An environment variable that a text names."""
_FILE_PATH = re.compile(r"(~|\.\.?)?(/[\w.-]+)+/?", re.ASCII)
_NAMED_VALUE = re.compile(
    r"(?<![\w-])(?:(?P<option>--?)?(?P<name>[A-Za-z][\w-]*)(?:=|(?(option)[ \t]+|(?!)))"
    r"(?P<mark>['\"]?))(?P<value>[^\s'\"$<>{}()~/;|&-][^\s'\";|&]*)"
)
"""``--token X``, ``--token=X`` and ``TOKEN=X``, unless X is a reference or a path."""
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
_PART = re.compile("[A-Za-z0-9]+")
_SHORTEST_PART = 4
"""Characters of a secret that is looked for inside of words."""
_SHORTEST_NUMBER = 4
"""Digits of a number that may be a secret; smaller ones are counts."""


def find_secrets(node: Node) -> Iterator[Finding]:
    """Warn of each user-written value that looks like a secret, without showing it."""
    for key, leaf in _leaves(node):
        text = leaf.value
        if isinstance(text, str) and text and leaf.origin.layer not in PACKAGED_LAYERS and _is_secret(key, text):
            yield Finding(
                message=f"the value of '{key}' looks like a secret",
                origin=leaf.origin,
                hint="Only you can read the run's files that hold it. Name an environment variable or a file instead.",
                severity=Severity.WARNING,
                hidden=True,
            )


def literal_secrets(node: Node) -> Iterator[str]:
    """Yield the texts of a layer that may be secrets, by the name of their key or by their form.

    Unlike `find_secrets`, this rather takes too much: numbers, texts with spaces, and what stands beside a reference.
    """
    for key, leaf in _leaves(node):
        yield from _literals(key, leaf.value)
        if leaf.written and any(_literals(key, leaf.value)):
            yield leaf.written


def _literals(key: str, value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from (found[0] for found in _SECRET_VALUE.finditer(value))
        literal = _REFERENCE.sub("", value)
        if _is_secret_key(key) and literal.strip() and not _FILE_PATH.fullmatch(value):
            yield literal
    elif isinstance(value, int | float) and _is_secret_number(key, value):
        yield str(value)


def secret_variables(node: Node) -> Iterator[str]:
    """Yield the names of the environment variables of a layer that may hold secrets."""
    for key, leaf in _leaves(node):
        yield from _variables(key, leaf.value)


def _variables(key: str, value: object) -> Iterator[str]:
    if isinstance(value, str):
        names = (found[1] or found[2] for found in _VARIABLE.finditer(value))
        yield from (name for name in names if _is_secret_key(key) or _is_secret_key(name))


def may_have_secrets(text: str) -> bool:
    """Whether a text has the name of a secret, or the form of one."""
    return bool(_SECRET_NAME.search(text) or _SECRET_VALUE.search(text))


def _leaves(node: Node, key: str = "") -> Iterator[tuple[str, Node]]:
    """Yield each scalar with its key; elements of a list have the key of the list."""
    if isinstance(node.value, dict):
        for name, below in node.value.items():
            yield from _leaves(below, name)
    elif isinstance(node.value, list):
        for below in node.value:
            yield from _leaves(below, key)
    else:
        yield key, node


def hide_words(words: Iterable[str], known: Collection[str] = ()) -> tuple[str, ...]:
    """Mask the secrets of a list of words, also a word that follows an option such as ``--token``."""
    shown: list[str] = []
    option = ""
    for word in words:
        pair = f"{option} {word}"
        is_value = bool(option) and word != "" and hide_secrets(pair) == f"{option} {HIDDEN}"
        shown.append(HIDDEN if is_value else hide_secrets(word, known))
        option = word if _OPTION.fullmatch(word) else ""
    return tuple(shown)


def hide_secrets(text: str, known: Iterable[str] = ()) -> str:
    """Mask the parts of a text that are secrets, as `secret_spans` finds them."""
    end, parts = 0, []
    for first, last in secret_spans(text, known):
        parts += [text[end:first], HIDDEN]
        end = last
    return "".join([*parts, text[end:]])


def secret_spans(text: str, known: Iterable[str] = ()) -> list[tuple[int, int]]:
    """Where a text has secrets: known ones, what has the form of one, and what an option or variable names as one.

    A known secret is found in quotation marks too, which may change all but its letters and digits.
    """
    spans = [found.span() for found in _SECRET_VALUE.finditer(text)]
    spans += [
        found.span("value") for found in _NAMED_VALUE.finditer(text) if _is_secret_key(found["name"].replace("-", "_"))
    ]
    for secret in known:
        if secret.strip():
            spans += [found.span() for found in re.finditer(_expression(secret.strip()), text)]
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _expression(secret: str) -> str:
    """Regular expression of a known secret."""
    exact = re.escape(secret)
    parts = _PART.findall(secret)
    if len(secret) < _SHORTEST_PART:
        # A short one would be found in many words.
        return rf"(?<![A-Za-z0-9]){exact}(?![A-Za-z0-9])"
    if len(parts) < 2:
        return exact
    return rf"{exact}|{'[^A-Za-z0-9]{1,12}'.join(parts)}"


def mask_secrets(key: str, value: YamlValue, known: Collection[str] = ()) -> YamlValue:
    """Return a value whose parts are masked that are known secrets, or look like secrets by key or by form.

    As `literal_secrets`, this rather masks too much; references to environment variables and files stay.
    """
    if isinstance(value, dict):
        return {name: mask_secrets(name, below, known) for name, below in value.items()}
    if isinstance(value, list):
        texts = iter(hide_words((each for each in value if isinstance(each, str)), known))
        return [mask_secrets(key, next(texts) if isinstance(each, str) else each, known) for each in value]
    if isinstance(value, str):
        literal = _REFERENCE.sub("", value).strip()
        is_literal = bool(literal) and not _FILE_PATH.fullmatch(value)
        return HIDDEN if _is_secret_key(key) and is_literal else hide_secrets(value, known)
    return HIDDEN if isinstance(value, int | float) and _is_secret_number(key, value) else value


def looks_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret, by its name or by the form of its value."""
    return bool(value) and _is_secret(name, value)


def _is_secret(key: str, value: str) -> bool:
    if _SECRET_VALUE.search(value[:_MAX_SEARCHED]):
        return True
    # A reference to a secret elsewhere, or the path of a file, is no secret.
    refers = any(mark in value for mark in "{$<") or value[0] in "~/." or " " in value
    return _is_secret_key(key) and not refers


def _is_secret_number(key: str, value: float) -> bool:
    is_long = not isinstance(value, bool) and len(str(value)) >= _SHORTEST_NUMBER
    return is_long and _is_secret_key(key)


def _is_secret_key(key: str) -> bool:
    return bool(_SECRET_NAME.search(key)) and not key.lower().endswith(("file", "path", "dir", "name"))
