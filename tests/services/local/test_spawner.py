"""The spawner starts what it is asked for, in threads of its own, and says so in time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator

import pytest

from longshore.keeper.program.spawner import Spawner, make_words
from longshore.system.host import is_same_process


class Slow(deque[tuple[object, int, float]]):
    """Results to which threads add one at the same time, as on a busy machine."""

    def append(self, result: tuple[object, int, float]) -> None:
        super().append(result)
        time.sleep(0.05)


@pytest.fixture
def called() -> threading.Event:
    return threading.Event()


@pytest.fixture
def spawner(called: threading.Event) -> Iterator[Spawner]:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    yield Spawner(4, default_signals=(), null_file=nowhere, wake=called.set)
    os.close(nowhere)


def test_whoever_waits_is_called_although_results_come_at_the_same_time(
    spawner: Spawner, called: threading.Event
) -> None:
    spawner.results = Slow()
    for _ in range(3):
        for ticket in range(4):
            spawner.start(ticket, "/bin/true", ["true"], make_words([]), folder="/", log=os.devnull)
        found: list[object] = []
        while len(found) < 4:
            assert called.wait(60), found
            called.clear()
            for ticket, pid, _ in spawner.finished_starts():
                os.waitpid(pid, 0)
                found.append(ticket)
        assert sorted(map(str, found)) == ["0", "1", "2", "3"]


def test_a_process_is_known_again_however_long_it_waited_to_be_started(
    spawner: Spawner, called: threading.Event
) -> None:
    spawner.results = Slow()
    asked = time.clock_gettime(time.CLOCK_BOOTTIME)
    for ticket in range(100):
        spawner.start(ticket, "/bin/sleep", ["sleep", "60"], make_words([]), folder="/", log=os.devnull)
    found: list[tuple[int, float]] = []
    while len(found) < 100:
        assert called.wait(60), found
        called.clear()
        found += [(pid, up) for _, pid, up in spawner.finished_starts()]
    known = [is_same_process(pid, up) for pid, up in found]
    for pid, _ in found:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert max(up for _, up in found) > asked + 1.0
    assert all(known)
