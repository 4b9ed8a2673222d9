"""Turns what became of the registry's entries into text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.cli.show.format import visible

if TYPE_CHECKING:
    from longshore.app.inspect.registry import Adopted, Forgotten


def adopted_line(outcome: Adopted) -> str:
    """Return what became of a directory that holds a run."""
    assert outcome.card
    was = f" (its id led to '{outcome.was}' before)" if outcome.was else ""
    return visible(f"Adopted run {outcome.card.id} ({outcome.card.name}) in '{outcome.path}'{was}")


def forgotten_line(outcome: Forgotten) -> str:
    """Return what became of a run that was to be forgotten."""
    stays = f"; its directory stays: {outcome.path}" if outcome.path else ""
    return visible(f"Forgot run {outcome.id}{stays}")
