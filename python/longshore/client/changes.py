"""What a restart takes of the files that changed since its run was made, and what it tells its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from longshore.app.changes.take_changes import takes_changes
from longshore.control.restart import compare_sources

if TYPE_CHECKING:
    from longshore.app.changes.compare import RunComparison
    from longshore.app.runs.open_run import OpenRun


class ChosenChanges(NamedTuple):
    """The changes that a restart takes, if any, notes on them, and a warning if it leaves some."""

    taken: RunComparison | None = None
    notes: tuple[str, ...] = ()
    warning: str = ""


def choose_changes(opened: OpenRun, *, with_changes: bool | None) -> ChosenChanges:
    """Choose what a restart takes of the changes since its run was made, as `Run.restart` documents."""
    from longshore.app.text.changes_text import change_lines, unchanged_notes

    if with_changes is False:
        return ChosenChanges()
    comparison = compare_sources(opened)
    if takes_changes(opened, comparison, is_wanted=bool(with_changes)):
        return ChosenChanges(comparison, tuple(change_lines(comparison)))
    if not comparison.differs:
        return ChosenChanges(notes=tuple(unchanged_notes(comparison)))
    changed = "; ".join(change_lines(comparison))
    return ChosenChanges(
        warning=f"what run '{opened.card.id}' was made from has changed, and it runs as it was: {changed}. "
        "with_changes=True takes the changes; with_changes=False runs it as it was, without this warning."
    )
