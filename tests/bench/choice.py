"""Turns the names that follow an option of a bench into those it knows."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection


def names_of(known: Collection[str]) -> Callable[[str], list[str]]:
    """A type of an argument that is names with commas between them, each of which is known."""

    def names(text: str) -> list[str]:
        chosen = [name for part in text.split(",") if (name := part.strip())]
        if unknown := [name for name in chosen if name not in known]:
            listed = ", ".join(f"'{name}'" for name in unknown)
            raise argparse.ArgumentTypeError(f"unknown: {listed}; there are: {', '.join(known)}")
        return chosen

    return names
