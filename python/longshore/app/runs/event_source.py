"""Event source of a run: all events as lines or records, and new ones as they appear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from longshore.app.runs.open_run import OpenRun, is_missing, map_read_errors
from longshore.contract.context import Mark, Unreachable
from longshore.contract.service import StaleMarkError
from longshore.engine.journal.chain import lives
from longshore.engine.journal.event_chunks import EventChunks
from longshore.engine.journal.read_journal import read_blocks, read_since
from longshore.engine.run.service_capabilities import journal_is_complete
from longshore.errors import LongshoreError, RunNotFoundError, RunUnreadableError, UnreachableError
from longshore.model.lines.json_line import encode_line
from longshore.model.run.damage import DamagedError
from longshore.model.run.event import Event

_CHUNK_EVENTS: Final = 5000
"""Events that are held or encoded together."""
_Event = TypeVar("_Event")


def event_blocks(opened: OpenRun) -> list[bytes]:
    """Return every event of a run as undecoded lines, many lines a block.

    Of a damaged journal, only what precedes the damage is returned; `OpenRun.survey` tells the rest. Raises
    `RunUnreadableError` if the journal is gone, too new or not readable, `UnreachableError` if the workload manager
    does not answer.
    """
    with map_read_errors(opened.run):
        if lives(opened.run.journal) and _has_complete_journal(opened):
            return _intact_blocks(opened)
        events = all_events(opened)
        encoded = []
        while block := b"".join(map(encode_line, islice(events, _CHUNK_EVENTS))):
            encoded.append(block)
    if not encoded and opened.card.submissions and opened.is_alive() is not True:
        raise RunUnreadableError(
            f"run '{opened.card.id}' was submitted, and no record of its events is left in '{opened.run.journal}'"
        )
    return encoded


def _intact_blocks(opened: OpenRun) -> list[bytes]:
    blocks: list[bytes] = []
    try:
        blocks.extend(block.lines for block in read_blocks(opened.run.journal)[0])
    except DamagedError:
        opened.look_for_damage()
    else:
        if opened.find_lost_lives():
            opened.look_for_damage()
    return blocks


def all_events(opened: OpenRun) -> Iterator[Event]:
    """Iterate over every event of a run from its service.

    Raises `UnreachableError` if the workload manager does not answer.
    """
    answer = opened.events()
    if isinstance(answer, Unreachable):
        raise UnreachableError(f"the events of run '{opened.card.id}' cannot be queried: {answer.why}")
    return answer[0]


def _has_complete_journal(opened: OpenRun) -> bool:
    try:
        return journal_is_complete(opened.service, opened.run)
    except LongshoreError:
        # Without the installed service, the recorded events are the only ones.
        return True


class EventFollower:
    """Reads new events of a run.

    `mark` is the position in the events. `has_restarted` means that the last `read` began again with the first event,
    so what was read before is void. `unreachable` is why the workload manager did not answer the last call; empty if it
    did.
    """

    def __init__(self, opened: OpenRun) -> None:
        self._opened = opened
        # A journal is followed directly: events seen before the journal exists are numbered
        # differently.
        with map_read_errors(opened.run):
            self._has_journal = bool(lives(opened.run.journal))
        self.mark: Mark = ""
        self.has_restarted = False
        self.unreachable = ""

    @property
    def may_have_events(self) -> bool:
        """Whether the run may have events, now or later."""
        is_started = self._has_journal or bool(self._opened.card.submissions)
        return is_started or self._opened.is_alive() is not False

    def read(self) -> Iterator[Event]:
        """Return the events since the last call, in order; none while the workload manager does not answer.

        Raises `RunNotFoundError` if the run directory was removed, `RunUnreadableError` if new events cannot be read.
        The iterator may raise both.
        """
        root = self._opened.run.root
        if is_missing(root):
            raise RunNotFoundError(
                f"'{root}' is gone: it was moved or removed while it was followed",
                hint="If it was moved, name it by its new path.",
            )
        stale = False
        try:
            answer = self._query(self.mark)
        except StaleMarkError:
            stale = True
            answer = self._query("")
        if isinstance(answer, Unreachable):
            # The mark stays: if it is invalid, the next call returns that again.
            self.has_restarted, self.unreachable = False, answer.why
            return iter(())
        events, self.mark = answer
        self.has_restarted, self.unreachable = stale, ""
        return events

    def _query(self, mark: Mark) -> tuple[Iterator[Event], Mark] | Unreachable:
        if self._has_journal:
            return read_since(self._opened.run.journal, mark)
        return self._opened.events(mark)


def chunk_events(events: Iterable[_Event]) -> Iterator[list[_Event]]:
    """Yield events in lists for several collectors in turn, which is faster than one by one; damage is raised last."""
    if isinstance(events, EventChunks):
        yield from filter(None, events.chunks)
        return
    each = iter(events)
    damage: DamagedError | None = None
    while damage is None:
        piece: list[_Event] = []
        try:
            piece.extend(islice(each, _CHUNK_EVENTS))
        except DamagedError as error:
            damage = error
        if not piece:
            break
        yield piece
    if damage is not None:
        raise damage
