"""Requests of other workload managers on this machine: lowered, left out, and then one at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longshore.model.workflow import MIB, WHOLE_NODE_B, Allocation, JobSettings, Request
from longshore.sites.requests import SINGLE, convert_to_local

CAPACITY = {"cpus": 4, "memory": 16384 * MIB}


def test_what_exceeds_this_machine_is_lowered_and_runs_alone() -> None:
    asked = Allocation(
        cpus_per_task=8, memory_b=100 * 1024 * MIB, resources={"gpu": 1}, partitions=("long",), walltime_s=60
    )
    settings = JobSettings(label="a", request=Request(cpus=8, walltime_s=60.0))
    converted, alone = convert_to_local(settings, [asked], CAPACITY)
    assert converted.request == Request(cpus=4, memory_b=16384 * MIB, walltime_s=60.0)
    assert converted.concurrency == {SINGLE: 1}
    assert alone == [
        "'cpus' is 8, and this machine has 4",
        "'memory' is 102400 MiB, and this machine has 16384 MiB",
        "'gpus' is not a resource here",
        "the partition 'long' has no counterpart",
    ]


def test_what_fits_runs_beside_others() -> None:
    settings = JobSettings(label="a", attributes={"concurrencyLimit": "db"})
    asked = [Allocation(tasks=2, memory_b=MIB, nodes=2), Allocation(resources={"gpu": 1, "tape": 0})]
    converted, alone = convert_to_local(settings, asked, {**CAPACITY, "gpus": 2})
    assert converted.request == Request(cpus=3, memory_b=2 * MIB, resources={"gpus": 1})
    assert (dict(converted.concurrency), alone) == ({"db": 1}, [])


def test_other_limits_of_a_converted_job_stay() -> None:
    settings = JobSettings(label="a", attributes={"concurrencyLimit": "db", "queue": "q", "priority": 3})
    converted, alone = convert_to_local(settings, [Allocation(features=(frozenset({"ssd"}),))], CAPACITY)
    assert dict(converted.concurrency) == {"db": 1, SINGLE: 1}
    assert converted.attributes == {"concurrencyLimit": f"db,{SINGLE}", "priority": 3}
    assert alone == ["the partition 'q' has no counterpart", "features of nodes have no counterpart"]


def test_all_memory_of_a_node_is_all_of_this_machine() -> None:
    converted, alone = convert_to_local(JobSettings(label="a"), [Allocation(memory_b=WHOLE_NODE_B)], CAPACITY)
    assert converted.request.memory_b == CAPACITY["memory"]
    assert alone == ["'memory' is all, and this machine has 16384 MiB"]
    converted, alone = convert_to_local(JobSettings(label="a"), [Allocation(memory_b=WHOLE_NODE_B)], {"cpus": 1})
    assert (converted.request.memory_b, alone) == (None, [])


AMOUNTS = st.integers(0, 100)


@given(
    st.lists(
        st.builds(
            Allocation,
            nodes=st.none() | st.integers(1, 4),
            tasks=st.integers(1, 9),
            memory_b=st.none() | AMOUNTS,
            disk_b=st.none() | AMOUNTS,
            resources=st.dictionaries(st.sampled_from(["gpu", "gpus", "tape"]), AMOUNTS),
        ),
        min_size=1,
        max_size=3,
    ),
    st.dictionaries(st.sampled_from(["cpus", "memory", "disk", "gpus", "gpu"]), st.integers(1, 50)),
)
def test_a_converted_request_always_fits(asked: list[Allocation], capacity: dict[str, int]) -> None:
    converted, alone = convert_to_local(JobSettings(label="a"), asked, capacity)
    for name, amount in converted.request.amounts().items():
        assert amount <= capacity.get(name, amount)
    assert converted.request.resources.keys() <= capacity.keys()
    assert (SINGLE in converted.concurrency) is bool(alone)
