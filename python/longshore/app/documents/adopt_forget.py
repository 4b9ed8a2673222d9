"""Documents of ``adopt`` and ``forget``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from longshore.app.documents.document import DatedDocument, DocumentEntry
from longshore.app.documents.error import ErrorEntry, error_entry
from longshore.config.secrets import hide_secrets
from longshore.model.run.moment import format_timestamp

if TYPE_CHECKING:
    from longshore.app.inspect.registry import AdoptResult, ForgottenRun
    from longshore.app.inspect.trust import RunContents


class FirstJobEntry(DocumentEntry, frozen=True):
    """The first job of a label."""

    name: str
    """Name of the job."""
    command: str
    """Its command as a line for a POSIX shell, without values that look like secrets."""


class ContentsEntry(DocumentEntry, frozen=True):
    """What a run of another user would start."""

    service: str
    """Name of its service."""
    plug_in: str | None
    """Class of its service; null for a service of Longshore."""
    jobs: int
    """Number of its jobs."""
    first_jobs: Sequence[FirstJobEntry]
    """The first job of each of the first labels."""
    programs: Sequence[str]
    """Programs that it was prepared with."""


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
    owner: str
    """User to whom its directory belongs."""
    trusted: ContentsEntry | None
    """What the run would start, if it is another user's and was trusted by this command."""


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
            AdoptedEntry.from_record(
                outcome.card,
                path=str(outcome.path),
                was=outcome.former_path,
                owner=outcome.owner,
                trusted=_contents_entry(outcome.trusted) if outcome.trusted else None,
            )
            for outcome in outcomes
            if outcome.card
        ],
        failed=[
            NotAdoptedEntry(str(outcome.path), error_entry(outcome.error)) for outcome in outcomes if outcome.error
        ],
        as_of=format_timestamp(as_of, exact=True),
    )


def _contents_entry(contents: RunContents) -> ContentsEntry:
    return ContentsEntry(
        service=contents.card.service,
        plug_in=contents.plug_in or None,
        jobs=contents.jobs,
        first_jobs=[FirstJobEntry(name, hide_secrets(command)) for name, command in contents.commands],
        programs=contents.programs,
    )


def forget_document(outcomes: Iterable[ForgottenRun], *, as_of: float) -> ForgetDocument:
    """Return forgotten runs as ``forget --json`` prints them."""
    runs = [ForgottenEntry(outcome.id, outcome.path or None) for outcome in outcomes]
    return ForgetDocument(runs=runs, as_of=format_timestamp(as_of, exact=True))
