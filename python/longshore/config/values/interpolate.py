"""Interpolates ``{name}`` in values, through other values; refuses a value that refers to itself."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from typing import Protocol

from longshore.config.values.bps_eval import (
    BPS_EVAL,
    FunctionCaller,
    evaluated_parts,
    open_quotation,
    quote_argument,
)
from longshore.config.values.scope import RawValue, Scope
from longshore.config.values.shell_contexts import Quotation, is_value, shell_contexts
from longshore.config.values.templates import (
    ATTEMPT_MARK,
    ATTEMPT_NAME,
    Data,
    Field,
    Part,
    Parts,
    Template,
    Word,
    expand_env,
    format_value,
    join_parts,
    parts_text,
    plain_parts,
    protect_data,
    split_angled,
    split_variables,
)
from longshore.errors import CodeRefusedError, ConfigError, ReferenceCycleError, UndefinedVariableError
from longshore.model.values import YamlValue
from longshore.origin import Origin

_MAX_DEPTH = 100
_MAX_LENGTH = 1_000_000
"""Maximum characters and fields of one value: variables that double each other reach any size in a few lines."""


class KeyLookup(Protocol):
    """Looks up a key; `Config` does."""

    caller: FunctionCaller | None

    def lookup(self, key: str, scope: Scope) -> RawValue | None:
        """Find a key, and return its value as written."""


class Interpolator:
    """Interpolates variables, each of them once per interpolator.

    With `defers_calls`, a function call with free variables in its arguments stays as written, for later.
    """

    def __init__(self, config: KeyLookup, scope: Scope, *, defers_calls: bool = False) -> None:
        self.config = config
        self.scope = scope
        self._defers_calls = defers_calls
        self._columns = frozenset(name for name in scope.free if "." in name)
        self._parts_by_name: dict[str, Parts | RawValue | None] = {}
        self._active_names: dict[str, Origin | None] = {}

    def value(self, key: str, hit: RawValue) -> YamlValue:
        """The value of a hit: text with its variables substituted, anything else unchanged."""
        if not isinstance(hit.value, str) or hit.is_data:
            return hit.plain_value()
        text = parts_text(self.parts(hit.value, hit.origin, name=key))
        # BPS normalizes this path, because dimensions that a job lacks leave doubled slashes in it.
        return normalize_path(text, slash=hit.value.endswith("/")) if key == "subDirTemplate" else text

    def template(self, text: str, origin: Origin | None, *, name: str = "", starts_later: bool = False) -> Template:
        """Interpolate a text, but for the free variables.

        `name` is the key whose value the text is, so that a reference to itself is found. With `starts_later`, the
        placeholders of the text are substituted when the job starts: data has none.
        """
        parts = self.parts(text, origin, name=name)
        return Template(protect_data(parts) if starts_later else plain_parts(parts), origin)

    def parts(self, text: str, origin: Origin | None, *, name: str = "") -> Parts:
        """Interpolate a text as `template` does; what came from outside stays `Data`."""
        if not name:
            return self._parts(text, origin)
        self._active_names[name] = origin
        parts = self._parts(text, origin)
        del self._active_names[name]
        return parts

    def _parts(self, text: str, origin: Origin | None) -> Parts:
        parts: list[Part] = []
        size = 0
        for piece in self._pieces(text, origin):
            new_parts = (piece,) if isinstance(piece, str) else self._substitute(piece, origin)
            parts.extend(new_parts)
            size += sum(len(part) if isinstance(part, str) else 1 for part in new_parts)
            if size > _MAX_LENGTH:
                raise ConfigError(f"the value is longer than {_MAX_LENGTH:,} characters", origin=origin)
        return self._evaluate_calls(join_parts(parts), origin)

    def _pieces(self, text: str, origin: Origin | None) -> Parts:
        """Literals and fields of a text, each once: no value is read again; ``<name>`` is a field of that variable."""
        parts = split_variables(text, self._expand, self._columns)
        if not any(type(part) is str and "<" in part for part in parts):
            return parts
        pieces: list[Part] = []
        angled: set[int] = set()
        for part in parts:
            if type(part) is not str:
                pieces.append(part)
                continue
            for piece in split_angled(part, self._is_variable):
                if isinstance(piece, Field):
                    angled.add(len(pieces))
                pieces.append(piece)
        if self.scope.is_shell_line and angled:
            _refuse_redirections(tuple(pieces), angled, origin)
        return tuple(pieces)

    def _expand(self, name: str, written: str) -> str:
        """What stands for a reference to an environment variable."""
        scope = self.scope
        is_angled, delayed = written.startswith("$<"), written.startswith("<")
        if (is_angled and name not in scope.env) or (delayed and scope.expand_env and scope.keep_delayed):
            return written
        if scope.expand_env:
            return Data(scope.env[name]) if name in scope.env else f"${{{name}}}" if delayed else written
        if scope.replace_env:
            return f"<ENV:{name}>"
        return f"${{{name}}}" if is_angled else written

    def _is_variable(self, name: str) -> bool:
        return name in self.scope.free or self.config.lookup(name, self.scope) is not None

    def _evaluate_calls(self, parts: Parts, origin: Origin | None) -> Parts:
        """The parts with function calls evaluated; data in a call is an argument, and never a call."""
        if not any(type(part) is str and BPS_EVAL in part for part in parts):
            return parts
        fields = ", ".join(f"'{part.name}'" for part in parts if isinstance(part, Field))
        if fields and self._defers_calls:
            return parts
        try:
            return join_parts(
                evaluated
                for part in _calls_with_data(parts)
                for evaluated in (evaluated_parts(part, origin, self.config.caller) if type(part) is str else (part,))
            )
        except CodeRefusedError:
            raise
        except ConfigError:
            if not fields:
                raise
            raise ConfigError(
                f"'{BPS_EVAL}' cannot wait for {fields}, which differs from job to job", origin=origin
            ) from None

    def _substitute(self, variable: Field, origin: Origin | None) -> Parts:
        name = variable.name
        if name in self.scope.free:
            return (variable,)
        found = self._lookup_variable(name, origin)
        if found is None:
            return (self._undefined(name, origin),)
        if "$" in variable.spec:
            variable = Field(name, expand_env(variable.spec, self.scope.env))
        if isinstance(found, RawValue):
            if found.value is None:
                return (_text_of_null(name, found, origin),)
            text = format_value(found.plain_value(), variable, origin)
            # A computed name is one word for a shell; values of a search may have signs for it, and placeholders.
            return (text if found.node is None else Word(text) if found.is_data else Data(text),)
        if not variable.spec:
            return found
        if any(isinstance(part, Field) for part in found):
            raise ConfigError(f"'{variable}' cannot be formatted: its value differs from job to job", origin=origin)
        return (Data(format_value("".join(map(str, found)), variable, origin)),)

    def _undefined(self, name: str, origin: Origin | None) -> str:
        """Text for a name that nothing defines."""
        if name != ATTEMPT_NAME:
            return self.scope.undefined(name, origin)
        if self.scope.of_attempts:
            return ATTEMPT_MARK
        raise UndefinedVariableError(
            f"'{{{ATTEMPT_NAME}}}' has no value here: it is the number of an attempt",
            origin=origin,
            hint="Commands of jobs have it, 'preCmdline' and 'postCmdline', and values of 'environment'.",
        )

    def _lookup_variable(self, name: str, origin: Origin | None) -> Parts | RawValue | None:
        """Parts, a value that is not text, or ``None`` for an undefined variable."""
        if name in self._parts_by_name:
            return self._parts_by_name[name]
        if name in self._active_names:
            raise self._cycle_error(name)
        if len(self._active_names) >= _MAX_DEPTH:
            raise ConfigError(f"variables lead to variables more than {_MAX_DEPTH} deep at '{name}'", origin=origin)
        hit = self.config.lookup(name, self.scope)
        if hit is not None and isinstance(hit.value, str) and not hit.is_data:
            self._active_names[name] = hit.origin
            self._parts_by_name[name] = self._parts(hit.value, hit.origin)
            del self._active_names[name]
        else:
            self._parts_by_name[name] = hit
        return self._parts_by_name[name]

    def _cycle_error(self, name: str) -> ReferenceCycleError:
        names = list(self._active_names)
        ring = [*names[names.index(name) :], name]
        return ReferenceCycleError(
            "a value is defined by itself: " + " -> ".join(f"'{each}'" for each in ring),
            origin=self._active_names[name],
        )


_NO_REDIRECTION = re.compile(r"\|\||&&|[;<)\n]|[ \t]+[;|&<>)#\n]|[ \t]*\Z")
"""Text that cannot follow the ``>`` of a redirection."""
_TEXT_IN_QUOTES = frozenset({Quotation.SINGLE, Quotation.DOUBLE, Quotation.COMMENT})


def _refuse_redirections(parts: Parts, angled: Collection[int], origin: Origin | None) -> None:
    """Refuse each ``<name>`` of a variable where a shell would read two redirections.

    `angled` holds the indices of these fields.
    """
    contexts = iter(shell_contexts(parts))
    for number, part in enumerate(parts):
        if not is_value(part) or next(contexts).quotation in _TEXT_IN_QUOTES or number not in angled:
            continue
        following = "".join(
            each if isinstance(each, str) else f"<{each.name}>" if at in angled else "x"
            for at, each in enumerate(parts[number + 1 :], number + 1)
        )
        if isinstance(part, Field) and not _NO_REDIRECTION.match(following):
            raise ConfigError(
                f"'<{part.name}>' may mean the variable '{part.name}' or two redirections of the shell",
                origin=origin,
                hint=f"Write '{{{part.name}}}' for the variable, and '< {part.name} > FILE' for redirections.",
            )


def _calls_with_data(parts: Parts) -> Iterator[Part]:
    """The parts, with the data that stands within a call written into its arguments."""
    text = ""
    for part in parts:
        if isinstance(part, Data):
            mark = open_quotation(text) if BPS_EVAL in text else None
            if mark is not None:
                text += quote_argument(part, mark)
                continue
        elif isinstance(part, str):
            text += part
            continue
        if text:
            yield text
        text = ""
        yield part
    if text:
        yield text


_OPTIONAL_NAMES = frozenset({"inCollection", "dataQuery"})


def is_optional(name: str) -> bool:
    """Whether a variable without a value is empty text, because BPS's commands rely on that."""
    is_extra = name.startswith("extra") and name.endswith("Options")
    return is_extra or name.endswith("PreCmdOpts") or name in _OPTIONAL_NAMES


def _text_of_null(name: str, found: RawValue, origin: Origin | None) -> str:
    """Text of a variable whose value is null: empty where BPS's commands rely on that."""
    if is_optional(name):
        return ""
    place = f" at {found.origin}" if found.origin and found.origin.line else ""
    raise UndefinedVariableError(
        f"'{{{name}}}' has no value: '{name}' is null{place}",
        origin=origin or found.origin,
        hint=f"Give '{name}' a value; an empty text is written \"\".",
    )


def normalize_path(path: str, *, slash: bool = False) -> str:
    """Normalize a path: no doubled slashes or dots, with or without a trailing slash."""
    tidy = posixpath.normpath(path)
    return f"{tidy}/" if slash and not tidy.endswith("/") else tidy
