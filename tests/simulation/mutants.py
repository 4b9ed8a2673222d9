"""Mutants: the program with one promise broken on purpose, to show that the checker can fail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from tests.simulation.plan import World

from longshore.control import resume
from longshore.engine.run.loop import Engine
from longshore.keeper.program.attempts import AttemptRunner
from longshore.model.event import Event, Seal
from longshore.rundir.journal import Journal
from longshore.runstate.open_run import OpenRun
from longshore.services.batch.pilots.fleet import Fleet
from longshore.services.batch.pilots.program.pilot_mailbox import RecordWriter
from longshore.services.local.keeper_client import LocalClient
from longshore.system.atomic import AppendedFile


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Replace an attribute while the body runs."""
    before = vars(owner)[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _commit_without_sync(self: AppendedFile) -> None:
    self.flush()


def _act_before_commit(self: Engine) -> bool:
    """Write the events, and let the disk have them some time."""
    if not self._is_newest_life():
        return False
    self._journal.flush()
    return True


def _never_check(self: Engine) -> bool:
    return True


def _never_seal(self: Journal, seen: Seal | None, *, now: float) -> list[Event]:
    return []


def _nothing_lost(self: LocalClient, tags: Iterable[str]) -> frozenset[str]:
    return frozenset()


def _never_superseded(self: AttemptRunner) -> bool:
    return False


def _refuse_nothing(opened: OpenRun) -> None:
    pass


def _settle_early(self: Fleet, now: float) -> None:
    """Move what waits in pilots that may still start it."""
    for pilot in self.pilots.values():
        if pilot.state.begun is not None and pilot.gone_since is None and pilot.quiet_s > 1.0:
            pilot.state.take_waiting()


def _never_sync(self: RecordWriter) -> None:
    pass


class Mutant(NamedTuple):
    """A change of the program, and where to look for what it breaks."""

    change: tuple[Any, str, object]
    """Class or module, name of its attribute, and the value in place of it."""
    world: World = "manager"
    first: int = 0
    """Seed of the first history."""


MUTANTS: Final[Mapping[str, Mutant]] = {
    "the journal is not synced": Mutant((AppendedFile, "commit", _commit_without_sync)),
    "the engine acts before its intent is durable": Mutant((Engine, "_commit", _act_before_commit)),
    "the engine does not look for a newer life": Mutant((Engine, "_is_newest_life", _never_check), first=200),
    "a life does not seal the one before": Mutant((Journal, "seal", _never_seal), first=200),
    "the keeper's lost records are forgotten": Mutant((LocalClient, "find_lost", _nothing_lost), "local"),
    "resume does not refuse damage": Mutant((resume, "refuse_damage", _refuse_nothing), "local", first=240),
    "the keeper starts for a superseded engine": Mutant((AttemptRunner, "is_superseded", _never_superseded), "local"),
    "a pilot's jobs are moved before its lease is over": Mutant((Fleet, "settle_silent", _settle_early), "pilots"),
    "the name of a pilot's records is not synced": Mutant(
        (RecordWriter, "_sync_folder", _never_sync), "pilots", first=40
    ),
}
