"""Formats changes of the registry as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.cli.show.format import escape_controls

if TYPE_CHECKING:
    from longshore.app.inspect.registry import AdoptResult, ForgottenRun


def adopted_line(outcome: AdoptResult) -> str:
    """Format the outcome of adopting a run directory."""
    assert outcome.card
    was = f" (its id led to '{outcome.former_path}' before)" if outcome.former_path else ""
    return escape_controls(f"Adopted run {outcome.card.id} ({outcome.card.name}) in '{outcome.path}'{was}")


def forgotten_line(outcome: ForgottenRun) -> str:
    """Format the outcome of forgetting a run."""
    stays = f"; its directory stays: {outcome.path}" if outcome.path else ""
    return escape_controls(f"Forgot run {outcome.id}{stays}")
