"""Reads what a section of ``cluster`` or ``ordering`` selects: labels, dimensions, pairs of them, where to begin."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from longshore.config.values.interpolate import shown
from longshore.config.values.merge import Node, plain
from longshore.config.values.search import Expander
from longshore.contract.clustering import Start
from longshore.errors import ConfigError
from longshore.model.suggestions import did_you_mean
from longshore.origin import Origin

_Word = TypeVar("_Word", bound=StrEnum)


class Selection:
    """One section.

    Parameters
    ----------
    name
        Its name, with that of the section it stands in: ``cluster.coadd``.
    nodes
        What it holds.
    values
        Fills in variables.
    """

    def __init__(self, name: str, nodes: Mapping[str, Node], values: Expander) -> None:
        self.name = name
        self.nodes = nodes
        self._values = values

    def text(self, key: str) -> str:
        """The text under a key; empty where there is none."""
        node = self.nodes.get(key)
        if node is None or node.value is None:
            return ""
        if isinstance(node.value, list | dict | bool):
            raise ConfigError(f"{self.key(key)} must be text, not {shown(plain(node))}", origin=node.origin)
        return str(self._values.template(str(node.value), node.origin, name=key)).strip()

    def names(self, key: str) -> tuple[str, ...]:
        """The names under a key, between commas, each once."""
        return tuple(dict.fromkeys(name for part in self.text(key).split(",") if (name := part.strip())))

    def equal(self) -> dict[str, tuple[str, ...]]:
        """The dimensions that stand for another, from ``equalDimensions``."""
        equal: dict[str, tuple[str, ...]] = {}
        for pair in self.names("equalDimensions"):
            one, colon, other = (part.strip() for part in pair.partition(":"))
            if not (one and colon and other):
                raise ConfigError(
                    f"{self.key('equalDimensions')} has {shown(pair)}, which is no pair of dimensions",
                    origin=self.origin("equalDimensions"),
                    hint="Pairs are written as in 'visit:exposure, group:visit'.",
                )
            # Either may stand for the other.
            equal[one] = (*equal.get(one, ()), other)
            equal[other] = (*equal.get(other, ()), one)
        return equal

    def start(self) -> Start | None:
        """Which tasks or jobs say where the others belong, from ``findDependencyMethod``."""
        return self.word("findDependencyMethod", Start)

    def word(self, key: str, words: type[_Word]) -> _Word | None:
        """The one of several words that stands under a key; ``None`` where there is nothing."""
        text = self.text(key)
        if not text:
            return None
        try:
            return words(text)
        except ValueError:
            raise ConfigError(
                f"{self.key(key)} must be {_either(words)}, not {shown(text)}",
                origin=self.origin(key),
                hint=did_you_mean(text, [*words]),
            ) from None

    def origin(self, key: str) -> Origin:
        """Where a key's value was written."""
        return self.nodes[key].origin

    def key(self, key: str) -> str:
        """A key in quotes, as it is called from the root."""
        return f"'{self.name}.{key}'"


def _either(words: type[StrEnum]) -> str:
    return " or ".join(f"'{word}'" for word in words)
