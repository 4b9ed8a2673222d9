"""Documents of ``adopt`` and ``forget``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from longshore.app.documents.document import DatedDocument, DocumentEntry
from longshore.app.documents.error import ErrorEntry, error_entry
from longshore.model.run.moment import format_timestamp

if TYPE_CHECKING:
    from longshore.app.inspect.registry import AdoptResult, ForgottenRun


class AdoptedEntry(DocumentEntry, frozen=True):
    """A run that was adopted."""

    id: str
    """Id of the run."""
    name: str
    """Name of the run."""
    path: str
    """Path of its directory."""
    was: str | None
    """Path that the id led to before; null if it led to no other."""


class NotAdoptedEntry(DocumentEntry, frozen=True):
    """A directory that was not adopted."""

    path: str
    """Path of the directory."""
    error: ErrorEntry
    """The reason."""


class AdoptDocument(DatedDocument, frozen=True, kw_only=True):
    """Runs that were adopted: `longshore adopt --json`."""

    kind: Literal["adopt"] = "adopt"
    runs: Sequence[AdoptedEntry]
    """The runs."""
    failed: Sequence[NotAdoptedEntry]
    """Directories without a run, or with one that cannot be adopted."""


class ForgottenEntry(DocumentEntry, frozen=True):
    """A run that was forgotten; its directory is as it was."""

    id: str
    """Id of the run."""
    path: str | None
    """Path of its directory; null if not known."""


class ForgetDocument(DatedDocument, frozen=True, kw_only=True):
    """Runs that were forgotten: `longshore forget --json`."""

    kind: Literal["forget"] = "forget"
    runs: Sequence[ForgottenEntry]
    """The runs."""


def adopt_document(outcomes: Sequence[AdoptResult], *, as_of: float) -> AdoptDocument:
    """Return what became of directories as ``adopt --json`` prints it."""
    return AdoptDocument(
        runs=[
            AdoptedEntry.from_record(outcome.card, path=str(outcome.path), was=outcome.former_path)
            for outcome in outcomes
            if outcome.card
        ],
        failed=[
            NotAdoptedEntry(str(outcome.path), error_entry(outcome.error)) for outcome in outcomes if outcome.error
        ],
        as_of=format_timestamp(as_of, exact=True),
    )


def forget_document(outcomes: Iterable[ForgottenRun], *, as_of: float) -> ForgetDocument:
    """Return forgotten runs as ``forget --json`` prints them."""
    runs = [ForgottenEntry(outcome.id, outcome.path or None) for outcome in outcomes]
    return ForgetDocument(runs=runs, as_of=format_timestamp(as_of, exact=True))
