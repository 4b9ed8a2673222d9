"""Opens a run that was handed over before: by id, beginning of an id, path, or ``@last``."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.app.services import find_service
from longshore.contract.context import RunPaths
from longshore.contract.service import WmsService
from longshore.model.submission import RunCard
from longshore.world.registry import find_run
from longshore.world.rundir import read_card


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A run and what it takes to talk about it."""

    run: RunPaths
    card: RunCard
    service: WmsService


def open_run(reference: str) -> OpenRun:
    """Open a run.

    Raises
    ------
    RunNotFoundError
        There is none of that name, or it cannot be read.
    UnknownServiceError
        Its service is not installed here.
    """
    run = find_run(reference)
    card = read_card(run)
    return OpenRun(run=run, card=card, service=find_service(card.service))
