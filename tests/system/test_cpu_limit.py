"""A computation is given up when its processor time is used up, and nothing stays behind."""

from __future__ import annotations

import re
import signal
import threading
import time

import pytest

from longshore.system.host import CpuLimitError, cpu_limit


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("regex", "text"), [("(a+)+$", "a" * 50 + "b"), ("(.*)*x", "a" * 60_000)])
def test_a_search_that_would_take_for_ever_is_given_up(regex: str, text: str) -> None:
    with pytest.raises(CpuLimitError, match=r"0\.2 s"), cpu_limit(0.2):
        re.search(regex, text)


def test_nothing_stays_behind() -> None:
    before = signal.getsignal(signal.SIGVTALRM)
    with cpu_limit(5.0):
        assert re.search("b", "ab")
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) == before


def test_time_that_is_only_waited_does_not_count() -> None:
    with cpu_limit(0.05):
        time.sleep(0.2)


def test_other_threads_run_without_a_bound() -> None:
    found = []

    def search() -> None:
        with cpu_limit(0.01):
            found.append(re.search("b", "ab"))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert found[0]
