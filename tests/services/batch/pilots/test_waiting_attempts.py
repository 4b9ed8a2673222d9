"""What waits in a pilot starts in sequence where it fits, and never takes more than the node has."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from longshore.services.batch.pilots.program.waiting_attempts import OVERTAKING_S, WaitingAttempts
from longshore.services.batch.pilots.protocol import HandOverOrder

Step: TypeAlias = tuple[str, int, int]


def order(jobs: range, *, cpus: int = 1, memory: int = 1, need: float | None = None) -> HandOverOrder:
    """Attempts of one request."""
    return {
        "o": "run",
        "b": "tag",
        "q": {"cpus": cpus, "memory": memory},
        "need": need,
        "p": {"e": 0, "cwd": "/here", "v": {}},
        "m": [{"j": job, "a": 1, "argv": ["true"], "log": f"{job}.log"} for job in jobs],
    }


def choose(waiting: WaitingAttempts, now: float = 0.0, *, most: int = 1000, left_s: float = 1e9) -> list[int]:
    """Return the jobs that are chosen."""
    return [each.attempt[0] for each in waiting.choose(now, most=most, left_s=left_s)]


def test_a_member_has_the_common_keys_of_its_order() -> None:
    waiting = WaitingAttempts(4, 10)
    waiting.add(order(range(1)))
    (chosen,) = waiting.choose(0.0, most=9, left_s=9.0)
    assert chosen.text == b'{"j":0,"a":1,"argv":["true"],"log":"0.log","e":0,"cwd":"/here","v":{}}'


def test_smaller_ones_may_overtake_for_a_while() -> None:
    waiting = WaitingAttempts(4, 10)
    waiting.add(order(range(1), cpus=3))
    waiting.add(order(range(1, 2), cpus=4))
    waiting.add(order(range(2, 5)))
    assert choose(waiting) == [0, 2]
    waiting.release(1, 1)
    assert choose(waiting, OVERTAKING_S - 1) == [3]
    waiting.release(1, 1)
    assert choose(waiting, OVERTAKING_S + 1) == []
    waiting.release(3, 1)
    assert choose(waiting, OVERTAKING_S + 2) == [1]
    waiting.release(4, 1)
    assert choose(waiting, OVERTAKING_S + 3) == [4]
    assert waiting.count == 0


def test_what_needs_more_time_than_is_left_is_passed_over() -> None:
    waiting = WaitingAttempts(4, 10)
    waiting.add(order(range(2), need=10.0))
    waiting.add(order(range(2, 4), need=1.0))
    assert choose(waiting, left_s=5.0) == [2, 3]
    assert waiting.remove_longer(5.0) == [(0, 1), (1, 1)]
    assert list(waiting) == []


def test_a_request_beyond_the_node_is_not_taken() -> None:
    waiting = WaitingAttempts(4, 10)
    assert waiting.add(order(range(2), cpus=5)) == [(0, 1), (1, 1)]
    assert waiting.add(order(range(2), memory=11)) == [(0, 1), (1, 1)]
    assert waiting.add(order(range(0))) == []
    assert waiting.count == 0


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "choose", "release", "newest", "named"]), st.integers(1, 5), st.integers(1, 12)),
    max_size=60,
)


@given(STEPS)
def test_each_attempt_goes_one_way_and_the_node_is_never_too_full(steps: list[Step]) -> None:
    waiting = WaitingAttempts(4, 10)
    added: list[int] = []
    gone: list[int] = []
    running: list[tuple[int, int]] = []
    for now, (step, one, other) in enumerate(steps):
        if step == "add":
            jobs = range(len(added), len(added) + one)
            added += jobs
            gone += [job for job, _ in waiting.add(order(jobs, cpus=one, memory=other))]
        elif step == "choose":
            for chosen in waiting.choose(float(now), most=one, left_s=1.0):
                gone.append(chosen.attempt[0])
                running.append((chosen.cpus, chosen.memory))
        elif step == "release" and running:
            waiting.release(*running.pop(one % len(running)))
        elif step == "newest":
            gone += [job for job, _ in waiting.remove_newest(one)]
        elif step == "named":
            named = {(job, 1) for job in added if job % other == 0}
            gone += [job for job, _ in waiting.remove(named.__contains__)]
        assert sum(cpus for cpus, _ in running) == 4 - waiting.free_cpus <= 4
        assert sum(memory for _, memory in running) == 10 - waiting.free_memory <= 10
        left = [job for job, _ in waiting]
        assert len(left) == waiting.count
        assert sorted(gone + left) == added
