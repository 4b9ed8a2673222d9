"""Rows and limits of a profile are compared with what a cluster has; a written profile promises no more."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import Association, Inventory, NodeGroup, PartitionState, PingReport
from longshore.errors import Origin
from longshore.model.workflow import MIB
from longshore.sites.limits import SiteLimit
from longshore.sites.profile import find_limit_problems, find_row_problems, profile_text
from longshore.sites.requests import PartitionRow

GIB = 1024 * MIB
INVENTORY = Inventory(
    partitions=(
        PartitionState(name="main", state="UP", default=True, max_cpus=3, max_nodes=2, max_memory_b=GIB),
        PartitionState(name="short", state="UP", walltime_s=600),
        PartitionState(name="closed", state="DOWN"),
    ),
    nodes=(
        NodeGroup(
            partition="main", count=4, cpus=4, memory_b=2 * GIB, resources={"gpus": 2}, features=frozenset({"a"})
        ),
        NodeGroup(partition="short", cpus=8, memory_b=4 * GIB),
    ),
    accounts=(Association(account="test", qos=frozenset()),),
    knows_resources=True,
    max_array=100,
)


@pytest.mark.parametrize(
    ("row", "message", "hint"),
    [
        ({"name": "main", "cpus": 4}, "'cpus' 4, and the partition has 3", "Write cpus: 3."),
        ({"name": "main", "nodes": 3}, "'nodes' 3, and the partition has 2", "Write nodes: 2."),
        ({"name": "main", "memory": "2 GiB"}, "'memory' 2 GiB, and its nodes have 1024 MiB", "Write memory: 1024 MiB."),
        (
            {"name": "short", "walltime": "0:20:00"},
            "'walltime' 0:20:00, and the partition has 0:10:00",
            'Write walltime: "0:10:00".',
        ),
        ({"name": "main", "resources": {"gpus": 3}}, "3 of 'gpus', and its nodes have 2", "Write gpus: 2."),
        ({"name": "main", "resources": {"gpsu": 1}}, "1 of 'gpsu', and its nodes have 0", "Did you mean 'gpus'?"),
        ({"name": "short", "features": ["b"]}, "the feature 'b', which none of its nodes has", "none at all"),
    ],
)
def test_a_row_that_promises_too_much(row: PartitionRow, message: str, hint: str) -> None:
    unknown, found = find_row_problems([{"name": "nowhere"}, row], INVENTORY)
    assert (unknown.row, unknown.message, unknown.fatal) == (0, "there is no partition 'nowhere'", True)
    assert found.message == f"the row '{row['name']}' of 'partitions' has {message}"
    assert (found.row, hint in found.hint) == (1, True)


def test_a_row_of_a_closed_partition_is_noted() -> None:
    (found,) = find_row_problems([{"name": "closed"}], INVENTORY)
    assert (found.message, found.fatal) == ("the partition 'closed' is down", False)


def test_a_row_of_an_unknown_cluster_is_not_judged() -> None:
    row: PartitionRow = {"name": "main", "cpus": 999, "features": ["z"], "resources": {"z": 1}}
    assert list(find_row_problems([row], Inventory())) == []
    assert list(find_row_problems([row], Inventory(partitions=(PartitionState(name="main", state="UP"),)))) == []


def test_limits_beyond_the_cluster() -> None:
    place = Origin("x.yaml", 1, 1)
    limits = {
        "cpus": SiteLimit(amount=8, written="8", origin=place),
        "memory": SiteLimit(amount=8 * GIB, written="8 GiB", origin=place),
        "arraySize": SiteLimit(amount=1000, written="1000", origin=place),
        "queued": SiteLimit(amount=1000, written="1000", origin=place),
    }
    assert list(find_limit_problems(limits, {"cpus": 4, "memory": 4 * GIB}, 100)) == [
        ("cpus", "'limits.cpus' is 8, and the cluster has nodes with 4", "Write cpus: 4."),
        ("memory", "'limits.memory' is 8 GiB, and the cluster has nodes with 4096 MiB", "Write memory: 4096 MiB."),
        ("arraySize", "'limits.arraySize' is 1000, and the cluster accepts arrays of 100", "Write arraySize: 100."),
    ]
    assert list(find_limit_problems(limits, {}, None)) == []


def text_of(inventory: Inventory | None, **capacity: int) -> str:
    report = PingReport(service="slurm", ok=True, message="", inventory=inventory, capacity=capacity or None)
    return profile_text("new", report, own={"config": "/etc/slurm.conf"}, hosts=["login1"], date="2026-11-20")


def test_a_profile_has_the_open_partitions_and_the_only_account() -> None:
    profile = yaml.safe_load(text_of(INVENTORY, cpus=8, memory=4 * GIB))
    assert profile == {
        "title": "new, a site of slurm",
        "service": "slurm",
        "hosts": ["login1"],
        "limits": {"cpus": 8, "memory": "4096 MiB", "queued": 2000, "arraySize": 100},
        "partitions": [
            {
                "name": "main",
                "nodes": 2,
                "cpus": 3,
                "memory": "1024 MiB",
                "resources": {"gpus": 2},
                "features": ["a"],
                "default": True,
            },
            {"name": "short", "nodes": 1, "cpus": 8, "memory": "4096 MiB", "walltime": "0:10:00"},
        ],
        "account": "test",
        "slurm": {"config": "/etc/slurm.conf"},
    }


def test_a_service_that_says_little() -> None:
    assert yaml.safe_load(text_of(None))["limits"] == {"queued": 2000}
    partitions = (
        PartitionState(name="a", state="UP", walltime_s=60),
        PartitionState(name="b", state="UP", walltime_s=90),
    )
    assert yaml.safe_load(text_of(Inventory(partitions=partitions)))["limits"]["walltime"] == "0:01:30"


PARTITIONS = st.builds(
    PartitionState,
    name=st.sampled_from(["a", "b"]),
    state=st.just("UP"),
    walltime_s=st.none() | st.integers(60, 10**6).map(float),
    max_nodes=st.none() | st.integers(1, 9),
    max_cpus=st.none() | st.integers(1, 9),
    max_memory_b=st.none() | st.integers(1, 9).map(lambda number: number * GIB),
)
NODES = st.builds(
    NodeGroup,
    partition=st.sampled_from(["", "a", "b"]),
    count=st.integers(1, 9),
    cpus=st.integers(1, 9),
    memory_b=st.integers(1, 9).map(lambda number: number * GIB),
    resources=st.dictionaries(st.sampled_from(["gpus", "fpga"]), st.integers(1, 4)),
    features=st.frozensets(st.sampled_from(["x", "y"])),
)


@given(st.lists(PARTITIONS, max_size=2, unique_by=lambda each: each.name), st.lists(NODES, max_size=3))
def test_a_written_profile_promises_no_more_than_there_is(
    partitions: list[PartitionState], nodes: list[NodeGroup]
) -> None:
    inventory = Inventory(partitions=tuple(partitions), nodes=tuple(nodes), knows_resources=True)
    rows = yaml.safe_load(text_of(inventory)).get("partitions", [])
    assert [row["name"] for row in rows] == [
        each.name for each in sorted(partitions, key=lambda each: (each.walltime_s or float("inf"), each.name))
    ]
    assert list(find_row_problems(rows, inventory)) == []
