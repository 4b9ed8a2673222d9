"""Hands a prepared run to its service exactly once, with recovery after a crash (decision 0053)."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from shlex import quote

import msgspec

from longshore.contract.capabilities import recovered_submission
from longshore.contract.service import RunPaths, Unreachable, WmsService
from longshore.errors import (
    FilesError,
    LongshoreError,
    SubmissionRefusedError,
    SubmissionUncertainError,
    UnreachableError,
)
from longshore.model.submission import RunIdentity, Submission, SubmissionStart
from longshore.model.wording import format_timestamp
from longshore.plan.shared_outputs import claim_outputs, stored_outputs
from longshore.progress import RecordingProgress
from longshore.rundir.find_run import hint_reference, run_of_this_job
from longshore.rundir.notices import start_missing_notifier
from longshore.rundir.output_claims import RunOutputs
from longshore.rundir.registry import RegistryEntry, read_entry, remove_entry, state_folder, write_entry
from longshore.rundir.run_directory import (
    read_card,
    read_submitting,
    remove_run_directory,
    sync_run_name,
    write_card,
    write_submitting,
)
from longshore.rundir.submissions import refuse_changed_files
from longshore.runstate.open_run import is_alive
from longshore.system.folder import remove_file
from longshore.system.host import host_name, user_name, working_directory
from longshore.system.links import link_by_id
from longshore.system.room import apply_umask
from longshore.system.sharing import lock_folder


class PreparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Run that is prepared and ready for submission.

    `site` and `umask` are those of its site. `kept_files` names files in its directory that stay if it is refused; with
    `keep` the whole directory stays. `private_files` hold secrets, and only the user may read them. `outputs` are what
    it writes; without them, its workflow is read. With `shares_outputs`, another live run may write the same files.
    """

    run: RunPaths
    card: RunIdentity
    service: WmsService
    site: str
    umask: int | None
    kept_files: tuple[str, ...] = ()
    keep: bool = False
    private_files: tuple[str, ...] = ()
    outputs: RunOutputs | None = None
    shares_outputs: bool = False


class SubmittedRun(msgspec.Struct, frozen=True, kw_only=True):
    """Submitted run; `reference` is its id, or its directory if the registry cannot be written."""

    run: RunPaths
    card: RunIdentity
    reference: str
    site: str
    notes: tuple[str, ...]


def submit_once(prepared: PreparedRun, progress: RecordingProgress) -> SubmittedRun:
    """Submit a prepared run to its service exactly once.

    Raises `LongshoreError` if the run is refused (its directory is removed unless it is kept), or if another process
    submitted it first. `KeyboardInterrupt` says what an interruption left.
    """
    try:
        return _submit_locked(prepared, progress)
    except KeyboardInterrupt as interrupt:
        # The text of an inner one says more.
        left = str(interrupt) or clear_interrupted(
            prepared.run, prepared.card.id, keep=prepared.keep, kept_files=prepared.kept_files
        )
        raise KeyboardInterrupt(left) from None


def clear_interrupted(run: RunPaths, run_id: str, *, keep: bool = False, kept_files: tuple[str, ...] = ()) -> str:
    """Remove an interrupted run unless its submission began; return a sentence for the user."""
    has_begun = run.submitting.exists() or (run.journal.is_dir() and any(run.journal.iterdir()))
    if has_begun or (run.card.exists() and read_card(run).submissions):
        return f"the run may go on. To end it: longshore cancel {quote(str(run.root))}"
    if keep:
        return f"nothing was submitted. To submit it: longshore submit {quote(str(run.root))}"
    # Without a card it has only files that stay, or none.
    if run.card.exists():
        remove_run_directory(run, kept=kept_files)
    remove_entry(run_id)
    return "nothing was submitted"


def _submit_locked(prepared: PreparedRun, progress: RecordingProgress) -> SubmittedRun:
    run = prepared.run
    # Printed before waiting for the lock: another process may be submitting a hundred thousand jobs.
    progress.stage("submitting the run")
    with lock_folder(run.root):
        card = msgspec.structs.replace(
            read_card(run),
            submitted_from=working_directory(),
            submitted_in=run_of_this_job(),
            submitted_by_job=os.environ.get("LONGSHORE_JOB_NAME", "") if run_of_this_job() else "",
        )
        submission = recover_submission(run, card, prepared.service, progress)
        if submission is None:
            refuse_if_submitted(run, card, prepared.service)
        registered, name = _register_run(run, card)
        if submission is None:
            submission = _submit(prepared, card, registered=registered)
        card = msgspec.structs.replace(card, submissions=(submission,))
        try:
            with apply_umask(prepared.umask):
                write_card(run, card)
                remove_file(run.submitting, below=run.root)
        except OSError as error:
            progress.note(f"the run goes on, but '{run.card}' could not be brought up to date: {error.strerror}")
    if registered and card.other_ids:
        write_entry(RegistryEntry.of(card, str(run.root)))
    if why := start_missing_notifier(prepared.service, run):
        progress.note(why)
    for note in submission.notes:
        progress.note(note)
    if not registered:
        progress.note(f"'{state_folder()}' cannot be written: name this run by its directory, not by its id")
    if card.id_links:
        progress.note(link_by_id(Path(card.id_links), submission.id, run.root))
    return SubmittedRun(run=run, card=card, reference=name, site=prepared.site, notes=tuple(progress.notes))


