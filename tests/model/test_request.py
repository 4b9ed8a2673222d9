"""What a job asks of a machine, as amounts and as a key."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.model.workflow import MIB, Request, largest_memory

amounts = st.integers(0, 3)
requests = st.builds(
    Request,
    cpus=st.integers(1, 3),
    memory_b=st.none() | amounts,
    disk_b=st.none() | amounts,
    walltime_s=st.none() | st.sampled_from([1.0, 2.5]),
    resources=st.dictionaries(st.sampled_from(["gpu", "tape", "licence"]), amounts),
)


def test_what_is_not_asked_for_is_not_counted() -> None:
    assert Request().amounts() == {"cpus": 1}
    assert Request(walltime_s=60).amounts() == {"cpus": 1}


def test_amounts_come_in_a_stable_order() -> None:
    request = Request(cpus=2, memory_b=3 * MIB, disk_b=0, resources={"tape": 1, "gpu": 2})
    assert list(request.amounts().items()) == [
        ("cpus", 2),
        ("memory", 3 * 1024 * 1024),
        ("disk", 0),
        ("gpu", 2),
        ("tape", 1),
    ]


@given(requests, requests)
def test_keys_are_equal_exactly_when_requests_are(one: Request, other: Request) -> None:
    assert (one.key() == other.key()) == (one == other)
    assert len({one.key(), other.key()}) == (1 if one == other else 2)


def test_the_order_of_resources_is_no_matter() -> None:
    one, other = Request(resources={"gpu": 1, "tape": 2}), Request(resources={"tape": 2, "gpu": 1})
    assert one.key() == other.key()
    assert list(one.amounts()) == list(other.amounts())


@given(requests)
def test_a_request_survives_json(request: Request) -> None:
    assert msgspec.json.decode(msgspec.json.encode(request), type=Request) == request


def test_what_is_not_asked_for_is_not_written() -> None:
    assert msgspec.json.encode(Request()) == b"{}"
    assert msgspec.json.encode(Request(memory_b=MIB)) == b'{"memory_b":1048576}'


def test_a_request_does_not_change() -> None:
    request = Request()
    with pytest.raises(AttributeError, match="immutable"):
        request.cpus = 2  # type: ignore[misc]


@given(st.lists(requests))
def test_the_largest_memory_is_unknown_of_requests_without_any(listed: list[Request]) -> None:
    amounts = [each.memory_b for each in listed if each.memory_b is not None]
    assert largest_memory(listed) == (max(amounts) if amounts else None)
