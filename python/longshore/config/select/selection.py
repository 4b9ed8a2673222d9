"""Reads the selectors of a section of ``cluster`` or ``ordering``: labels, dimensions, equal dimensions, start."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from longshore.config.values.interpolate import Interpolator
from longshore.config.values.merge import Node, plain_value
from longshore.contract.clustering import Start
from longshore.errors import ConfigError
from longshore.model.suggestions import did_you_mean
from longshore.model.wording import quote_value
from longshore.origin import Origin

_Word = TypeVar("_Word", bound=StrEnum)


class Selection:
    """Selectors of one section.

    Parameters
    ----------
    name
        Its name, with that of its parent section: ``cluster.coadd``.
    nodes
        Its keys.
    values
        Interpolates variables.
    """

    def __init__(self, name: str, nodes: Mapping[str, Node], values: Interpolator) -> None:
        self.name = name
        self.nodes = nodes
        self._values = values

    def text(self, key: str) -> str:
        """The text of a key; empty where the key is missing."""
        node = self.nodes.get(key)
        if node is None or node.value is None:
            return ""
        if isinstance(node.value, list | dict | bool):
            raise ConfigError(f"{self.key(key)} must be text, not {quote_value(plain_value(node))}", origin=node.origin)
        return str(self._values.template(str(node.value), node.origin, name=key)).strip()

    def names(self, key: str) -> tuple[str, ...]:
        """The comma-separated names of a key, each once."""
        return tuple(dict.fromkeys(name for part in self.text(key).split(",") if (name := part.strip())))

    def equal(self) -> dict[str, tuple[str, ...]]:
        """The dimensions that replace another, from ``equalDimensions``."""
        equal: dict[str, tuple[str, ...]] = {}
        for pair in self.names("equalDimensions"):
            one, colon, other = (part.strip() for part in pair.partition(":"))
            if not (one and colon and other):
                raise ConfigError(
                    f"{self.key('equalDimensions')} has {quote_value(pair)}, which is no pair of dimensions",
                    origin=self.origin("equalDimensions"),
                    hint="Pairs are written as in 'visit:exposure, group:visit'.",
                )
            # Each may replace the other.
            equal[one] = (*equal.get(one, ()), other)
            equal[other] = (*equal.get(other, ()), one)
        return equal

    def start(self) -> Start | None:
        """The tasks or jobs that determine the groups of the others, from ``findDependencyMethod``."""
        return self.word("findDependencyMethod", Start)

    def word(self, key: str, words: type[_Word]) -> _Word | None:
        """The enum member of a key; ``None`` where the key is missing."""
        text = self.text(key)
        if not text:
            return None
        try:
            return words(text)
        except ValueError:
            choices = " or ".join(f"'{word}'" for word in words)
            raise ConfigError(
                f"{self.key(key)} must be {choices}, not {quote_value(text)}",
                origin=self.origin(key),
                hint=did_you_mean(text, [*words]),
            ) from None

    def origin(self, key: str) -> Origin:
        """Where the value of a key was written."""
        return self.nodes[key].origin

    def key(self, key: str) -> str:
        """The full key in quotes, as seen from the root."""
        return f"'{self.name}.{key}'"
