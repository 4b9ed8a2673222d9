"""Attempts wait in lanes until a slot is free, or until they have waited too long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from tests.doors import replace_calls

from longshore.keeper.program.attempts import KeeperLanes
from longshore.keeper.program.kernel import system
from longshore.keeper.protocol import MemberOrder

PATIENCE_S = 0.25
ACTIONS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from("ab"), st.integers(0, 4), st.integers(0, 3)),
    st.tuples(st.just("leave"), st.sampled_from("ab")),
    st.tuples(st.just("pass"), st.floats(0.0, 0.4)),
    st.tuples(st.just("expire")),
)


class Attempts:
    """Attempts of two lanes, and what became of them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lanes = KeeperLanes()
        self.since: dict[int, float] = {}
        """Times of arrival of the attempts that wait."""
        self.running = {"a": 0, "b": 0}
        self.ordered = 0

    def add(self, lane: str, number: int, slots: int) -> None:
        jobs = range(self.ordered, self.ordered + number)
        self.ordered += number
        members = [cast("MemberOrder", {"j": job, "a": 1}) for job in jobs]
        self.since |= dict.fromkeys(jobs, self.now)
        self.begin(self.lanes.add(lane, slots, "tag", members))

    def leave(self, lane: str) -> None:
        if self.running[lane]:
            self.running[lane] -= 1
            self.begin(self.lanes.leave(lane)[0])

    def begin(self, chosen: list[tuple[str, str, MemberOrder]]) -> None:
        for lane, _, member in chosen:
            del self.since[member["j"]]
            self.running[lane] += 1

    def expire(self) -> None:
        gone, pause_s = self.lanes.cancel_impatient()
        late = {job for job, since in self.since.items() if since <= self.now - PATIENCE_S}
        assert {member["j"] for member in gone} == late
        for job in late:
            del self.since[job]
        if self.since:
            # No attempt is forgotten: the next check is due before any has waited longer.
            assert pause_s is not None
            assert self.now + pause_s <= min(self.since.values()) + PATIENCE_S + 0.001


@given(st.lists(ACTIONS, max_size=30))
def test_attempts_start_or_are_cancelled_once_they_have_waited_too_long(actions: list[tuple[object, ...]]) -> None:
    attempts = Attempts()
    with replace_calls(system, SimpleNamespace(monotonic=lambda: attempts.now)):
        for act, *words in actions:
            if act == "pass":
                attempts.now += cast("float", words[0])
            else:
                getattr(attempts, cast("str", act))(*words)
            assert attempts.lanes.waiting_count == len(attempts.since)
