"""Turns what became of the registry's entries into text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from longshore.cli.show_json import error_document, head
from longshore.cli.words import visible

if TYPE_CHECKING:
    from longshore.app.adopt import Adopted, Forgotten


def adopted_line(outcome: Adopted) -> str:
    """Return what became of a directory that holds a run."""
    assert outcome.card
    was = f" (its id led to '{outcome.was}' before)" if outcome.was else ""
    return visible(f"Adopted run {outcome.card.id} ({outcome.card.name}) in '{outcome.path}'{was}")


def forgotten_line(outcome: Forgotten) -> str:
    """Return what became of a run that was to be forgotten."""
    stays = f"; its directory stays: {outcome.path}" if outcome.path else ""
    return visible(f"Forgot run {outcome.id}{stays}")


def adopted_document(outcomes: Sequence[Adopted], *, as_of: float) -> dict[str, Any]:
    """Return what became of directories, as ``adopt --json`` gives it."""
    runs = [
        {"id": outcome.card.id, "name": outcome.card.name, "path": str(outcome.path), "was": outcome.was}
        for outcome in outcomes
        if outcome.card
    ]
    failed = [
        {"path": str(outcome.path), "error": error_document(outcome.error)["error"]}
        for outcome in outcomes
        if outcome.error
    ]
    return {**head("adopt", as_of), "runs": runs, "failed": failed}


def forgotten_document(outcomes: Sequence[Forgotten], *, as_of: float) -> dict[str, Any]:
    """Return runs that are not known any more, as ``forget --json`` gives it."""
    runs = [{"id": outcome.id, "path": outcome.path or None} for outcome in outcomes]
    return {**head("forget", as_of), "runs": runs}