def recover_submission(
    run: RunPaths, card: RunIdentity, service: WmsService, progress: RecordingProgress
) -> Submission | None:
    """Return the submission that a killed process left unrecorded, if the service has it.

    Raises `UnreachableError` if the service cannot tell.
    """
    started = None if card.submissions else read_submitting(run)
    if started is None:
        return None
    submission = recovered_submission(service, run)
    if submission is not None:
        progress.note(f"the submission is complete, although '{started.user}' on '{started.host}' was interrupted")
    return submission


def _submit(prepared: PreparedRun, card: RunIdentity, *, registered: bool) -> Submission:
    run = prepared.run
    try:
        outputs = prepared.outputs or stored_outputs(run, card)
        with claim_outputs(outputs, run.root, share=prepared.shares_outputs), apply_umask(prepared.umask):
            refuse_changed_files(run, with_inputs=True)
            _record_start(run, was_kept=prepared.keep)
            return prepared.service.submit(run)
    except SubmissionUncertainError:
        # A run that may be live must keep its directory.
        raise
    except LongshoreError:
        _withdraw(prepared, card, registered=registered)
        raise
    except KeyboardInterrupt:
        if not run.submitting.exists():
            raise
        # Too late to undo: a run that is live must keep its directory.
        name = card.id if registered else run.root
        raise KeyboardInterrupt(
            f"during the submission; the run may go on. To end it: longshore cancel {name}"
        ) from None


def refuse_if_submitted(run: RunPaths, card: RunIdentity, service: WmsService) -> None:
    """Refuse to submit a run twice.

    Raises `SubmissionRefusedError` if it was submitted, `UnreachableError` if that is possible and the service cannot
    tell.
    """
    name = hint_reference(run)
    hint = (
        f"To see its state: longshore report {name}; to run failed jobs again: longshore restart {name}; "
        f"to start a new engine after one died: longshore resume {name}"
    )
    if card.submissions:
        last = card.submissions[-1]
        when = f"{format_timestamp(last.at)} by '{last.user}' on '{last.host}'"
        raise SubmissionRefusedError(f"'{run.root}' was submitted already, {when}", hint=hint)
    if run.journal.is_dir() and any(run.journal.iterdir()):
        raise SubmissionRefusedError(f"'{run.root}' was submitted already: its journal has begun", hint=hint)
    started = read_submitting(run)
    if started is None:
        return
    # The submitting process was killed; the service knows how much it has.
    alive = is_alive(service, run)
    by = f"'{started.user}' on '{started.host}' began to submit '{run.root}' and was interrupted"
    if isinstance(alive, Unreachable):
        raise UnreachableError(
            f"{by}, and the service cannot tell whether it runs: {alive.why}", hint="Try again later."
        )
    if alive:
        raise SubmissionRefusedError(f"{by}: it runs", hint=hint)


def refuse_if_not_submitted(run: RunPaths, card: RunIdentity) -> None:
    """Refuse to resume or restart a run that was prepared but never submitted.

    Raises `SubmissionRefusedError` for such a run.
    """
    begun = run.journal.is_dir() and any(run.journal.iterdir())
    if not card.submissions and not begun and not run.submitting.exists():
        raise SubmissionRefusedError(
            f"'{run.root}' was prepared, and never submitted",
            hint=f"To submit it: longshore submit {quote(str(run.root))}",
        )


def _record_start(run: RunPaths, *, was_kept: bool) -> None:
    try:
        if was_kept:
            # Its preparation may have been killed after the directory got its name, and before the name was on disk.
            sync_run_name(run)
        write_submitting(run, SubmissionStart(at=time.time(), user=user_name(), host=host_name()))
    except OSError as error:
        raise FilesError(
            f"'{run.root}' cannot be submitted, because it cannot be written: {error.strerror}",
            hint="Make the directory writable and submit again: nothing was started.",
        ) from error


def _register_run(run: RunPaths, card: RunIdentity) -> tuple[bool, str]:
    """Register a run; return whether its id will find it, and the reference for the user."""
    entry = RegistryEntry.of(card, str(run.root))
    known = read_entry(card.id)
    # A run prepared by another user may have the id of one of this user's runs.
    registered = (known is None or known.path == entry.path) and write_entry(entry)
    return registered, card.id if registered else str(run.root)


def _withdraw(prepared: PreparedRun, card: RunIdentity, *, registered: bool) -> None:
    if prepared.keep:
        # If it cannot be removed, the next call asks the service whether the run is live.
        with suppress(OSError):
            remove_file(prepared.run.submitting, below=prepared.run.root)
    else:
        remove_run_directory(prepared.run, kept=prepared.kept_files)
    if registered or not prepared.keep:
        remove_entry(card.id)
