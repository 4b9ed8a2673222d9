"""Suggests the nearest known name for an unknown one ("did you mean")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NAME_LIKENESS: Final = 0.6
"""Likeness for names that users choose, such as those of jobs, which are often short."""


def nearest(word: str, known: Iterable[str], *, likeness: float = 0.7) -> str | None:
    """Nearest known word, with a likeness from 0 (any) to 1 (equal); ``None`` where no word is near enough."""
    # Imported here: only errors need it, and its import would delay every command.
    from difflib import get_close_matches

    # Wrong capitals are the likeliest mistake, and a small one.
    lowered = {each.lower(): each for each in sorted(known)}
    found = get_close_matches(word.lower(), lowered, n=1, cutoff=likeness)
    return lowered[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], *, likeness: float = 0.7) -> str:
    """Sentence that suggests the nearest known word; empty where no word is near enough."""
    found = nearest(word, known, likeness=likeness)
    return f"Did you mean '{found}'?" if found else ""
