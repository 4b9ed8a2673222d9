"""Link to a pilot on one node: its mailbox of checked lines, its state, and how long it has been silent.

A mailbox has files on a shared file system that only grow: one writer each, reopened at each look. A network file
system can show a part of a write, zeros before data, or nothing for a while. So a reader takes only lines that fit the
running checksum, stops at the first other one, and looks again later. A writer keeps what is not certainly on disk, and
writes it again at the same place.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.executor import AttemptId
from longshore.errors import DECODE_ERRORS
from longshore.keeper.protocol import encode_order
from longshore.model.json_lines import SEED, add_checksum, check_block
from longshore.services.batch.pilots.pilot_state import (
    GenerationTaken,
    OlderHandOver,
    PilotId,
    PilotNews,
    PilotState,
    decode_news,
)
from longshore.services.batch.pilots.work_queue import QueuedMember, WorkKind, hand_over_lines
from longshore.system.files import files
from longshore.system.folder import open_below, sync_folder
from longshore.system.reading import open_to_read

# Files of checked lines.


_BLOCK_B: Final = 1 << 22


class CheckedReader:
    """Lines of a file that grows, as far as they are intact."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        """Bytes of the lines that were read."""
        self._crc = SEED
        self._rest = b""
        """What follows them, as the latest look showed it."""

    @property
    def is_damaged(self) -> bool:
        """Whether a whole line follows that does not fit, as the latest look showed it; it may fit later."""
        return b"\n" in self._rest

    def read(self) -> bytes:
        """Look at the file, and return the intact lines that are new; raises `OSError` if there is no answer."""
        file = open_to_read(self.path)
        try:
            found = bytearray()
            while block := files.pread(file, _BLOCK_B, self.offset):
                lines = self._take(block)
                if not lines:
                    self._rest = block
                    break
                found += lines
            else:
                self._rest = b""
            return bytes(found)
        finally:
            files.close(file)

    def _take(self, block: bytes) -> bytes:
        """Take the intact lines at the begin of a block."""
        lines = block[: block.rfind(b"\n") + 1]
        crc = check_block(lines, self._crc) if lines else None
        if crc is None:
            lines, crc = self._take_one_by_one(lines)
        self._crc = crc
        self.offset += len(lines)
        return lines

    def _take_one_by_one(self, lines: bytes) -> tuple[bytes, int]:
        end, crc = 0, self._crc
        for line in lines.splitlines(keepends=True):
            after = check_block(line, crc) if line.endswith(b"\n") else None
            if after is None:
                break
            end, crc = end + len(line), after
        return lines[:end], crc


class CheckedWriter:
    """A new file that this process alone appends to. Raises `FileExistsError` if there is one.

    `below` is the folder below which no link is followed.
    """

    def __init__(self, path: Path, *, below: Path) -> None:
        self.path = path
        self._below = below
        file = open_below(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, below=below)
        files.close(file)
        sync_folder(path.parent, below=below)
        self._durable = 0
        """Bytes that are certainly on disk."""
        self._tail = b""
        """Bytes after them."""
        self._crc = SEED

    @property
    def size(self) -> int:
        """Bytes of the file once all is written."""
        return self._durable + len(self._tail)

    @property
    def is_unwritten(self) -> bool:
        """Whether lines were added that are not certainly on disk."""
        return bool(self._tail)

    def add(self, line: bytes) -> None:
        """Add an encoded JSON object without line feed; `flush` writes it."""
        checked, self._crc = add_checksum(line, self._crc)
        self._tail += checked

    def flush(self) -> None:
        """Wait until all lines are on disk. Raises `OSError` if they are not; a later call tries again."""
        if not self._tail:
            return
        file = open_below(self.path, os.O_WRONLY, below=self._below)
        try:
            unwritten, offset = memoryview(self._tail), self._durable
            while unwritten:
                written = files.pwrite(file, unwritten, offset)
                unwritten, offset = unwritten[written:], offset + written
            files.fsync(file)
        finally:
            files.close(file)
        self._durable += len(self._tail)
        self._tail = b""


# The link.


_ACKNOWLEDGE_SHARE: Final = 1 / 16
"""Share of the lease between two acknowledgements."""
_FIRST_REST_S: Final = 5.0
_LONGEST_REST_S: Final = 120.0
"""Rest of a pilot that gave attempts back unasked, or could not start them; doubled each time."""


class _OlderMember(msgspec.Struct, frozen=True, gc=False):
    j: int
    a: int


class _OlderOrder(msgspec.Struct, frozen=True, tag_field="o", tag="run"):
    b: str
    m: tuple[_OlderMember, ...]


class _OlderEnd(msgspec.Struct, frozen=True, tag_field="o", tag="end"):
    pass


_decode_older: Final = msgspec.json.Decoder(_OlderOrder | _OlderEnd).decode


class PilotLink:
    """The engine's link to one pilot.

    Parameters
    ----------
    id
        Its allocation and node.
    mailbox
        Folder of its files.
    below
        Folder below which no link is followed.
    is_gone
        Whether its allocation was gone before this life, so that it gets no orders.

    Raises
    ------
    OSError
        The mailbox cannot be used for now.
    """

    def __init__(self, id: PilotId, mailbox: Path, *, below: Path, is_gone: bool = False) -> None:  # noqa: A002
        self.id = id
        self._records = CheckedReader(mailbox / "records")
        self._orders: CheckedWriter | None = None
        generation = 1
        self._older: dict[int, CheckedReader] = {}
        while True:
            path = mailbox / f"orders.{generation}"
            try:
                if is_gone:
                    path.stat()
                else:
                    self._orders = CheckedWriter(path, below=below)
                    break
            except FileExistsError:
                pass
            except FileNotFoundError:
                break
            self._older[generation] = CheckedReader(path)
            generation += 1
        self.state = PilotState(generation)
        self._held: list[PilotNews] = []
        """Records that wait until the older orders which they are about can be read."""
        self.has_read_older = not self._older
        """Whether the orders of earlier lives could be read at all; until then, the pilot may have taken some."""
        self._environments: set[int] = set()
        """Environments that it has."""
        self._acknowledged = (-1, -math.inf)
        """Newest beat that was acknowledged, and when."""
        self._asked_back_at: int | None = None
        """Byte at which the newest request to give back ends, until it is answered."""
        self._killed: set[AttemptId] = set()
        """Attempts to which a signal was sent: those that wait are given back."""
        self._begun_at = 0.0
        self._looked_at: float | None = None
        """When the latest look was made; ``None`` if it failed."""
        self.quiet_s = 0.0
        """Seconds without news, as far as looks had answers."""
        self.gone_since: float | None = None
        """When it became known that its allocation is gone."""
        self.gone_why = ""
        self.rest_until = -math.inf
        """It gets no work before."""
        self._rest_s = _FIRST_REST_S
        self.is_moved = False
        """Whether its waiting work was moved because it is silent."""

    # -------------------------------------------------------------------------------------------------------- look

    def look(self, now: float) -> bool:
        """Read the new records; return whether there are any. Raises `OSError` if there is no answer."""
        state = self.state
        try:
            self._read_older()
            self.has_read_older = True
            try:
                text = self._records.read()
            except FileNotFoundError:
                if self._records.offset:
                    raise
                text = b""
        except OSError:
            self._looked_at = None
            raise
        if text:
            self.quiet_s = 0.0
        elif self._looked_at is not None and state.begun is not None:
            self.quiet_s += now - self._looked_at
        self._looked_at = now
        had_begun = state.begun is not None
        is_asked = self.is_asked_back
        returned = len(state.returned)
        self._held += decode_news(text)
        self._apply_held()
        if state.begun is not None and not had_begun:
            self._begun_at = now
        unasked = [attempt for attempt, _ in state.returned[returned:] if attempt not in self._killed]
        if unasked and not is_asked and not state.is_ending:
            self.rest(now)
        if state.run_times:
            self._rest_s = _FIRST_REST_S
        return bool(text)

    def _read_older(self) -> None:
        if self.state.has_answered and self.state.begun is not None:
            return
        for generation, reader in self._older.items():
            handed: list[OlderHandOver] = []
            has_end = False
            offset = reader.offset
            for line in reader.read().splitlines(keepends=True):
                offset += len(line)
                try:
                    order = _decode_older(line)
                except DECODE_ERRORS:
                    # Another kind of order.
                    continue
                if isinstance(order, _OlderEnd):
                    has_end = True
                else:
                    handed += [OlderHandOver((member.j, member.a), order.b, offset) for member in order.m]
            self.state.extend_older(generation, handed, has_end=has_end)

    def _apply_held(self) -> None:
        for position, record in enumerate(self._held):
            if isinstance(record, GenerationTaken) and record.g <= self.state.generation:
                older = self._older.get(record.was)
                if older is not None and older.offset < record.at:
                    # What it took is not visible here yet.
                    self._held = self._held[position:]
                    return
            self.state.apply(record)
        self._held = []

    @property
    def has_damage(self) -> bool:
        """Whether records or older orders cannot be read to their ends."""
        return bool(self._held) or self._records.is_damaged or any(each.is_damaged for each in self._older.values())

    def left_s(self, now: float) -> float:
        """Return the seconds that are left of its allocation."""
        begun = self.state.begun
        if begun is None or begun.until < 0.0:
            return math.inf
        return begun.until - (now - self._begun_at)

    @property
    def takes_work(self) -> bool:
        """Whether attempts can be handed to it."""
        state = self.state
        return (
            self._orders is not None
            and state.begun is not None
            and state.has_answered
            and not state.is_ending
            and self.gone_since is None
        )

    def rest(self, now: float) -> None:
        """Hand nothing to it for a while."""
        self.rest_until = now + self._rest_s
        self._rest_s = min(2 * self._rest_s, _LONGEST_REST_S)

    # ------------------------------------------------------------------------------------------------------ orders

    def hand(
        self, members: Sequence[QueuedMember], kind: WorkKind, number: int, environments: Mapping[int, bytes]
    ) -> None:
        """Order attempts of one kind, whose number is `number`; `environments` has the orders of environments."""
        assert self._orders is not None
        if kind.environment not in self._environments:
            self._orders.add(environments[kind.environment])
            self._environments.add(kind.environment)
        for tag, attempts, line in hand_over_lines(members, kind):
            self._orders.add(line)
            self.state.hand(attempts, tag=tag, kind=number, end=self._orders.size)

    def kill(self, attempts: Collection[AttemptId], number: int) -> None:
        """Order a signal to attempts; those that wait are given back."""
        self._killed.update(attempts)
        self._order({"o": "kill", "m": sorted(attempts), "sig": number})

    def ask_back(self, count: int) -> None:
        """Order the newest attempts back."""
        self._order({"o": "back", "n": count})
        assert self._orders is not None
        self._asked_back_at = self._orders.size

    @property
    def is_asked_back(self) -> bool:
        """Whether it was asked to give attempts back and has not answered."""
        beat = self.state.beat
        if self._asked_back_at is not None and beat is not None and beat.at >= self._asked_back_at:
            self._asked_back_at = None
        return self._asked_back_at is not None

    def end(self) -> None:
        """Order it to give back what waits, and to end when nothing runs."""
        if not self.state.is_ending:
            self._order({"o": "end"})
            self.state.is_ending = True

    def acknowledge(self, now: float, lease_s: float) -> None:
        """Acknowledge its newest beat, unless the latest acknowledgement is recent."""
        beat, (known, at) = self.state.beat, self._acknowledged
        if beat is not None and beat.k != known and now - at >= lease_s * _ACKNOWLEDGE_SHARE:
            self._order({"o": "ack", "k": beat.k})
            self._acknowledged = (beat.k, now)

    def flush(self) -> None:
        """Wait until all orders are on disk. Raises `OSError` if they are not; a later call tries again."""
        if self._orders is not None:
            self._orders.flush()

    def move_waiting(self) -> None:
        """Take back what waits in a pilot whose lease is over. Raises `OSError` if it cannot be told so.

        Should it live, it reads the order to end before any order with which it might start something.
        """
        if self._orders is not None and not self.is_moved:
            self._order({"o": "end"})
            self.is_moved = True
        self.flush()
        self.state.take_waiting()

    def _order(self, order: Mapping[str, object]) -> None:
        if self._orders is not None and not self.state.is_over:
            self._orders.add(encode_order(order))
