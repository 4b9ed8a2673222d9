"""Damage of a run's journal before a new engine: refused, or accepted by the user as a loss."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from longshore import __version__
from longshore.app.runs.open_run import OpenRun
from longshore.engine.run.engine_service import EngineService
from longshore.engine.run.lost_journal import describe_lost_lives, newest_known_life
from longshore.engine.run.service_capabilities import journal_is_complete
from longshore.engine.rundir.journal import Journal
from longshore.engine.rundir.journal_chain import set_damaged_end_aside
from longshore.engine.rundir.journal_survey import JournalSurvey, survey_journal
from longshore.errors import SubmissionRefusedError
from longshore.model.run.event import FORMAT, Life, LossAccepted, Seal, Sealed
from longshore.world.files.folder import make_folders
from longshore.world.host import boot_id, host_name, user_name
from longshore.world.runs.owner import Access, require_access


def refuse_damage(opened: OpenRun) -> None:
    """Refuse to continue a run whose journal is damaged: jobs that succeeded might run again.

    Raises `SubmissionRefusedError`, which names the damage and the way out.
    """
    if found := _losses(opened, survey_journal(opened.run.journal)):
        more = f" (and {len(found) - 1} more)" if found[1:] else ""
        raise SubmissionRefusedError(
            f"the journal of run '{opened.card.id}' is damaged: {found[0]}{more}",
            hint="Bring the files back from a copy of the run. To continue from what is intact, so that jobs may run "
            f"again: longshore resume {opened.card.id} --accept-loss",
        )


def accept_loss(opened: OpenRun) -> Sequence[str]:
    """Record that the user accepts the losses of a damaged journal; return a sentence per loss.

    A life of its own seals every life at its intact length. Does nothing for an intact journal or a live engine. Raises
    `RunUnreadableError` for a newer format.
    """
    require_access(opened.run, Access.ACT)
    if opened.is_alive() is not False:
        return ()
    survey = survey_journal(opened.run.journal)
    losses = _losses(opened, survey)
    if losses:
        _write_acceptance(opened, survey, losses)
        opened.__dict__.pop("survey", None)
    return losses


def _losses(opened: OpenRun, survey: JournalSurvey) -> Sequence[str]:
    # A workload manager that runs whole workflows has the events itself.
    has_engine = isinstance(opened.service, EngineService) and journal_is_complete(opened.service, opened.run)
    lost = describe_lost_lives(opened.run) if has_engine and not survey.damages else ""
    return (*map(str, survey.damages), *([lost] if lost else []))


def _write_acceptance(opened: OpenRun, survey: JournalSurvey, losses: Sequence[str]) -> None:
    run = opened.run
    number = newest_known_life(run) + 1
    kept = {each.life: each for each in survey.intact}
    now = time.time()
    make_folders(run.journal, below=run.root, durable=True)
    set_damaged_end_aside(run.journal)
    life = Life(
        v=FORMAT,
        life=number,
        t=now,
        host=host_name(),
        pid=os.getpid(),
        boot=boot_id(),
        by="accept-loss",
        longshore=__version__,
    )
    journal = Journal(run.journal, life)
    try:
        seals = tuple(kept.get(each, Seal(life=each, bytes=0, crc=0)) for each in range(1, number))
        journal.append(Sealed(lives=seals), now=now)
        journal.append(LossAccepted(who=user_name(), losses=tuple(losses)), now=now)
        journal.commit()
    finally:
        journal.close()
