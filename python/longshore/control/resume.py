"""Resumes runs whose engine died: a new engine, no new submission, and damage only if the user accepts it as a loss."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from shlex import quote
from typing import Final

import msgspec

from longshore import __version__
from longshore.config.hidden_secrets import hidden_secrets, hide_read_secrets, note_secrets
from longshore.contract.capabilities import Resumable, require_capability
from longshore.contract.service import RunPaths
from longshore.control.interventions import explain_interruption
from longshore.errors import SubmissionRefusedError
from longshore.model.event import ACCEPT_LOSS, FORMAT, Life, LossAccepted, Seal, Sealed
from longshore.model.report import Damage
from longshore.model.states import JobState
from longshore.plan.shared_outputs import claim_outputs, is_over, stored_outputs
from longshore.plan.submit_once import refuse_if_not_submitted
from longshore.reports.status import status_run
from longshore.rundir.journal import Journal, life_path, measure_lives, seal_finished, seal_of, set_damaged_end_aside
from longshore.rundir.journal_damage import JournalSurvey, find_lost_manifests, newest_known_life, refuse_lost_manifest
from longshore.rundir.registry import read_entries, read_entry
from longshore.rundir.run_directory import Access, is_own_run, require_access
from longshore.rundir.submissions import find_changed_sources, refuse_changed_files, restate_card
from longshore.runstate.open_run import READ_ERRORS, OpenRun, describe_read_error, is_missing, open_run
from longshore.runstate.verify import check_starts, check_submissions
from longshore.system.atomic import sync_file
from longshore.system.folder import make_folders
from longshore.system.host import boot_id, host_name, user_name
from longshore.system.processes import processes

# Damage of a run's journal or records before a new engine: refused, or accepted by the user as a loss.


_CARD_RESTATED: Final = "'{path}': it did not fit its checksum; when and by whom the run was submitted may be wrong"


def refuse_damage(opened: OpenRun) -> None:
    """Refuse to continue a run whose journal or records are damaged: jobs that succeeded might run again.

    Raises `SubmissionRefusedError`, which names the damage and the way out.
    """
    if found := _find_damages(opened):
        more = f" (and {len(found) - 1} more)" if found[1:] else ""
        raise SubmissionRefusedError(
            f"records of run '{opened.card.id}' are damaged: {found[0]}{more}",
            hint="Bring the files back from a copy of the run. To continue from what is intact, so that jobs may run "
            f"again: longshore resume {opened.reference} --accept-loss",
        )


def accept_loss(opened: OpenRun) -> Sequence[str]:
    """Record that the user accepts the losses of a damaged run; return a sentence per loss.

    A life of its own seals every life at its intact length. Does nothing without damage or with a live engine. Raises
    `RunUnreadableError` for a newer format, `SubmissionRefusedError` if another file of the run changed: no loss is
    accepted for a run that cannot continue.
    """
    require_access(opened.run, Access.ACT)
    if opened.is_alive() is not False:
        return ()
    card = [_CARD_RESTATED.format(path=opened.run.card)] if restate_card(opened.run) else []
    refuse_changed_files(opened.run)
    opened.forget_damage()
    # No engine can go on without it.
    refuse_lost_manifest(opened.run)
    losses = tuple(map(str, _find_damages(opened)))
    if losses:
        _write_acceptance(opened, opened.survey, losses)
        opened.forget_damage()
    return (*card, *losses)


def note_changed_sources(run: RunPaths) -> list[str]:
    """Return a note for each changed file that only tells what a run was made from."""
    return [
        f"'{run.root / change.path}' {change.what}: it only tells what the run was made from, and nothing uses it"
        for change in find_changed_sources(run)
    ]


def _find_damages(opened: OpenRun) -> Sequence[Damage]:
    if damages := (*opened.survey.damages, *opened.record_damages):
        return damages
    # A journal that was cut at the end of a line reads as after a crash, and one without keepers' files as before them.
    extents = measure_lives(opened.run.journal)
    return (
        *check_submissions(opened.run, extents),
        *check_starts(opened.run, extents),
        *find_lost_manifests(opened.run),
    )


def _write_acceptance(opened: OpenRun, survey: JournalSurvey, losses: Sequence[str]) -> None:
    run = opened.run
    number = newest_known_life(run) + 1
    # Where only whole lives or records are missing, all lives that are left are intact.
    kept = {each.life: each for each in survey.intact or map(seal_of, measure_lives(run.journal))}
    now = time.time()
    make_folders(run.journal, below=run.root, durable=True)
    set_damaged_end_aside(run.journal)
    life = Life(
        v=FORMAT,
        life=number,
        t=now,
        host=host_name(),
        pid=processes.getpid(),
        boot=boot_id(),
        by=ACCEPT_LOSS,
        longshore=__version__,
    )
    journal = Journal(run.journal, life)
    try:
        seals = tuple(kept.get(each, Seal(life=each, bytes=0, crc=0)) for each in range(1, number))
        for each in seals:
            if each.bytes:
                # An engine that was killed may have left events that only the system's cache has.
                sync_file(life_path(run.journal, each.life))
        journal.append(Sealed(lives=seals), now=now)
        journal.append(LossAccepted(who=user_name(), losses=tuple(losses)), now=now)
        journal.commit()
    finally:
        journal.close()


class ResumeResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a resume: notes for the user, whether a new engine was started, and whether it failed."""

    notes: tuple[str, ...]
    has_started: bool = False
    has_failed: bool = False


@hidden_secrets()
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
    files.

    Raises `SubmissionRefusedError` if a file of the run changed, the engine is or may be alive (decided by the service:
    `EngineService.resume`), cannot be started, or the last engines made no progress.
    """
    require_access(opened.run, Access.ACT)
    note_secrets(lambda: opened.secrets)
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
    return ResumeResult(
        notes=(*notes, *_copy_notes(opened), *map(hide_read_secrets, submission.notes)), has_started=True
    )


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
