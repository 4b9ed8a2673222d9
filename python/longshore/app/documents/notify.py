"""Document of ``notify --test``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from longshore.app.documents.document import DatedDocument, DocumentEntry
from longshore.model.notice import NoticeEvent
from longshore.model.run.moment import format_timestamp

if TYPE_CHECKING:
    from longshore.app.notices.trial import NoticeTrial


class NoticeTrialEntry(DocumentEntry, frozen=True):
    """A rule that was tried."""

    rule: str
    """Name of the rule."""
    events: Sequence[NoticeEvent]
    """Events on which it sends a notice."""
    by: Literal["command", "webhook"]
    """How it sends."""
    sent: bool
    """Whether the test notice was sent."""
    reason: str | None
    """Why it was not sent; null if it was."""


class NotifyDocument(DatedDocument, frozen=True, kw_only=True):
    """Rules of notices that were tried: `longshore notify --test --json`."""

    kind: Literal["notify"] = "notify"
    notices: Sequence[NoticeTrialEntry]
    """The rules, in the order of their names."""


def notify_document(trials: Iterable[NoticeTrial], *, as_of: float) -> NotifyDocument:
    """Return what became of each rule as ``notify --test --json`` prints it."""
    return NotifyDocument(
        as_of=format_timestamp(as_of, exact=True),
        notices=[
            NoticeTrialEntry(
                rule=trial.rule.name,
                events=trial.rule.events,
                by="command" if trial.rule.webhook is None else "webhook",
                sent=not trial.why,
                reason=trial.why or None,
            )
            for trial in trials
        ],
    )
