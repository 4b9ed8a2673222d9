"""Scope of a search: current values, environment and free variables; and a value as written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias, cast

import msgspec

from longshore.config.values.merge import COMPUTED_LAYERS, Node, NodeValue, plain_value
from longshore.model.values import YamlValue
from longshore.origin import Origin

UndefinedHandler: TypeAlias = Callable[[str, Origin | None], str]
"""Handles an undefined variable, by its name and origin: returns a replacement text, or raises an error."""


class RawValue(msgspec.Struct, frozen=True):
    """A value before interpolation: a node of the configuration, or a plain value from elsewhere."""

    value: NodeValue | YamlValue
    node: Node | None = None

    @property
    def origin(self) -> Origin | None:
        """Where it was written; ``None`` for a value from outside the configuration."""
        return self.node.origin if self.node else None

    @property
    def is_data(self) -> bool:
        """Whether nothing in it is a variable: it was computed, and not written as configuration."""
        return self.node is None or (not self.node.origin.line and self.node.origin.file in COMPUTED_LAYERS)

    def plain_value(self) -> YamlValue:
        """The value as ordinary maps, lists and scalars."""
        return plain_value(self.node) if self.node else cast("YamlValue", self.value)


def empty_text(_name: str, _origin: Origin | None) -> str:
    """Replace undefined variables by empty text, as BPS does."""
    return ""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a search: current values, environment, and variables left free.

    Attributes
    ----------
    current
        BPS's current values. They have the highest precedence; ``curr_site`` and the like choose the part of a section
        that is searched.
    searchobj
        Searched next: a map, or a node that holds one.
    env
        Environment variables.
    expand_env
        Whether ``${X}`` is replaced by its value; wins over `replace_env`.
    keep_delayed
        Whether ``<ENV:X>`` stays for the job even so.
    replace_env
        Whether ``${X}`` becomes ``<ENV:X>``.
    free
        Names of variables that stay fields, even where the configuration defines them.
    undefined
        Handler of undefined variables.
    of_attempts
        Whether the text is one that each attempt of a job gets anew: a command or a variable of its environment.
    is_shell_line
        Whether the text is a line for a shell, in which ``<name>`` can be a redirection.
    """

    current: Mapping[str, YamlValue] = msgspec.field(default_factory=dict)
    searchobj: Mapping[str, YamlValue] | Node | None = None
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    expand_env: bool = True
    keep_delayed: bool = False
    replace_env: bool = False
    free: Collection[str] = ()
    undefined: UndefinedHandler = empty_text
    of_attempts: bool = False
    is_shell_line: bool = False


DEFAULT_SCOPE: Final = Scope()
"""A search by the key alone."""
