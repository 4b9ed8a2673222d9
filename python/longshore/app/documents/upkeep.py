"""Documents of commands that look after runs: ``verify``, ``doctor``, ``clean`` and ``archive``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from longshore.app.documents.document import Count, DatedDocument, DocumentEntry, Ordinal
from longshore.app.documents.error import ErrorEntry, error_entry
from longshore.app.maintain.diagnosis import DiagnosisState
from longshore.app.maintain.removable_files import RemovableKind
from longshore.app.verify.verify import Check
from longshore.errors import LongshoreError
from longshore.model.run.moment import format_timestamp

if TYPE_CHECKING:
    from longshore.app.maintain.archive import ArchiveResult
    from longshore.app.maintain.clean import CleanPlan, CleanResult
    from longshore.app.maintain.diagnosis import Diagnosis
    from longshore.app.verify.verify import VerifyResult


class DamageEntry(DocumentEntry, frozen=True):
    """A file, or a line of it, that is not as it was written."""

    path: str
    """Path of the file."""
    line: Ordinal | None
    """Number of the line; null for the whole file."""
    what: str
    """What is wrong, as a sentence about the place."""
    unknown: str
    """What is not known because of it; may be empty."""


class VerifiedEntry(DocumentEntry, frozen=True):
    """A run that was verified."""

    id: str
    """Id of the run."""
    name: str
    """Name of the run."""
    path: str
    """Path of its directory."""
    intact: bool
    """Whether no damage was found."""
    damages: Sequence[DamageEntry]
    """The damage."""
    events: Count
    """Number of lines of the journal that were checked."""
    covered: Mapping[str, Check]
    """Each file that was checked, relative to the run directory, and how: sha256 (the hash in its manifest), checksum
    (its own), or form (it can be read; a change that leaves it readable is not noticed)."""
    not_covered: Mapping[str, str]
    """Files that are not checked, each with the reason."""
    notes: Sequence[str]
    """Facts that are no damage, a sentence each."""


class UnverifiedEntry(DocumentEntry, frozen=True):
    """A run that could not be verified."""

    run: str
    """The run as it was named."""
    error: ErrorEntry
    """The reason."""


class VerifyDocument(DatedDocument, frozen=True, kw_only=True):
    """Runs that were verified: `longshore verify --json`."""

    kind: Literal["verify"] = "verify"
    runs: Sequence[VerifiedEntry]
    """The runs."""
    failed: Sequence[UnverifiedEntry]
    """Runs that could not be verified."""


def verify_document(
    results: Iterable[VerifyResult], errors: Iterable[tuple[str, LongshoreError]], *, as_of: float
) -> VerifyDocument:
    """Return what was found about runs as ``verify --json`` prints it; `errors` has runs that cannot be opened."""
    runs = [
        VerifiedEntry.from_record(
            result.opened.card,
            path=str(result.opened.run.root),
            intact=result.is_intact,
            damages=[DamageEntry.from_record(damage) for damage in result.damages],
            events=sum(result.events.values()),
            covered=dict(sorted(result.covered.items())),
            not_covered=result.not_covered,
            notes=result.notes,
        )
        for result in results
    ]
    unverified = [UnverifiedEntry(reference, error_entry(error)) for reference, error in errors]
    return VerifyDocument(runs=runs, failed=unverified, as_of=format_timestamp(as_of, exact=True))


class DiagnosisEntry(DocumentEntry, frozen=True):
    """The result of a check."""

    area: str
    """What was checked: installation, configuration, services, registry, runs, processes, folders, disk, clock or
    umask."""
    state: DiagnosisState
    """How serious it is."""
    message: str
    """The result as a sentence."""
    hint: str | None
    """The way out; null if none is needed or known."""


class DoctorDocument(DatedDocument, frozen=True, kw_only=True):
    """What was found on this machine: `longshore doctor --json`."""

    kind: Literal["doctor"] = "doctor"
    state: DiagnosisState
    """The most serious state of all results; the exit status is 1 if it is error."""
    diagnoses: Sequence[DiagnosisEntry]
    """The results, in the order of the checks."""


def doctor_document(diagnoses: Sequence[Diagnosis], *, as_of: float) -> DoctorDocument:
    """Return the results of all checks as ``doctor --json`` prints them."""
    order = list(DiagnosisState)
    worst = max((diagnosis.state for diagnosis in diagnoses), key=order.index, default=DiagnosisState.OK)
    entries = [DiagnosisEntry.from_record(each, hint=each.hint or None) for each in diagnoses]
    return DoctorDocument(state=worst, diagnoses=entries, as_of=format_timestamp(as_of, exact=True))


class RemovableEntry(DocumentEntry, frozen=True):
    """A file that can go, or went."""

    path: str
    """Its path; a folder goes with all its content."""
    what: RemovableKind
    """Its kind."""
    size_b: Count
    """Its size in bytes."""
    run: str | None
    """Id of its run; null for a file of the user's state."""
    removed: bool
    """Whether it was removed."""
    reason: str | None
    """Why it was not removed although that was requested; else null."""


