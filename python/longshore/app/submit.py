"""Prepares a run and hands it over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from longshore.app.prepare import Prepared, prepare
from longshore.app.teller import Keeping, Teller
from longshore.contract.context import RunPaths
from longshore.errors import LongshoreError
from longshore.model.submission import RunCard
from longshore.world.links import link_by_id
from longshore.world.registry import Entry, forget, register, reserve_id, state_folder
from longshore.world.rundir import remove_run_directory, write_card
from longshore.world.share import permissions


@dataclass(frozen=True, kw_only=True)
class Submitted:
    """A run that was handed over.

    Attributes
    ----------
    reference
        What the user can name it by: its id, or its directory where ids cannot be remembered.
    """

    run: RunPaths
    card: RunCard
    reference: str
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
    keeping = Keeping(tell)
    # The moment is that of the id, so that two runs of one second have two names and directories as well.
    run_id, moment = reserve_id(time.time())
    try:
        prepared = prepare(path, options=options, sets=sets, run_id=run_id, now=moment, tell=keeping)
    except BaseException:
        forget(run_id)
        raise
    return hand_over(prepared, keeping)


def hand_over(prepared: Prepared, tell: Keeping) -> Submitted:
    """Hand a prepared run over.

    Raises
    ------
    LongshoreError
        It was not taken; its directory is gone again.
    """
    run, card = prepared.run, prepared.card
    entry = Entry.of(card, str(run.root))
    registered = register(entry)
    name = card.id if registered else str(run.root)
    umask = prepared.begun.configuration.place.umask
    tell.stage("handing the run over")
    try:
        with permissions(umask):
            submission = prepared.begun.service.submit(run)
    except LongshoreError:
        remove_run_directory(run, made=prepared.made)
        forget(card.id)
        raise
    except KeyboardInterrupt:
        # Too late to take it back: what runs already must not lose its directory.
        tell.note(f"interrupted while the run was handed over; it may go on. To end it: longshore cancel {name}")
        raise
    card = msgspec.structs.replace(card, submissions=(submission,))
    try:
        with permissions(umask):
            write_card(run, card)
    except OSError as error:
        tell.note(f"the run goes on, but '{run.card}' could not be brought up to date: {error.strerror}")
    if registered and card.other_ids:
        register(Entry.of(card, str(run.root)))
    for note in submission.notes:
        tell.note(note)
    if not registered:
        tell.note(f"'{state_folder()}' cannot be written: name this run by its directory, not by its id")
    if card.id_links:
        tell.note(link_by_id(Path(card.id_links), submission.id, run.root))
    site = prepared.begun.configuration.site
    return Submitted(run=run, card=card, reference=name, site=site, notes=tuple(tell.notes))
