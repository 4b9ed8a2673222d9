"""State of a pilot on one node, by the orders that it was given and by its records; nothing here touches a file.

An attempt that was handed to a pilot waits there, is *got* (it may begin), runs, and is over; or it is given back. A
pilot whose allocation is gone starts nothing more. What it had got is then lost, and what waited never started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from longshore.contract.executor import AttemptId, MemberEvent
from longshore.errors import DECODE_ERRORS
from longshore.keeper.protocol import (
    ExitRecord,
    ReapingRecord,
    StartRecord,
    end_event,
    exit_event,
    start_event,
)
from longshore.model.event import Lost

# Records as the engine decodes them; `protocol` documents their members.


class PilotBegun(msgspec.Struct, frozen=True, tag_field="r", tag="pilot"):
    """The pilot has begun on a node."""

    node: int
    host: str
    cpus: int
    memory: int
    until: float = -1.0
    """Seconds that are left of the allocation; negative if it has no limit."""


class GenerationTaken(msgspec.Struct, frozen=True, tag_field="r", tag="gen"):
    """The pilot follows the orders `g`, and took the older ones up to a byte."""

    g: int
    was: int
    at: int


class Beat(msgspec.Struct, frozen=True, tag_field="r", tag="beat"):
    """The pilot lives."""

    k: int
    at: int
    run: int
    wait: int


class AttemptsGot(msgspec.Struct, frozen=True, tag_field="r", tag="got"):
    """Attempts that may begin from now on."""

    m: tuple[AttemptId, ...]


class AttemptsGivenBack(msgspec.Struct, frozen=True, tag_field="r", tag="never"):
    """Attempts that were not started, and will not be."""

    m: tuple[AttemptId, ...]


class PilotClosed(msgspec.Struct, frozen=True, tag_field="r", tag="closed"):
    """Nothing runs, and nothing will start."""

    why: str = ""


PilotNews: TypeAlias = (
    PilotBegun
    | GenerationTaken
    | Beat
    | AttemptsGot
    | AttemptsGivenBack
    | PilotClosed
    | StartRecord
    | ReapingRecord
    | ExitRecord
)
_decoder: Final = msgspec.json.Decoder(PilotNews)


def decode_news(text: bytes) -> list[PilotNews]:
    """Decode the records of whole lines; those of a newer version are left out."""
    try:
        return _decoder.decode_lines(text)
    except DECODE_ERRORS:
        return list(_decode_one_by_one(text))


def _decode_one_by_one(text: bytes) -> Iterator[PilotNews]:
    for line in text.splitlines():
        with suppress(*DECODE_ERRORS):
            yield _decoder.decode(line)


PilotId: TypeAlias = tuple[int, int]
"""Number of an allocation, from 1, and of the node in it, from 0."""


class HandedState(IntEnum):
    """How far an attempt has come that was handed to a pilot."""

    WAITING = 0
    GOT = 1
    RUNNING = 2


class HandedAttempt(msgspec.Struct, gc=False):
    """An attempt that was handed to a pilot and is not over.

    Attributes
    ----------
    tag
        Tag of its batch.
    kind
        Number of the kind of work, for estimates; 0 for an attempt of an earlier life.
    generation, end
        The file of orders that has it, and the byte there at which its order ends.
    times
        How often it was handed without having been given back, which is more than once only in older orders.
    """

    tag: str
    kind: int
    generation: int
    end: int
    times: int = 1
    state: HandedState = HandedState.WAITING


class OlderHandOver(msgspec.Struct, frozen=True, gc=False):
    """An attempt that an order of an earlier life hands over; `end` is the byte at which this order ends."""

    attempt: AttemptId
    tag: str
    end: int


class PilotState:
    """One pilot.

    `generation` numbers the file of orders of this life. `extend_older` is told the orders of earlier ones.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.attempts: dict[AttemptId, HandedAttempt] = {}
        """Attempts that were handed over and are neither over nor given back."""
        self.begun: PilotBegun | None = None
        self.beat: Beat | None = None
        """The newest sign of life."""
        self.closed: PilotClosed | None = None
        self.is_ending = False
        """Whether it takes no more, because it was told to end or nobody knows whether it lives."""
        self.is_over = False
        """Whether nothing of it runs or will start."""
        self.events: list[tuple[str, MemberEvent]] = []
        """Events that were not taken yet, each with the tag of the batch."""
        self.returned: list[tuple[AttemptId, HandedAttempt]] = []
        """Attempts that were given back, or never began, and were not taken yet."""
        self.failed: list[tuple[AttemptId, HandedAttempt, str]] = []
        """As `returned`, of attempts that could not begin for a passing reason of the node, which is the text."""
        self.run_times: list[tuple[int, float]] = []
        """Kind and run time of attempts that ended, not taken yet."""
        self.waiting_count = 0
        """Number of attempts that wait in the pilot."""
        self.kinds: Counter[int] = Counter()
        """Number of attempts per kind."""
        self._older: dict[int, list[OlderHandOver]] = {}
        """Orders of generations that the pilot has not reached."""
        self.reached = 1
        """Newest generation that the pilot follows, as far as it told."""
        self.is_superseded = False
        """Whether it follows the orders of a later life."""
        self._exited: dict[AttemptId, ReapingRecord] = {}

    @property
    def has_answered(self) -> bool:
        """Whether it is known which of the earlier lives' attempts it took."""
        is_unused = self.begun is None and not self.attempts and not any(self._older.values())
        return self.reached >= self.generation or self.is_over or is_unused

    @property
    def host(self) -> str:
        """Host name of its node; empty before it began."""
        return self.begun.host if self.begun else ""

    def hand(self, attempts: Iterable[AttemptId], *, tag: str, kind: int, end: int) -> None:
        """Record attempts as handed over in an order of this life that ends at byte `end`."""
        for attempt in attempts:
            assert attempt not in self.attempts, f"{attempt} is handed to a pilot that still has it"
            self._insert(attempt, HandedAttempt(tag, kind, self.generation, end))

    def extend_older(self, generation: int, handed: Iterable[OlderHandOver], *, has_end: bool = False) -> None:
        """Add what was read of the orders of an earlier life; `has_end` if they told the pilot to end."""
        self.is_ending = self.is_ending or has_end
        if generation > self.reached:
            self._older.setdefault(generation, []).extend(handed)
        elif generation == self.reached:
            self._add_older(generation, handed)

    def apply(self, record: PilotNews) -> None:
        """Apply a record of the pilot."""
        match record:
            case Beat():
                self.beat = record
            case PilotBegun():
                self.begun = record
            case GenerationTaken():
                self._switch(record)
            case PilotClosed():
                self.closed = record
                self.finish(f"the pilot ended: {record.why}" if record.why else "the pilot ended")
            case _:
                self._apply_to_attempts(record)

    def _apply_to_attempts(
        self, record: AttemptsGot | AttemptsGivenBack | StartRecord | ReapingRecord | ExitRecord
    ) -> None:
        match record:
            case AttemptsGot():
                for attempt in self._known(record.m):
                    self._set(self.attempts[attempt], HandedState.GOT)
            case AttemptsGivenBack():
                for attempt in self._known(record.m):
                    self._give_back(attempt)
            case StartRecord():
                if handed := self.attempts.get((record.j, record.a)):
                    self._set(handed, HandedState.RUNNING)
                    self.events.append((handed.tag, start_event(record, host=self.host)))
            case ReapingRecord():
                if (record.j, record.a) in self.attempts:
                    self._exited[record.j, record.a] = record
            case ExitRecord():
                self._end(record)

    def _known(self, attempts: Iterable[AttemptId]) -> Iterator[AttemptId]:
        # Others are of an earlier workflow, and over.
        return (attempt for attempt in attempts if attempt in self.attempts)

    def _end(self, record: ExitRecord) -> None:
        attempt = record.j, record.a
        self._exited.pop(attempt, None)
        if attempt not in self.attempts:
            return
        handed = self._remove(attempt)
        if record.is_temporary:
            self.failed.append((attempt, handed, record.err or "its node cannot start it"))
            return
        if record.run is not None:
            self.run_times.append((handed.kind, record.run))
        self.events.append((handed.tag, end_event(record, host=self.host)))

    def _give_back(self, attempt: AttemptId) -> None:
        handed = self.attempts[attempt]
        self._set(handed, HandedState.WAITING)
        handed.times -= 1
        if not handed.times:
            self.returned.append((attempt, self._remove(attempt)))

    def _switch(self, record: GenerationTaken) -> None:
        """Follow the pilot to the orders of a later life, without what it did not take of earlier ones."""
        self.is_superseded = self.is_superseded or record.g > self.generation
        if record.g <= self.reached:
            return
        for attempt, handed in list(self.attempts.items()):
            if handed.state is HandedState.WAITING and handed.generation >= record.was and handed.end > record.at:
                self.returned.append((attempt, self._remove(attempt)))
        for generation in range(self.reached + 1, record.g + 1):
            self._add_older(generation, self._older.pop(generation, ()))
        self.reached = record.g

    def _add_older(self, generation: int, handed: Iterable[OlderHandOver]) -> None:
        for each in handed:
            if known := self.attempts.get(each.attempt):
                known.times += 1
                known.tag, known.generation, known.end = each.tag, generation, each.end
            else:
                self._insert(each.attempt, HandedAttempt(each.tag, 0, generation, each.end))

    def _insert(self, attempt: AttemptId, handed: HandedAttempt) -> None:
        self.attempts[attempt] = handed
        self.kinds[handed.kind] += 1
        self.waiting_count += 1

    def _remove(self, attempt: AttemptId) -> HandedAttempt:
        handed = self.attempts.pop(attempt)
        self.kinds[handed.kind] -= 1
        self.waiting_count -= handed.state is HandedState.WAITING
        return handed

    def _set(self, handed: HandedAttempt, state: HandedState) -> None:
        self.waiting_count += (state is HandedState.WAITING) - (handed.state is HandedState.WAITING)
        handed.state = state

    def finish(self, why: str, *, is_damaged: bool = False) -> None:
        """Settle all attempts of a dead pilot; `is_damaged` if some of its records cannot be read."""
        self.is_over = self.is_ending = True
        for attempt, handed in self.attempts.items():
            if exited := self._exited.get(attempt):
                self.events.append((handed.tag, exit_event(exited, host=self.host)))
            elif handed.state is HandedState.WAITING and not is_damaged:
                self.returned.append((attempt, handed))
            else:
                lack = "; its records are damaged" if is_damaged else ""
                self.events.append((handed.tag, Lost(j=attempt[0], a=attempt[1], why=f"{why}{lack}")))
        self.attempts.clear()
        self._exited.clear()
        self.kinds.clear()
        self.waiting_count = 0

    def take_waiting(self) -> None:
        """Take back the waiting attempts of a silent pilot whose lease is over."""
        self.is_ending = True
        # What it did not take of older orders, it never takes: the order to end comes first.
        self.reached = self.generation
        for attempt in self.waiting():
            self.returned.append((attempt, self._remove(attempt)))

    def waiting(self) -> list[AttemptId]:
        """List the attempts that wait in the pilot."""
        return [attempt for attempt, handed in self.attempts.items() if handed.state is HandedState.WAITING]
