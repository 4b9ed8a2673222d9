"""Reads how a site stages files: ``fileSystem`` and ``transferCommand``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from longshore.config.merge import Node, plain_value
from longshore.config.templates import Field, Part, Quotation, ShellContext, shell_contexts
from longshore.errors import ConfigError, Origin
from longshore.model.wording import did_you_mean, quote_value
from longshore.model.workflow import StagingRules

SCRATCH: Final = "scratch"
"""Value of ``fileSystem`` with which jobs run in scratch directories."""
_FILE_SYSTEMS: Final = ("shared", SCRATCH, "transfer")
TRANSFER_COMMAND: Final = "transferCommand"
_PLACES: Final = ("source", "target")
_NAMES: Final = ("in", "out", "urls")
_PLACE: Final = re.compile(r"(?<!\$)\{([^\W\d]\w*)\}")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")
_EXAMPLE: Final = "For example 'transferCommand: rsync -a {source} {target}'."


def read_staging(file_system: Node | None, command: Node | None) -> StagingRules | None:
    """Return the rules of a site by which files are staged; ``None`` if jobs use files where they lie.

    Parameters
    ----------
    file_system, command
        The site's ``fileSystem`` and ``transferCommand``.

    Raises
    ------
    ConfigError
        A command cannot be used, or has no effect.
    """
    is_scratch = file_system is not None and file_system.value == SCRATCH
    if file_system is not None and file_system.value not in (None, *_FILE_SYSTEMS):
        raise ConfigError(
            f"'fileSystem' must be one of {', '.join(_FILE_SYSTEMS)}, not {quote_value(plain_value(file_system))}",
            origin=file_system.origin,
            hint=did_you_mean(file_system.text, _FILE_SYSTEMS),
        )
    if command is None or command.value is None:
        return StagingRules() if is_scratch else None
    rules = _read_commands(command)
    if not is_scratch:
        raise ConfigError(
            f"'{TRANSFER_COMMAND}' has no effect without 'fileSystem: {SCRATCH}'",
            origin=command.origin,
            hint=f"Set 'fileSystem: {SCRATCH}', or leave '{TRANSFER_COMMAND}' out.",
        )
    return rules


def _read_commands(node: Node) -> StagingRules:
    if not isinstance(node.value, dict):
        line = _read_line(node, TRANSFER_COMMAND)
        return StagingRules(fetch=line, send=line)
    for name, below in node.value.items():
        if name not in _NAMES:
            hint = did_you_mean(name, _NAMES) or "It has 'in', 'out', and under 'urls' a command per scheme."
            raise ConfigError(f"'{TRANSFER_COMMAND}' has no '{name}'", origin=below.origin, hint=hint)
    lines = {
        name: _read_line(below, f"{TRANSFER_COMMAND}.{name}")
        for name, below in node.value.items()
        if name != "urls" and below.value is not None
    }
    urls = _read_urls(node.value["urls"]) if "urls" in node.value else {}
    return StagingRules(fetch=lines.get("in", ""), send=lines.get("out", ""), urls=urls)


def _read_urls(node: Node) -> Mapping[str, str]:
    key = f"{TRANSFER_COMMAND}.urls"
    if node.value is None:
        return {}
    if not isinstance(node.value, dict):
        raise ConfigError(
            f"'{key}' must be a map, not {quote_value(plain_value(node))}",
            origin=node.origin,
            hint="For example 'urls: {s3: \"aws s3 cp {source} {target}\"}'.",
        )
    for name, below in node.value.items():
        if not _SCHEME.fullmatch(name):
            hint = "It is what stands before '://', in lower case, such as s3."
            raise ConfigError(f"'{key}' has '{name}', which is no scheme of URLs", origin=below.origin, hint=hint)
    return {name: _read_line(below, f"{key}.{name}") for name, below in node.value.items() if below.value is not None}


def _read_line(node: Node, key: str) -> str:
    """Return a command as a line for a shell, in which ``"$1"`` is the source and ``"$2"`` the target."""
    text = node.value
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(
            f"'{key}' must be a command, not {quote_value(plain_value(node))}", origin=node.origin, hint=_EXAMPLE
        )
    if "\0" in text:
        raise ConfigError(f"'{key}' has a null character", origin=node.origin)
    pieces = _PLACE.split(text)
    parts: tuple[Part, ...] = tuple(Field(piece) if number % 2 else piece for number, piece in enumerate(pieces))
    names = [part.name for part in parts if isinstance(part, Field)]
    for name in names:
        if name not in _PLACES:
            hint = did_you_mean(name, _PLACES) or "It has {source} and {target}; variables of a shell are ${NAME}."
            raise ConfigError(f"'{key}' has the unknown placeholder '{{{name}}}'", origin=node.origin, hint=hint)
    for name in _PLACES:
        if name not in names:
            raise ConfigError(f"'{key}' lacks '{{{name}}}'", origin=node.origin, hint=_EXAMPLE)
    contexts = iter(shell_contexts(parts))
    return "".join(
        part if isinstance(part, str) else _argument(part.name, next(contexts), key, node.origin) for part in parts
    )


def _argument(name: str, context: ShellContext, key: str, origin: Origin) -> str:
    """Return the shell for a placeholder, whose value is one word, or a part of one."""
    number = _PLACES.index(name) + 1
    if not context.after_backslash:
        match context.quotation:
            case Quotation.NONE:
                return f'"${{{number}}}"'
            case Quotation.SINGLE:
                return f"'\"${{{number}}}\"'"
            case Quotation.DOUBLE:
                return f"${{{number}}}"
    raise ConfigError(
        f"'{{{name}}}' of '{key}' stands in {context.quotation.value}, where its value would not be exact",
        origin=origin,
        hint="Use it outside of scripts in quotation marks, or put the script into a file.",
    )
