"""Attempts that wait in a pilot until their request fits beside what runs.

Part of the pilot program, beside which it is copied, so that it needs nothing but the standard library.
"""

from __future__ import annotations

import json
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from longshore.services.batch.pilots.protocol import AttemptId, HandOverOrder

OVERTAKING_S = 30.0
"""How long others may start before an attempt that waits for room, in seconds."""
_LOOKED_AT = 64
"""Groups that are looked through for a smaller request."""


class Group:
    """Attempts of one order, kept as the text of their members: a hundred thousand of them take little memory."""

    def __init__(self, order: HandOverOrder) -> None:
        self.tag = order["b"]
        self.cpus = order["q"]["cpus"]
        self.memory = order["q"]["memory"]
        self.need_s = order["need"]
        self.common = json.dumps(order["p"], separators=(",", ":"))[1:-1]
        self.members: deque[bytes] = deque(json.dumps(member, separators=(",", ":")).encode() for member in order["m"])

    def text(self, member: bytes) -> bytes:
        """Return the text of a member with the common keys."""
        return member[:-1] + b"," + self.common.encode() + b"}" if self.common else member


def attempt_of(member: bytes) -> AttemptId:
    """Return the number of a member's job, and of its attempt."""
    found = json.loads(member)
    return found["j"], found["a"]


class Chosen:
    """An attempt that may begin: its number, its request, and the order for the keeper."""

    __slots__ = ("attempt", "cpus", "has_room", "memory", "tag", "text")

    def __init__(self, group: Group, member: bytes, *, has_room: bool) -> None:
        self.has_room = has_room
        self.attempt = attempt_of(member)
        self.cpus = group.cpus
        self.memory = group.memory
        self.tag = group.tag
        self.text = group.text(member)


class WaitingAttempts:
    """The attempts that wait, in the sequence of their orders; `cpus` and `memory` are the node's."""

    def __init__(self, cpus: int, memory: int) -> None:
        self.cpus = cpus
        self.memory = memory
        self.free_cpus = cpus
        self.free_memory = memory
        self.groups: deque[Group] = deque()
        self.count = 0
        self._blocked_since: float | None = None
        """Since when others start before the first one."""

    def add(self, order: HandOverOrder) -> list[AttemptId]:
        """Append the attempts of an order; return those that can never start here."""
        group = Group(order)
        if group.cpus > self.cpus or group.memory > self.memory:
            return [attempt_of(member) for member in group.members]
        if group.members:
            self.groups.append(group)
            self.count += len(group.members)
        return []

    def choose(self, now: float, *, most: int, left_s: float) -> list[Chosen]:
        """Take up to so many attempts for which there are room and seconds left, and reserve the room."""
        chosen: list[Chosen] = []
        blocked: list[tuple[int, int]] = []
        for position, group in enumerate(self.groups):
            if len(chosen) >= most or position >= _LOOKED_AT or not self.free_cpus:
                break
            if any(group.cpus >= cpus and group.memory >= memory for cpus, memory in blocked):
                continue
            if group.need_s is not None and group.need_s > left_s:
                continue
            before = len(chosen)
            while group.members and len(chosen) < most and self._fits(group):
                self.free_cpus -= group.cpus
                self.free_memory -= group.memory
                chosen.append(Chosen(group, group.members.popleft(), has_room=True))
            if not position and len(chosen) > before:
                self._blocked_since = None
            if group.members and len(chosen) < most:
                if not blocked and not self._may_overtake(now):
                    break
                blocked.append((group.cpus, group.memory))
        if chosen:
            self._take_off(len(chosen))
        return chosen

    def choose_ahead(self, *, most: int, left_s: float) -> list[Chosen]:
        """Take up to so many of the first attempts, for which room is reserved later."""
        chosen: list[Chosen] = []
        for group in self.groups:
            if group.need_s is not None and group.need_s > left_s:
                break
            while group.members and len(chosen) < most:
                chosen.append(Chosen(group, group.members.popleft(), has_room=False))
            if len(chosen) >= most:
                break
        if chosen:
            self._take_off(len(chosen))
        return chosen

    def reserve(self, chosen: Chosen) -> bool:
        """Reserve the room of an attempt that was chosen without; return false if there is not enough."""
        if chosen.cpus > self.free_cpus or chosen.memory > self.free_memory:
            return False
        self.free_cpus -= chosen.cpus
        self.free_memory -= chosen.memory
        chosen.has_room = True
        return True

    def release(self, cpus: int, memory: int) -> None:
        """Give the room of an attempt back."""
        self.free_cpus += cpus
        self.free_memory += memory

    def remove(self, unwanted: Callable[[AttemptId], bool]) -> list[AttemptId]:
        """Remove unwanted attempts, and return them."""
        gone: list[AttemptId] = []
        for group in self.groups:
            found = [(attempt_of(member), member) for member in group.members]
            removed = [attempt for attempt, _ in found if unwanted(attempt)]
            if removed:
                gone += removed
                group.members = deque(member for attempt, member in found if not unwanted(attempt))
        self._take_off(len(gone))
        return gone

    def remove_newest(self, count: int) -> list[AttemptId]:
        """Remove the attempts that came last, and return them."""
        gone: list[AttemptId] = []
        for group in reversed(self.groups):
            while group.members and len(gone) < count:
                gone.append(attempt_of(group.members.pop()))
        self._take_off(len(gone))
        return gone

    def remove_longer(self, left_s: float) -> list[AttemptId]:
        """Remove the attempts that need more time than is left, and return them."""
        gone: list[AttemptId] = []
        for group in self.groups:
            if left_s <= 0 or (group.need_s is not None and group.need_s > left_s):
                gone += map(attempt_of, group.members)
                group.members.clear()
        self._take_off(len(gone))
        return gone

    def __iter__(self) -> Iterator[AttemptId]:
        """Iterate over the attempts that wait."""
        return (attempt_of(member) for group in self.groups for member in group.members)

    def _fits(self, group: Group) -> bool:
        return group.cpus <= self.free_cpus and group.memory <= self.free_memory

    def _may_overtake(self, now: float) -> bool:
        """Return whether others may start before the first one, which waits for room."""
        if self._blocked_since is None:
            self._blocked_since = now
        return now - self._blocked_since < OVERTAKING_S

    def _take_off(self, count: int) -> None:
        self.count -= count
        if not all(group.members for group in self.groups):
            self.groups = deque(group for group in self.groups if group.members)
