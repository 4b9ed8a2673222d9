"""Opens a run that was handed over before: by id, beginning of an id, path, or ``@last``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from longshore.app.services import find_service, short_name
from longshore.contract.context import RunPaths
from longshore.contract.service import WmsService
from longshore.errors import LongshoreError, RunNotFoundError, UnknownServiceError
from longshore.model.submission import RunCard
from longshore.world.registry import Entry, find_run, path_of, register
from longshore.world.rundir import read_card


@dataclass(frozen=True, kw_only=True)
class OpenRun:
    """A run and what it takes to talk about it."""

    run: RunPaths
    card: RunCard

    @cached_property
    def service(self) -> WmsService:
        """The run's service, imported when it is first asked: what is over can be told of without.

        Raises
        ------
        UnknownServiceError
            It is not installed here.
        """
        return find_service(self.card.service)


def open_run(reference: str, *, service: str | None = None) -> OpenRun:
    """Open a run.

    Parameters
    ----------
    reference
        Its id, the beginning of its id, its path, or ``@last``.
    service
        The service it is said to belong to; the run itself knows better.

    Raises
    ------
    RunNotFoundError
        There is none of that name, or it cannot be read.
    UnknownServiceError
        Its service is not the one it is said to belong to.
    """
    run = find_run(reference)
    if not os.path.lexists(run.root):
        raise RunNotFoundError(
            f"there is no run directory '{run.root}'",
            hint="If the run was moved, name it by its new path; if it was removed, there is no more to know of it.",
        )
    card = read_card(run)
    if service and short_name(service) != short_name(card.service):
        raise UnknownServiceError(
            f"run '{card.id}' belongs to the service '{card.service}', not to '{service}'",
            hint="Leave --wms-service-class out: a run knows its service.",
        )
    known = path_of(card.id)
    if card.id != reference and path_of(reference) == str(run.root):
        raise RunNotFoundError(
            f"'{run.root}' was the directory of run '{reference}', and now is that of run '{card.id}'",
            hint=f"If run '{reference}' was removed: longshore forget {reference}",
        )
    if known != str(run.root) and card.submissions and (known is None or is_same_run(known, card) is None):
        # It was moved, or the registry was lost: from now on its id finds it again.
        register(
            Entry(id=card.id, path=str(run.root), name=card.name, service=card.service, created_at=card.created_at)
        )
    return OpenRun(run=run, card=card)


def is_same_run(path: str, card: RunCard) -> bool | None:
    """Whether a directory holds a certain run, or a copy of it; ``None`` where it holds none of that id.

    Parameters
    ----------
    path
        The directory.
    card
        The run.
    """
    try:
        found = read_card(RunPaths(Path(path)))
    except LongshoreError:
        return None
    return found.mark == card.mark if found.id == card.id else None
