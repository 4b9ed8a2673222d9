"""Formats changes of the registry as text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from longshore.cli.show.format import escape_controls
from longshore.config.secrets import hide_secrets

if TYPE_CHECKING:
    from longshore.control.adopt import AdoptResult, ForgottenRun, RunContents


def adopted_line(outcome: AdoptResult) -> str:
    """Format the outcome of adopting a run directory."""
    assert outcome.card
    was = f" (its id led to '{outcome.former_path}' before)" if outcome.former_path else ""
    trusted = f", and trusted as a run of '{outcome.owner}'" if outcome.trusted else ""
    return escape_controls(f"Adopted run {outcome.card.id} ({outcome.card.name}) in '{outcome.path}'{was}{trusted}")


def contents_text(contents: RunContents) -> str:
    """Format what a run of another user would start."""
    record = contents.record
    lines = [
        f"'{record.path}' belongs to the user '{contents.owner}'. Commands that act on it would start as you:",
        f"  service: {contents.card.service}" + (f", the class '{contents.plug_in}'" if contents.plug_in else ""),
        f"  jobs: {contents.jobs}",
        *(f"  first job of a label: {name}: {hide_secrets(command)}" for name, command in contents.commands),
        *(f"  program: {program}" for program in contents.programs),
        f"  all commands: {contents.workflow}",
    ]
    return "\n".join(map(escape_controls, lines))


def forgotten_line(outcome: ForgottenRun) -> str:
    """Format the outcome of forgetting a run."""
    what = "stays" if os.path.lexists(outcome.path) else "is gone"
    where = f"; its directory {what}: {outcome.path}" if outcome.path else ""
    return escape_controls(f"Forgot run {outcome.id}{where}")
