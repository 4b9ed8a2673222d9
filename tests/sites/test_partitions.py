"""A job gets the first row of a site's table that holds all it asks for, or an error that names the nearest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import ConfigError
from longshore.model.workflow import MIB, WHOLE_NODE_B, Allocation, Request, total_request
from longshore.sites.requests import PartitionRow, choose_partition

GIB = 1024 * MIB
TABLE: tuple[PartitionRow, ...] = (
    {"name": "single", "nodes": 1, "cpus": 64, "memory": "240 GiB", "walltime": "4:00:00"},
    {"name": "gpu", "nodes": 2, "cpus": 32, "memory": "240 GiB", "walltime": "1-00:00:00", "resources": {"gpus": 4}},
    {"name": "large", "nodes": 8, "cpus": 128, "memory": "480 GiB", "walltime": "2-00:00:00", "features": ["ssd"]},
)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (Allocation(), "single"),
        (Allocation(walltime_s=5 * 3600), "large"),
        (Allocation(memory_b=300 * GIB), "large"),
        (Allocation(memory_b=WHOLE_NODE_B), "single"),
        (Allocation(resources={"gpus": 1}), "gpu"),
        (Allocation(resources={"gpus": 1, "licence": 9}), "gpu"),
        (Allocation(nodes=2), "large"),
        (Allocation(tasks=2, cpus_per_task=40), "large"),
        (Allocation(tasks=64), "single"),
        (Allocation(tasks=65), "large"),
        (Allocation(nodes=4, tasks=256), "large"),
        (Allocation(features=(frozenset({"ssd"}),)), "single"),
        (Allocation(nodes=3, features=(frozenset({"ssd", "nvme"}),)), "large"),
        (Allocation(partitions=("large",)), "large"),
        (Allocation(partitions=("gpu", "large"), nodes=3), "large"),
        (Allocation(partitions=("elsewhere",), nodes=99), None),
        (Allocation(partitions=("single", "elsewhere"), nodes=99), None),
    ],
)
def test_the_first_partition_that_holds_a_job(asked: Allocation, name: str | None) -> None:
    row = choose_partition(TABLE, asked)
    assert (row["name"] if row else None) == name


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (Allocation(walltime_s=72 * 3600), "'large', lacks walltime (72:00:00 asked, 48:00:00 there)"),
        (Allocation(nodes=9), "'large', lacks nodes (9 asked, 8 there)"),
        (Allocation(cpus_per_task=200), "'large', lacks cpus of a node (200 asked, 128 there)"),
        (Allocation(tasks=2000), "'large', lacks nodes (16 asked, 8 there)"),
        (Allocation(memory_b=500 * GIB), "'large', lacks memory (512000 MiB asked, 491520 MiB there)"),
        (Allocation(resources={"gpus": 8}), "'gpu', lacks gpus (8 asked, 4 there)"),
        (
            Allocation(resources={"gpus": 1}, walltime_s=36 * 3600),
            "'gpu', lacks walltime (36:00:00 asked, 24:00:00 there)",
        ),
        (Allocation(nodes=3, features=(frozenset({"knl"}),)), "'gpu', lacks nodes (3 asked, 2 there)"),
        (
            Allocation(partitions=("single",), nodes=2, walltime_s=5 * 3600),
            "'single', lacks nodes (2 asked, 1 there), walltime (5:00:00 asked, 4:00:00 there)",
        ),
    ],
)
def test_what_no_partition_holds_is_refused_with_the_nearest(asked: Allocation, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        choose_partition(TABLE, asked)
    assert words in caught.value.message
    assert caught.value.hint


def test_the_longest_row_is_the_nearest_for_a_long_job() -> None:
    rows: tuple[PartitionRow, ...] = ({"name": "debug", "walltime": 600}, {"name": "main", "walltime": "2:00:00"})
    with pytest.raises(ConfigError, match=r"'main', lacks walltime \(3:00:00 asked, 2:00:00 there\)"):
        choose_partition(rows, Allocation(walltime_s=3 * 3600))


SHORT: PartitionRow = {"name": "main", "walltime": "1:00:00", "qos": "debug"}
LONG: PartitionRow = {"name": "main", "walltime": "8:00:00", "qos": "long"}


@pytest.mark.parametrize("rows", [(SHORT, LONG), (LONG, SHORT)])
def test_rows_of_one_partition_are_judged_apart(rows: tuple[PartitionRow, ...]) -> None:
    assert choose_partition(rows, Allocation(walltime_s=600)) is rows[0]
    for named in ((), ("main",)):
        assert choose_partition(rows, Allocation(walltime_s=2 * 3600, partitions=named)) is LONG
    with pytest.raises(ConfigError, match=r"'main', lacks walltime \(9:00:00 asked, 8:00:00 there\)"):
        choose_partition(rows, Allocation(walltime_s=9 * 3600))


AMOUNTS = st.none() | st.integers(1, 4)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), AMOUNTS, AMOUNTS), min_size=1, max_size=5),
    st.integers(1, 5),
    st.integers(1, 5),
)
def test_the_first_row_with_enough_is_chosen_whatever_the_names(
    limits: list[tuple[str, int | None, int | None]], cpus: int, nodes: int
) -> None:
    rows: list[PartitionRow] = []
    for name, most_cpus, most_nodes in limits:
        row: PartitionRow = {"name": name}
        if most_cpus is not None:
            row["cpus"] = most_cpus
        if most_nodes is not None:
            row["nodes"] = most_nodes
        rows.append(row)
    asked = Allocation(cpus_per_task=cpus, nodes=nodes, tasks=nodes)
    holding = [row for row in rows if row.get("cpus", cpus) >= cpus and row.get("nodes", nodes) >= nodes]
    if holding:
        assert choose_partition(rows, asked) is holding[0]
    else:
        with pytest.raises(ConfigError, match="no partition of the site holds it"):
            choose_partition(rows, asked)


def test_gpus_are_asked_of_a_row_even_where_none_has_them() -> None:
    with pytest.raises(ConfigError, match=r"'plain', lacks gpus \(1 asked, 0 there\)"):
        choose_partition(({"name": "plain"},), Allocation(resources={"gpus": 1}))
    assert choose_partition(({"name": "plain"},), Allocation(resources={"matlab": 1})) is not None


def test_no_table_chooses_no_partition() -> None:
    assert choose_partition((), Allocation(nodes=10)) is None


def test_all_of_a_job_is_counted() -> None:
    parts = (
        Allocation(nodes=2, tasks=8, cpus_per_task=4, memory_b=10 * GIB, walltime_s=60.0),
        Allocation(cpus_per_task=3, memory_b=GIB),
    )
    assert total_request(parts) == Request(cpus=35, memory_b=21 * GIB, walltime_s=60.0)
    assert total_request([Allocation(memory_b=WHOLE_NODE_B), Allocation(memory_b=1)]).memory_b == WHOLE_NODE_B
    assert Allocation.of_request(Request(cpus=2, disk_b=5)).disk_b == 5
