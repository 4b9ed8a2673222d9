"""A run that is followed is looked at often at first, and seldom if each look takes long."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from longshore.runstate.events import POLL_S, pause_of

SECONDS = st.floats(min_value=0.0, max_value=1e6)


@given(SECONDS, SECONDS)
def test_the_end_is_seen_a_tenth_late_at_most(duration_s: float, waited_s: float) -> None:
    pause_s = pause_of(duration_s, waited_s)
    assert pause_s >= 4.0 * duration_s
    assert pause_s <= max(0.02, 0.1 * waited_s, 4.0 * duration_s)
    assert pause_s <= max(POLL_S, 4.0 * duration_s)


def test_a_run_followed_for_long_is_polled_at_the_shortest_pause() -> None:
    assert pause_of(0.0, math.inf) == POLL_S
    assert pause_of(0.0, 0.0) == 0.01
