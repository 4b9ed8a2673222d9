"""Prepares a run and hands it over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from longshore.app.prepare import Prepared, prepare
from longshore.app.teller import Teller
from longshore.contract.context import RunPaths
from longshore.errors import LongshoreError
from longshore.model.submission import RunCard
from longshore.world.links import link_by_id
from longshore.world.registry import Entry, forget, register, reserve_id, state_folder
from longshore.world.rundir import remove_run_directory, write_card


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A run that was handed over."""

    run: RunPaths
    card: RunCard
    site: str
    notes: tuple[str, ...]


def submit(path: Path, *, options: Mapping[str, str], sets: tuple[str, ...], tell: Teller) -> Submitted:
    """Prepare a run and hand it over.

    Parameters
    ----------
    path
        The user's file.
    options
        Values of named options, per key of ``bps_cmdline``.
    sets
        ``KEY=VALUE`` of the option ``--set``.
    tell
        Takes notes and progress.

    Raises
    ------
    LongshoreError
        The run could not be prepared or was not taken; nothing is left behind.
    """
    now = time.time()
    run_id = reserve_id(now)
    try:
        prepared = prepare(path, options=options, sets=sets, run_id=run_id, now=now, tell=tell)
        return _hand_over(prepared, tell)
    except BaseException:
        forget(run_id)
        raise


def _hand_over(prepared: Prepared, tell: Teller) -> Submitted:
    run, card = prepared.run, prepared.card
    entry = Entry(id=card.id, path=str(run.root), name=card.name, service=card.service, created_at=card.created_at)
    registered = register(entry)
    tell.stage("handing the run over")
    try:
        submission = prepared.service.submit(run)
    except LongshoreError:
        remove_run_directory(run)
        raise
    card = msgspec.structs.replace(card, submissions=(submission,))
    write_card(run, card)
    notes = list(submission.notes)
    if not registered:
        notes.append(f"'{state_folder()}' cannot be written: name this run by its directory, not by its id")
    configuration = prepared.configuration
    if configuration.search("makeIdLink") is True:
        notes.append(link_by_id(Path(configuration.text("idLinkPath")), submission.id, run.root))
    return Submitted(run=run, card=card, site=prepared.site, notes=tuple(notes))
