"""Colours of labels in figures: the labels that ran longest have one of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

COLOURS: Final = 8
"""Colours of labels that the style sheet has: classes ``l0`` to ``l7``; ``lx`` is for all others."""
OTHERS: Final = "lx"


class Palette(msgspec.Struct, frozen=True):
    """Class of the style sheet per label, and the labels that have a colour of their own, in order."""

    class_of: tuple[str, ...]
    shown: tuple[int, ...]

    @property
    def has_others(self) -> bool:
        """Whether some labels share a colour."""
        return len(self.shown) < len(self.class_of)


def choose_colours(busy_s: Sequence[float]) -> Palette:
    """Give each label a colour, the longest-running first if there are more labels than colours."""
    longest = sorted(range(len(busy_s)), key=lambda label: (-busy_s[label], label))[:COLOURS]
    shown = tuple(sorted(longest))
    class_of = [OTHERS] * len(busy_s)
    for place, label in enumerate(shown):
        class_of[label] = f"l{place}"
    return Palette(tuple(class_of), shown)
