"""How memory and time grow: never less than before, never beyond the cap, whatever the numbers."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from longshore.engine.policy.retry import compute_memory_b, compute_walltime_s, grow_memory, grow_walltime
from longshore.model.workflow import MIB, Request

FACTORS = st.floats(1.01, 100.0, allow_nan=False)
AMOUNTS = st.integers(1, 2**50)


def test_usage_is_the_floor_and_the_cap_is_the_ceiling() -> None:
    assert compute_memory_b(3072 * MIB, 2.0, 0, peak_b=5000 * MIB) == 5000 * MIB
    assert compute_memory_b(30000 * MIB, 2.0, 0, most_b=20480 * MIB) == 20480 * MIB


def test_amounts_are_whole_mebibytes() -> None:
    assert compute_memory_b(1000 * MIB, 1.0005, 1) == 1001 * MIB
    assert compute_memory_b(MIB, 2.0, 1, peak_b=5 * MIB + 1) == 6 * MIB


def test_a_factor_to_a_high_power_is_still_a_number() -> None:
    assert compute_memory_b(2**40, 1e9, 10**6, most_b=2**45) == 2**45
    assert compute_walltime_s(1e9, 1e9, 10**6) == 2**62


@given(AMOUNTS, FACTORS, st.integers(1, 400), st.none() | AMOUNTS, st.none() | AMOUNTS, AMOUNTS, st.booleans())
def test_the_next_request_is_more_and_within_the_cap(
    first: int, factor: float, ends: int, peak: int | None, most: int | None, asked: int, of_usage: bool
) -> None:
    request = Request(memory_b=asked, cpus=3, walltime_s=5.0)
    more = grow_memory(
        request, Request(memory_b=first), factor=factor, ends=ends, peak_b=peak, most_b=most, of_usage=of_usage
    )
    if more is None:
        assert most is not None
        assert asked >= most
        return
    assert more.memory_b is not None
    assert more.memory_b > asked
    assert most is None or more.memory_b <= most
    assert msgspec.structs.replace(more, memory_b=asked) == request, "nothing else changes"


@given(st.floats(1.0, 1e9), FACTORS, st.integers(1, 400), st.none() | st.floats(1.0, 1e9), st.floats(1.0, 1e9))
def test_the_next_walltime_is_more_and_within_the_cap(
    first: float, factor: float, ends: int, most: float | None, asked: float
) -> None:
    more = grow_walltime(Request(walltime_s=asked), Request(walltime_s=first), factor=factor, ends=ends, most_s=most)
    if more is None:
        assert most is not None
        assert asked >= most
        return
    assert more.walltime_s is not None
    assert more.walltime_s > asked
    assert most is None or more.walltime_s <= most


def test_what_was_never_asked_for_is_not_multiplied() -> None:
    nothing = Request()
    assert grow_walltime(nothing, nothing, factor=2.0, ends=1, most_s=None) == nothing
    assert grow_memory(nothing, nothing, factor=2.0, ends=1, peak_b=None, most_b=None, of_usage=False) == nothing
    seen = grow_memory(nothing, nothing, factor=2.0, ends=1, peak_b=8 * MIB, most_b=None, of_usage=False)
    assert seen == Request(memory_b=16 * MIB)
