"""Resumes runs whose engine died, with a new engine and no new submission."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from shlex import quote

import msgspec

from longshore.app.control.accept_loss import accept_loss, note_changed_sources, refuse_damage
from longshore.app.control.interruption import explain_interruption
from longshore.app.report.brief_report import status_run
from longshore.app.runs.open_run import READ_ERRORS, OpenRun, describe_read_error, is_missing, open_run
from longshore.app.submit.shared_outputs import claim_outputs, is_over, stored_outputs
from longshore.app.submit.submit_once import refuse_if_not_submitted
from longshore.contract.capabilities import Resumable
from longshore.engine.journal.journal import seal_finished
from longshore.engine.run.service_capabilities import require_capability
from longshore.errors import SubmissionRefusedError
from longshore.model.run.states import JobState
from longshore.world.runs.manifests import refuse_changed_files
from longshore.world.runs.owner import Access, is_own_run, require_access
from longshore.world.runs.registry import read_entries, read_entry


class ResumeResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a resume: notes for the user, whether a new engine was started, and whether it failed."""

    notes: tuple[str, ...]
    has_started: bool = False
    has_failed: bool = False


def resume(
    opened: OpenRun,
    *,
    take_over: bool = False,
    force: bool = False,
    loss_accepted: bool = False,
    shares_outputs: bool = False,
) -> ResumeResult:
    """Start another engine for a run; the journal records a new life, no new submission.

    `take_over` replaces an engine that seems alive, because the user knows that it or its host is gone for good.
    `force` overrides the stop after several engines that died without progress. With `loss_accepted`, the run
    continues from what is intact of a damaged journal. With `shares_outputs`, another live run may write the same
    files. Raises `SubmissionRefusedError` if a
    file of the run changed, the engine is or may be alive (decided by the service: `EngineService.resume`), cannot be
    started, or the last engines made no progress.
    """
    require_access(opened.run, Access.ACT)
    refuse_if_not_submitted(opened.run, opened.card)
    service = require_capability(opened.service, Resumable, "resume runs")
    lost = accept_loss(opened) if loss_accepted else ()
    refuse_changed_files(opened.run)
    claim: AbstractContextManager[None] = nullcontext()
    if opened.is_alive() is False:
        _refuse_damage(opened)
        if not is_over(opened.run, read_entry(opened.card.id)):
            claim = claim_outputs(stored_outputs(opened.run, opened.card), opened.run.root, share=shares_outputs)
    with claim, explain_interruption(opened, "a new engine may have started"):
        submission = service.resume(opened.run, take_over=take_over, force=force)
    notes = (*(f"lost, as accepted: {each}" for each in lost), *note_changed_sources(opened.run))
    if submission is None:
        # Its engine may have died before it did.
        seal_finished(opened.run.journal)
        again = f"; to run again what failed: longshore restart {opened.reference}" if _has_failed(opened) else ""
        return ResumeResult(notes=(*notes, f"nothing to resume: every job of the run is over{again}"))
    return ResumeResult(notes=(*notes, *_copy_notes(opened), *submission.notes), has_started=True)


def _refuse_damage(opened: OpenRun) -> None:
    """Refuse to continue a damaged run, unless an engine began meanwhile, which may be writing just what was read."""
    try:
        refuse_damage(opened)
    except SubmissionRefusedError:
        # The service refuses the run then, and says which engine it is.
        if opened.is_alive() is not True:
            raise


def _has_failed(opened: OpenRun) -> bool:
    return status_run(opened).state in {JobState.FAILED, JobState.DELETED}


def _copy_notes(opened: OpenRun) -> Iterator[str]:
    if original := opened.find_original():
        yield (
            f"this is a copy: the run '{opened.card.id}' is in '{original}'. Jobs of both may write the same files. "
            f"To give the id to the copy: longshore adopt {quote(str(opened.run.root))}"
        )


def resume_all(on_unreadable: Callable[[str], None] = lambda _: None) -> list[tuple[OpenRun, ResumeResult]]:
    """Resume every run without an engine that this user submitted or adopted; a failure does not stop the others.

    Runs of other users are left out, even trusted ones. `on_unreadable` is called with a line about each run directory
    that exists and cannot be read.
    """
    outcomes = []
    for entry in read_entries():
        try:
            if not is_own_run(Path(entry.path)):
                continue
            opened = open_run(entry.path)
            if status_run(opened).state is not JobState.UNKNOWN:
                continue
        except READ_ERRORS as error:
            if not is_missing(entry.path):
                on_unreadable(f"run '{entry.id}' cannot be read: {describe_read_error(error)}")
            continue
        if entry.is_found:
            # Whoever made the directory chose its jobs, and no command of this user named it in order to run them.
            note = f"run '{entry.id}' in '{entry.path}' was found there: resume it by its id, or adopt it first"
            outcomes.append((opened, ResumeResult(notes=(note,))))
            continue
        try:
            outcomes.append((opened, resume(opened)))
        except READ_ERRORS as error:
            outcomes.append((opened, ResumeResult(notes=(describe_read_error(error),), has_failed=True)))
    return outcomes
