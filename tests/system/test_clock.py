"""The clock of this host, and moments as BPS writes them."""

from __future__ import annotations

import time

from longshore.system.host import SystemClock, timestamp


def test_a_moment_as_bps_writes_it() -> None:
    assert timestamp(0.0) == "19700101T000000Z"
    assert timestamp(1_795_166_820.9) == "20261120T092700Z"


def test_the_clock_is_that_of_the_host() -> None:
    clock = SystemClock()
    assert abs(clock.now() - time.time()) < 5
    first = clock.elapsed()
    time.sleep(0.01)
    assert 0.005 < clock.elapsed() - first < 5