class SkippedRunEntry(DocumentEntry, frozen=True):
    """A run that is not cleaned."""

    run: str
    """Id of the run."""
    reason: str
    """The reason."""


class CleanDocument(DatedDocument, frozen=True, kw_only=True):
    """Files that can go, or were removed: `longshore clean --json`."""

    kind: Literal["clean"] = "clean"
    dry_run: bool
    """Whether nothing was to be removed: without `--yes`."""
    size_b: Count
    """Size of all files in the list, in bytes; of those removed with `--yes`."""
    files: Sequence[RemovableEntry]
    """The files."""
    skipped: Sequence[SkippedRunEntry]
    """Runs that are not cleaned."""
    unread: Mapping[str, str]
    """Folders that were not looked into, so that their content stays, each with the reason."""


def clean_document(plan: CleanPlan, result: CleanResult | None, *, as_of: float) -> CleanDocument:
    """Return a plan of removals, and its result with ``--yes``, as ``clean --json`` prints it."""
    removed = {file.path for file in result.removed} if result else set()
    reasons = {file.path: why for file, why in result.failed} if result else {}
    files = [
        RemovableEntry(
            path=str(file.path),
            what=file.kind,
            size_b=file.size_b,
            run=group.opened.card.id if group.opened else None,
            removed=file.path in removed,
            reason=reasons.get(file.path),
        )
        for group in plan.groups
        for file in group.files
    ]
    return CleanDocument(
        dry_run=result is None,
        size_b=sum(file.size_b for file in (plan.files if result is None else result.removed)),
        files=files,
        skipped=[SkippedRunEntry(run, reason) for run, reason in plan.skipped],
        unread={str(folder): reason for folder, reason in plan.unread.items()},
        as_of=format_timestamp(as_of, exact=True),
    )


class ArchiveDocument(DatedDocument, frozen=True, kw_only=True):
    """Archive that was written: `longshore archive --json`."""

    kind: Literal["archive"] = "archive"
    run: str
    """Id of the run."""
    path: str
    """Path of the archive."""
    size_b: Count
    """Its size in bytes."""
    files: Count
    """Number of files in it."""
    content_b: Count
    """Size of these files in bytes."""
    left_out: Sequence[str]
    """Links, pipes and sockets of the run directory, which are not in it."""
    damages: Sequence[DamageEntry]
    """Damage of the run, which is in the archive as well."""
    removed: bool
    """Whether the run directory was removed."""


def archive_document(result: ArchiveResult, *, as_of: float) -> ArchiveDocument:
    """Return an archive as ``archive --json`` prints it."""
    damages = [DamageEntry.from_record(damage) for damage in result.damages]
    return ArchiveDocument.from_record(result, path=str(result.path), damages=damages, as_of=as_of)
