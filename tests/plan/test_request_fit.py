"""What nobody asked for is lowered to what there is; what somebody asked for is left for the service to refuse."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.model.workflow.job import JobSettings
from longshore.model.workflow.request import MIB, Request
from longshore.plan.request_fit import lower_to_capacity

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


def test_what_fits_is_left_alone() -> None:
    given_ = settings(*ALL)
    lowered, notes = lower_to_capacity(given_, {"cpus": 4, "memory": 2048 * MIB})
    assert lowered is given_
    assert notes == []


def test_defaults_are_lowered_and_told() -> None:
    lowered, notes = lower_to_capacity(settings(*ALL, disk=10), {"cpus": 2, "memory": 1024 * MIB, "disk": 5 * MIB})
    assert lowered.request == Request(
        cpus=2, memory_b=1024 * MIB, disk_b=5 * MIB, walltime_s=60.0, resources={"gpu": 3}
    )
    assert notes == [
        "'requestCpus' is 4 by default; lowered to the 2 there are",
        "'requestMemory' is 2048 MiB by default; lowered to the 1024 MiB there are",
        "'requestDisk' is 10 MiB by default; lowered to the 5 MiB there are",
    ]


def test_requests_of_users_are_never_touched() -> None:
    lowered, notes = lower_to_capacity(settings("requestMemory"), {"cpus": 1, "memory": MIB})
    assert lowered.request.cpus == 4
    assert lowered.request.memory_b == MIB
    assert len(notes) == 1


def test_what_is_not_counted_or_not_asked_for_is_not_lowered() -> None:
    given_ = settings(*ALL, "requestWalltime", memory=None)
    assert lower_to_capacity(given_, {"memory": 1, "gpu": 1}) == (given_, [])


@given(st.integers(1, 9), st.integers(1, 9), st.booleans())
def test_a_lowered_request_is_the_smaller_of_the_two(asked: int, there: int, by_default: bool) -> None:
    lowered, notes = lower_to_capacity(settings(*(ALL if by_default else ()), cpus=asked), {"cpus": there})
    assert lowered.request.cpus == (min(asked, there) if by_default else asked)
    assert bool(notes) == (by_default and asked > there)
