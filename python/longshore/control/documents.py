"""The JSON documents of commands that change runs or look after them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from longshore.config.secrets import hide_secrets
from longshore.control.clean import CleanPlan, CleanResult, RemovableKind
from longshore.control.doctor import Diagnosis, DiagnosisState
from longshore.errors import LongshoreError
from longshore.model.notice import NoticeEvent
from longshore.model.states import JobState
from longshore.model.wording import format_timestamp
from longshore.plan.match_run import MatchReason, WorkflowMatch
from longshore.reports.documents.document import (
    Count,
    DamageEntry,
    DatedDocument,
    DocumentEntry,
    ErrorEntry,
    Ordinal,
    error_entry,
)
from longshore.reports.documents.run import SubmissionDocument, WaitStatus
from longshore.runstate.restart_selection import RestartReason
from longshore.runstate.verify import Check, VerifyResult

if TYPE_CHECKING:
    from longshore.control.adopt import AdoptResult, ForgottenRun, RunContents
    from longshore.control.archive import ArchiveResult
    from longshore.control.notifier import NoticeTrial
    from longshore.control.restart import RestartPlan
    from longshore.model.report import RunReport
    from longshore.plan.changes import RunComparison
    from longshore.plan.reuse import ReusePlan
    from longshore.runstate.open_run import OpenRun


# Documents of commands that look after runs: ``verify``, ``doctor``, ``clean`` and ``archive``.


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


# Document of ``notify --test``.


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


# Document of ``restart``: the jobs that run again, counted per label, state and reason.


class SelectionEntry(DocumentEntry, frozen=True):
    """Names of jobs and labels; all jobs where none is named."""

    jobs: Sequence[str]
    """Names of jobs."""
    labels: Sequence[str]
    """Names of labels."""


class JobVerdictEntry(DocumentEntry, frozen=True):
    """What becomes of a job with the changes."""

    name: str
    """Name of the job."""
    runs: bool
    """Whether it runs; else its result is kept."""
    reason: MatchReason
    """kept, new, unfinished (it did not succeed), command (it changed), inputs (files or parents changed), outputs
    (what it made is gone, or was written since by something else), reads (it waits for a job that runs) or final (the
    final job)."""
    because: str
    """The reason for people."""


def verdict_entries(names: Sequence[str], match: WorkflowMatch | None) -> list[JobVerdictEntry]:
    """Return what becomes of each job."""
    if match is None:
        return []
    return [
        JobVerdictEntry(name=name, runs=not each.is_kept, reason=each.reason, because=each.detail)
        for name, each in zip(names, match.jobs, strict=True)
    ]


class ReuseDocument(DatedDocument, frozen=True, kw_only=True):
    """What a new run would keep of an earlier one: `longshore submit --reuse RUN --dry-run --json`."""

    kind: Literal["reuse"] = "reuse"
    earlier: str
    """Id of the earlier run."""
    earlier_dir: str
    """Its directory."""
    jobs: Sequence[JobVerdictEntry]
    """What becomes of each job of the new run."""
    gone: Sequence[str]
    """Names of jobs that only the earlier run has."""


def reuse_document(plan: ReusePlan, *, as_of: float) -> ReuseDocument:
    """Return what a new run would keep as ``submit --reuse --dry-run --json`` prints it."""
    return ReuseDocument.from_record(
        plan,
        earlier=plan.earlier.card.id,
        earlier_dir=str(plan.earlier.run.root),
        jobs=verdict_entries(plan.names, plan.match),
        as_of=as_of,
    )


class RestartDocument(SubmissionDocument, frozen=True, kw_only=True, rename={"from_labels": "from"}):
    """Jobs that a restart runs again: `longshore restart --json`."""

    kind: Literal["restart"] = "restart"
    submitted: bool
    """Whether the run was handed over: not with `--dry-run`, and not if there is nothing to do."""
    again: Mapping[str, Mapping[JobState, Ordinal]]
    """Number of jobs that run again, per label and per state they are in: FAILED, DELETED (cancelled), PRUNED (waited
    for one of these) or SUCCEEDED (with --from, and the final job)."""
    reasons: Mapping[str, Mapping[RestartReason, Ordinal]]
    """Number of the same jobs per label and reason: failed, cancelled, pruned (waited for one of these), named (it
    succeeded, and its label is in `from`), descends (it succeeded, and descends from one that is named), final (the
    final job, which gathers what the others make), changed (its command or its files changed, or it waits for such a
    job) or new (with --with-changes)."""
    unfinished: Count
    """Number of jobs that were never over because the engine died; they go on in any case."""
    from_labels: Sequence[str]
    """Labels that run again with all their descendants, even those that succeeded."""
    set: Mapping[str, str]
    """What is set for jobs that run again or go on, a text per key."""
    set_for: SelectionEntry
    """The jobs and labels for which it is set."""
    set_of: Count
    """Number of jobs for which it is set."""
    with_changes: bool
    """Whether the run takes what changed since it was made."""
    changes: Sequence[str]
    """What changed since the run was made, a sentence each; empty if that changes no job, or was not compared."""
    jobs: Sequence[JobVerdictEntry]
    """What becomes of each job, with --dry-run and changes; else empty."""
    gone: Sequence[str]
    """Names of jobs that the changed workflow lacks."""
    notes: Sequence[str]
    """What a reader must know, a sentence each."""
    state: JobState | UnsetType = UNSET
    """State of the run at its end; only with `--wait`."""
    exit_status: WaitStatus | UnsetType = UNSET
    """Exit status that stands for the state, or for a pause that ended the wait; only with `--wait`."""


def restart_document(
    opened: OpenRun,
    plan: RestartPlan,
    *,
    submitted: bool,
    comparison: RunComparison | None = None,
    change_lines: Sequence[str] = (),
    notes: Sequence[str],
    as_of: float,
) -> RestartDocument:
    """Return what a restart runs as ``restart --json`` prints it; a comparison is given if it differs."""
    changes = plan.changes
    return RestartDocument.from_record(
        plan,
        id=opened.card.id,
        name=opened.card.name,
        submit_dir=str(opened.directory),
        submitted=submitted,
        again=plan.labels,
        from_labels=changes.from_labels,
        set=changes.set,
        set_for=SelectionEntry.from_record(changes.selection),
        set_of=plan.changed,
        with_changes=plan.comparison is not None,
        changes=change_lines,
        jobs=verdict_entries(comparison.names, comparison.match) if comparison and not submitted else [],
        gone=comparison.gone if comparison else (),
        notes=notes,
        as_of=as_of,
    )


def add_end(document: RestartDocument, report: RunReport) -> RestartDocument:
    """Return the document with the state of the run when the command no longer waited."""
    return replace(document, state=report.state, exit_status=report.wait_status)


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
