"""A job is checked by what its cluster has: names that are not there, and limits that are smaller."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import Association, Inventory, NodeGroup, PartitionState, Qos
from longshore.model.workflow import MIB, WHOLE_NODE_B, Allocation
from longshore.sites.requests import Unmet, expand_hosts, find_unmet_requests, unknown_name

GIB = 1024 * MIB
INVENTORY = Inventory(
    partitions=(
        PartitionState(name="main", state="UP", default=True),
        PartitionState(
            name="short", state="UP", walltime_s=600, max_nodes=1, max_cpus=2, max_memory_b=GIB, qos=frozenset({"low"})
        ),
        PartitionState(name="closed", state="DRAIN", accounts=frozenset({"test"})),
    ),
    nodes=(
        NodeGroup(
            partition="main",
            count=2,
            names=("n[1-2]",),
            cpus=4,
            memory_b=4 * GIB,
            disk_b=0,
            resources={"gpus": 2},
            features=frozenset({"gpunode"}),
        ),
        NodeGroup(partition="main", count=2, names=("n[3-4]",), cpus=8, memory_b=8 * GIB, disk_b=10 * GIB),
        NodeGroup(partition="short", names=("n4",), cpus=4, memory_b=4 * GIB),
        NodeGroup(partition="closed", names=("n4",), cpus=4, memory_b=4 * GIB),
    ),
    accounts=(
        Association(account="test", qos=frozenset({"low", "high"}), walltime_s=3600),
        Association(account="root", qos=frozenset({"normal"})),
    ),
    qos=(
        Qos(name="low"),
        Qos(name="high", walltime_s=7200, overrides=frozenset({"walltime", "nodes"})),
        Qos(name="normal"),
    ),
    licences={"lic_a": 3},
    names={"project": ("sky",)},
    knows_resources=True,
)


def unmet(inventory: Inventory = INVENTORY, /, **asked: object) -> list[Unmet]:
    return list(find_unmet_requests(msgspec.convert(asked, Allocation), inventory))


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        ({"partitions": ["mian"]}, "there is no partition 'mian'", "Did you mean 'main'?"),
        ({"qos": ["hgh"]}, "there is no QOS 'hgh'", "Did you mean 'high'?"),
        ({"account": "tst"}, "this user may not charge the account 'tst'", "Did you mean 'test'?"),
        ({"account": "root", "qos": ["high"]}, "this user may not use the QOS 'high'", "Allowed are normal."),
        ({"licences": {"lic_b": 1}}, "there is no licence 'lic_b'", "Did you mean 'lic_a'?"),
        ({"licences": {"lic_a": 4}}, "it asks for 4 licences 'lic_a', and the cluster has 3", "Ask for fewer."),
        ({"resources": {"lic_a": 4}}, "it asks for 4 licences 'lic_a', and the cluster has 3", "Ask for fewer."),
        ({"features": [["gpunod"]]}, "there is no feature 'gpunod'", "Did you mean 'gpunode'?"),
        ({"resources": {"fpga": 1}}, "there is no resource 'fpga'", "The cluster has gpus."),
        ({"hosts": ["n[4-5]"]}, "there is no node 'n5'", "The cluster has n1, n2, n3, n4."),
        ({"names": {"project": ["ski"]}}, "there is no project 'ski'", "Did you mean 'sky'?"),
        (
            {"disk_b": 11 * GIB},
            "no node of the partition 'main' holds it: disk (11264 MiB asked, 10240 MiB there) in the nearest",
            "Ask for less, or choose another partition.",
        ),
        (
            {"resources": {"gpus": 3}},
            "no node of the partition 'main' holds it: 'gpus' (3 asked, 2 there) in the nearest",
            "",
        ),
        (
            {"features": [["gpunode"]], "cpus_per_task": 5},
            "no node of the partition 'main' holds it: processors (5 asked, 4 there) in the nearest",
            "",
        ),
        (
            {"nodes": 3, "cpus_per_task": 8, "tasks": 3},
            "it asks for 3 nodes, and of the partition 'main' 2 nodes would do",
            "",
        ),
        (
            {"partitions": ["short"], "walltime_s": 3600},
            "the partition 'short' lets jobs run for 0:10:00, and it asks for 1:00:00",
            "Lower 'requestWalltime', or choose another partition.",
        ),
        (
            {"partitions": ["short"], "nodes": 2},
            "the partition 'short' gives a job at most 1 nodes, and it asks for 2",
            "",
        ),
        (
            {"partitions": ["short"], "cpus_per_task": 3},
            "the partition 'short' gives a job at most 2 processors of a node, and it asks for 3",
            "",
        ),
        (
            {"partitions": ["short"], "memory_b": 2 * GIB},
            "the partition 'short' gives a job at most 1024 MiB, and it asks for 2048 MiB",
            "",
        ),
        (
            {"partitions": ["short"], "qos": ["high"]},
            "the partition 'short' does not take the QOS 'high'",
            "It takes low.",
        ),
        (
            {"account": "test", "walltime_s": 7200},
            "the account 'test' lets jobs run for 1:00:00, and it asks for 2:00:00",
            "",
        ),
        (
            {"qos": ["high"], "walltime_s": 9000},
            "the QOS 'high' lets jobs run for 2:00:00, and it asks for 2:30:00",
            "",
        ),
    ],
)
def test_what_can_never_run_is_refused(asked: dict[str, object], message: str, hint: str) -> None:
    found = unmet(**asked)
    assert found[0].message == message
    assert hint in found[0].hint
    assert found[0].fatal


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"memory_b": WHOLE_NODE_B, "nodes": 4, "tasks": 4},
        {"account": "test", "qos": ["high"], "walltime_s": 7000},
        {"partitions": ["main", "short"], "walltime_s": 6000},
        {"resources": {"gpus": 2, "lic_a": 3}, "features": [["gpunode", "other"]]},
        {"hosts": ["n1", "n[3-4]"], "names": {"project": ["sky"], "unknown kind": ["x"]}},
    ],
)
def test_what_the_cluster_has_is_met(asked: dict[str, object]) -> None:
    assert unmet(**asked) == []


def test_a_closed_partition_is_a_note() -> None:
    (found,) = unmet(partitions=["closed"], account="test")
    assert (found.message, found.fatal) == ("the partition 'closed' is drain: jobs wait until that changes", False)
    assert unmet(partitions=["closed", "main"]) == []
    wrong = unmet(partitions=["closed"], account="root")
    assert "the partition 'closed' does not take the account 'root'" in [each.message for each in wrong]


def test_an_account_that_is_not_enforced_is_a_note() -> None:
    (found,) = unmet(msgspec.structs.replace(INVENTORY, is_enforced=False), account="other")
    assert not found.fatal


def test_all_partitions_are_tried_where_none_is_the_default() -> None:
    queues = (
        PartitionState(name="long.q", state="UP", walltime_s=900),
        PartitionState(name="short.q", state="UP", walltime_s=600),
    )
    assert unmet(Inventory(partitions=queues), walltime_s=700) == []
    (found,) = unmet(Inventory(partitions=queues), walltime_s=1000)
    assert found.message == "the partition 'long.q' lets jobs run for 0:15:00, and it asks for 0:16:40"


def test_without_partitions_the_nodes_are_those_of_the_cluster() -> None:
    nodes = (NodeGroup(cpus=4, memory_b=GIB),)
    (found,) = unmet(Inventory(nodes=nodes), cpus_per_task=5, disk_b=GIB, resources={"gpus": 1})
    assert found.message == "no node of the cluster holds it: processors (5 asked, 4 there) in the nearest"


def test_names_in_hints_are_few() -> None:
    found = unknown_name("node", "x", [f"n{number}" for number in range(20)])
    assert found.hint == "The cluster has n0, n1, n10, n11, n12, n13, n14, n15, and more."
    assert unknown_name("node", "x", []).hint == "The cluster has none at all."


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("n[1-3,07],login1", ["n1", "n2", "n3", "n07", "login1"]),
        ("r[1-2]n[08-09]x", ["r1n08x", "r1n09x", "r2n08x", "r2n09x"]),
        ("n[a-b]", ["n[a-b]"]),
        ("n[-1,2-,3]", ["n3"]),
        ("", []),
    ],
)
def test_expressions_for_hosts(text: str, hosts: list[str]) -> None:
    assert expand_hosts(text) == hosts


def test_expressions_for_hosts_are_bounded() -> None:
    assert len(expand_hosts("n[0-999999999]")) == 10_000


ALLOCATIONS = st.builds(
    Allocation,
    nodes=st.none() | st.integers(1, 9),
    tasks=st.integers(1, 9),
    cpus_per_task=st.integers(1, 9),
    memory_b=st.none() | st.integers(1, 9 * GIB),
    walltime_s=st.none() | st.floats(1, 9000),
    partitions=st.lists(st.sampled_from(["main", "short", "closed", "none"]), max_size=2).map(tuple),
    account=st.sampled_from(["", "test", "root", "none"]),
    qos=st.lists(st.sampled_from(["low", "high", "none"]), max_size=1).map(tuple),
    resources=st.dictionaries(st.sampled_from(["gpus", "lic_a", "none"]), st.integers(1, 4), max_size=2),
)


@given(ALLOCATIONS)
def test_silence_refuses_nothing_and_less_is_met_where_more_is(asked: Allocation) -> None:
    assert list(find_unmet_requests(asked, Inventory())) == []
    if not list(find_unmet_requests(asked, INVENTORY)):
        less = msgspec.structs.replace(asked, memory_b=None, walltime_s=None, account="", resources={}, cpus_per_task=1)
        assert not [each for each in find_unmet_requests(less, INVENTORY) if each.fatal]
