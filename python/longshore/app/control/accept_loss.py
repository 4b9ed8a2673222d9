"""Damage of a run's journal or records before a new engine: refused, or accepted by the user as a loss."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from longshore import __version__
from longshore.app.runs.open_run import OpenRun
from longshore.app.verify.run_end import check_starts, check_submissions
from longshore.contract.context import RunPaths
from longshore.engine.journal.chain import life_path, measure_lives, set_damaged_end_aside
from longshore.engine.journal.journal import Journal, seal_of
from longshore.engine.journal.survey import JournalSurvey
from longshore.engine.run.lost_journal import find_lost_manifests, newest_known_life, refuse_lost_manifest
from longshore.errors import SubmissionRefusedError
from longshore.model.run.damage import Damage
from longshore.model.run.event import ACCEPT_LOSS, FORMAT, Life, LossAccepted, Seal, Sealed
from longshore.world.files.atomic import sync_file
from longshore.world.files.folder import make_folders
from longshore.world.host import boot_id, host_name, user_name
from longshore.world.process_system import processes
from longshore.world.runs.manifests import find_changed_sources, refuse_changed_files, restate_card
from longshore.world.runs.owner import Access, require_access

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
