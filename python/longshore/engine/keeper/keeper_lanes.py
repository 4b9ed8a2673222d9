"""Lanes in the keeper: attempts that were sent ahead of their slots, and wait for one.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library.
"""

from __future__ import annotations

from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "keeper_lanes":
    from longshore.engine.keeper.kernel import system
else:
    # The copy beside the keeper is not in a package.
    from kernel import system

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from longshore.engine.keeper.protocol import MemberOrder

    Unwanted: TypeAlias = Callable[[float, MemberOrder], bool]
    Chosen: TypeAlias = tuple[str, str, MemberOrder]

_PATIENCE_S = 0.25
"""Longest wait of an attempt in its lane; it was sent ahead because those before it should be short."""


class KeeperLane:
    """Attempts of one request that take each other's place as they end."""

    def __init__(self) -> None:
        self.slots = 0
        self.running = 0
        self.waiting: deque[tuple[float, str, MemberOrder]] = deque()
        """Time of arrival, tag of the batch, and attempt."""


class KeeperLanes:
    """All lanes, by name."""

    def __init__(self) -> None:
        self.lanes: dict[str, KeeperLane] = {}
        self.waiting_count = 0
        """Number of attempts that wait in all lanes."""
        self.check_at = 0.0
        """Time before which no attempt has waited too long."""

    def add(self, name: str, slots: int, tag: str, members: Sequence[MemberOrder]) -> list[Chosen]:
        """Append attempts to a lane and set its slots; return those to start at once."""
        lane = self.lanes.setdefault(name, KeeperLane())
        lane.slots = slots
        now = system.monotonic()
        if not self.waiting_count:
            self.check_at = now + _PATIENCE_S
        lane.waiting.extend((now, tag, member) for member in members)
        self.waiting_count += len(members)
        return self.fill(name, lane)

    def leave(self, name: str | None) -> tuple[list[Chosen], bool]:
        """Free a lane's slot after an end; return the attempts that take it, and whether none of the lane waits."""
        lane = self.lanes.get(name) if name is not None else None
        if lane is None or name is None:
            return [], True
        lane.running -= 1
        chosen = self.fill(name, lane)
        if not lane.waiting and not lane.running:
            del self.lanes[name]
        return chosen, not lane.waiting

    def cancel_waiting(self, unwanted: Unwanted) -> list[MemberOrder]:
        """Remove unwanted attempts from their lanes, and return them."""
        gone: list[MemberOrder] = []
        for name, lane in list(self.lanes.items()):
            found = [member for since, _, member in lane.waiting if unwanted(since, member)]
            if found:
                gone += found
                self.waiting_count -= len(found)
                lane.waiting = deque(entry for entry in lane.waiting if not unwanted(entry[0], entry[2]))
                if not lane.waiting and not lane.running:
                    del self.lanes[name]
        return gone

    def cancel_impatient(self) -> tuple[list[MemberOrder], float | None]:
        """Remove attempts that waited too long; return them, and seconds until the next check (``None``: no check)."""
        if not self.waiting_count:
            return [], None
        now = system.monotonic()
        gone: list[MemberOrder] = []
        if now >= self.check_at:
            limit = now - _PATIENCE_S
            gone = self.cancel_waiting(lambda since, _: since <= limit)
            oldest = min((lane.waiting[0][0] for lane in self.lanes.values() if lane.waiting), default=now)
            self.check_at = oldest + _PATIENCE_S
        return gone, max(self.check_at - now, 0.001)

    def fill(self, name: str, lane: KeeperLane) -> list[Chosen]:
        """Choose the next attempts of a lane while it has room."""
        chosen: list[Chosen] = []
        while lane.waiting and lane.running < lane.slots:
            lane.running += 1
            _, tag, member = lane.waiting.popleft()
            chosen.append((name, tag, member))
        self.waiting_count -= len(chosen)
        return chosen
