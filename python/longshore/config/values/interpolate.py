"""Interpolates ``{name}`` in values, through other values; refuses a value that refers to itself."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Protocol

from longshore.config.values.bps_eval import BPS_EVAL, FunctionCaller, evaluate_calls
from longshore.config.values.scope import RawValue, Scope
from longshore.config.values.templates import (
    ATTEMPT_MARK,
    ATTEMPT_NAME,
    Field,
    Part,
    Parts,
    Template,
    delay_env,
    expand_env,
    format_value,
    join_parts,
    parts_text,
    rewrite_angled_env,
    split_angled,
    split_fields,
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
        if not isinstance(hit.value, str):
            return hit.plain_value()
        text = parts_text(self.template(hit.value, hit.origin, name=key).parts)
        # BPS normalizes this path, because dimensions that a job lacks leave doubled slashes in it.
        return normalize_path(text, slash=hit.value.endswith("/")) if key == "subDirTemplate" else text

    def template(self, text: str, origin: Origin | None, *, name: str = "") -> Template:
        """Interpolate a text, but for the free variables.

        `name` is the key whose value the text is, so that a reference to itself is found.
        """
        if not name:
            return Template(self._parts(text, origin), origin)
        self._active_names[name] = origin
        parts = self._parts(text, origin)
        del self._active_names[name]
        return Template(parts, origin)

    def _parts(self, text: str, origin: Origin | None) -> Parts:
        text = rewrite_angled_env(text, self.scope.env)
        if self.scope.expand_env:
            text = expand_env(text, self.scope.env, delayed=not self.scope.keep_delayed)
        elif self.scope.replace_env:
            text = delay_env(text)
        parts: list[Part] = []
        size = 0
        for piece in self._pieces(text):
            new_parts = (piece,) if isinstance(piece, str) else self._substitute(piece, origin)
            parts.extend(new_parts)
            size += sum(len(part) if isinstance(part, str) else 1 for part in new_parts)
            if size > _MAX_LENGTH:
                raise ConfigError(f"the value is longer than {_MAX_LENGTH:,} characters", origin=origin)
        return self._evaluate_calls(join_parts(parts), origin)

    def _pieces(self, text: str) -> Iterator[Part]:
        """Literals and fields of a text; ``<name>`` is a field where that variable exists."""
        for piece in split_fields(text, self._columns):
            if isinstance(piece, str) and "<" in piece:
                yield from split_angled(piece, self._is_variable)
            else:
                yield piece

    def _is_variable(self, name: str) -> bool:
        return name in self.scope.free or self.config.lookup(name, self.scope) is not None

    def _evaluate_calls(self, parts: Parts, origin: Origin | None) -> Parts:
        """The parts with function calls evaluated."""
        if not any(isinstance(part, str) and BPS_EVAL in part for part in parts):
            return parts
        fields = ", ".join(f"'{part.name}'" for part in parts if isinstance(part, Field))
        if fields and self._defers_calls:
            return parts
        try:
            return join_parts(
                evaluate_calls(part, origin, self.config.caller) if isinstance(part, str) else part for part in parts
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
        if isinstance(found, RawValue):
            return (format_value(found.plain_value(), variable, origin),)
        if not variable.spec:
            return found
        if any(isinstance(part, Field) for part in found):
            raise ConfigError(f"'{variable}' cannot be formatted: its value differs from job to job", origin=origin)
        return (format_value("".join(map(str, found)), variable, origin),)

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
        if hit is not None and isinstance(hit.value, str):
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


def normalize_path(path: str, *, slash: bool = False) -> str:
    """Normalize a path: no doubled slashes or dots, with or without a trailing slash."""
    tidy = posixpath.normpath(path)
    return f"{tidy}/" if slash and not tidy.endswith("/") else tidy
