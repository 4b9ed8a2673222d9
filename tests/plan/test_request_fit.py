"""Default requests are lowered to the capacity; a user's requests are left for the service to refuse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.model.workflow import MIB, JobSettings, Request
from longshore.plan.jobs import lower_to_capacity

ALL = ("requestCpus", "requestMemory", "requestDisk")


def settings(*defaulted: str, cpus: int = 4, memory: int | None = 2048, disk: int | None = None) -> JobSettings:
    request = Request(
        cpus=cpus,
        memory_b=None if memory is None else memory * MIB,
        disk_b=None if disk is None else disk * MIB,
        walltime_s=60.0,
        resources={"gpu": 3},
    )
    return JobSettings(label="l", request=request, defaulted=defaulted)


def test_request_within_capacity_is_unchanged() -> None:
    given_ = settings(*ALL)
    lowered, notes = lower_to_capacity(given_, {"cpus": 4, "memory": 2048 * MIB})
    assert lowered is given_
    assert notes == []


def test_default_requests_are_lowered_with_a_note() -> None:
    lowered, notes = lower_to_capacity(settings(*ALL, disk=10), {"cpus": 2, "memory": 1024 * MIB, "disk": 5 * MIB})
    assert lowered.request == Request(
        cpus=2, memory_b=1024 * MIB, disk_b=5 * MIB, walltime_s=60.0, resources={"gpu": 3}
    )
    assert notes == [
        "'requestCpus' is 4 by default; lowered to the available 2",
        "'requestMemory' is 2048 MiB by default; lowered to the available 1024 MiB",
        "'requestDisk' is 10 MiB by default; lowered to the available 5 MiB",
    ]


def test_requests_of_users_are_never_touched() -> None:
    lowered, notes = lower_to_capacity(settings("requestMemory"), {"cpus": 1, "memory": MIB})
    assert lowered.request.cpus == 4
    assert lowered.request.memory_b == MIB
    assert len(notes) == 1


def test_uncounted_or_chosen_request_is_unchanged() -> None:
    given_ = settings(*ALL, "requestWalltime", memory=None)
    assert lower_to_capacity(given_, {"memory": 1, "gpu": 1}) == (given_, [])


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_a_lowered_request_is_the_smaller_of_the_two(asked: int, there: int, by_default: bool) -> None:
    lowered, notes = lower_to_capacity(settings(*(ALL if by_default else ()), cpus=asked), {"cpus": there})
    assert lowered.request.cpus == (min(asked, there) if by_default else asked)
    assert bool(notes) == (by_default and asked > there)
