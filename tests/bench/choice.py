"""Parses an option whose value is a list of known names."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection


def known_names(known: Collection[str]) -> Callable[[str], list[str]]:
    """Return an argparse type for known names with commas between them."""

    def names(text: str) -> list[str]:
        chosen = [name for part in text.split(",") if (name := part.strip())]
        if unknown := [name for name in chosen if name not in known]:
            listed = ", ".join(f"'{name}'" for name in unknown)
            raise argparse.ArgumentTypeError(f"unknown: {listed}; there are: {', '.join(known)}")
        return chosen

    return names
