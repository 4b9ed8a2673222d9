"""What a job asks of Slurm is counted from its request, its map and raw lines, whichever says it last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.services.slurm.scripts import directives, script

from longshore.contract.executor import Batch
from longshore.errors import ConfigError
from longshore.model.workflow import MIB, WHOLE_NODE_B, Allocation, Request
from longshore.services.batch.script_writer import job_spec
from longshore.services.slurm.cluster import parse_time_limit
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.options import parse_size

GIB = 1024 * MIB


def asked(own: Mapping[str, Any], request: Request | None = None, **site: Any) -> tuple[Allocation, ...]:
    batch = Batch(id="1", tag="t", request=request or Request(), members=(), attributes={}, settings=own)
    dialect = SlurmDialect({})
    return dialect.allocations(job_spec(dialect, batch, site))


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, Allocation()),
        ({"cpu": 16, "mem": "100G"}, Allocation(cpus_per_task=16, memory_b=100 * GIB)),
        ({"mem": 0}, Allocation(memory_b=WHOLE_NODE_B)),
        ({"nodeCount": "2-4", "tasksPerNode": 3}, Allocation(nodes=2, most_nodes=4, tasks=6, least_cpus=3)),
        ({"tasks": 7, "tasksPerNode": 2}, Allocation(nodes=4, tasks=7)),
        ({"nodeCount": 2}, Allocation(nodes=2, tasks=2)),
        ({"gres": "gpu:a100:2,nvme"}, Allocation(resources={"gpus": 2, "nvme": 1})),
        ({"features": "a&b|c&!d"}, Allocation(features=(frozenset({"a"}), frozenset({"b", "c"})))),
        ({"partition": "a,b", "tmp": "5G"}, Allocation(partitions=("a", "b"), disk_b=5 * GIB)),
        (
            {"sbatch": ["-c 16 --mem=100G", "-N 2", "-t 1-12"]},
            Allocation(nodes=2, tasks=2, cpus_per_task=16, memory_b=100 * GIB, walltime_s=129600.0),
        ),
        (
            {"directives": ["--mem-per-cpu 2G"], "cpu": 4, "tasks": 3},
            Allocation(tasks=3, cpus_per_task=4, memory_b=24 * GIB, memory_per_cpu_b=2 * GIB),
        ),
        ({"directives": ["-c4", "--gpus-per-node=v100:2 # two"]}, Allocation(cpus_per_task=4, resources={"gpus": 2})),
        ({"cpu": 8, "directives": ["--cpus-per-task=2"]}, Allocation(cpus_per_task=2)),
    ],
)
def test_all_ways_to_ask_are_counted(own: Mapping[str, Any], expected: Allocation) -> None:
    assert asked(own) == (expected,)


def test_a_request_is_exact_where_an_option_is_rounded() -> None:
    (found,) = asked({}, Request(cpus=2, memory_b=MIB + 1, disk_b=1, walltime_s=90.0))
    assert found == Allocation(cpus_per_task=2, memory_b=MIB + 1, disk_b=1, walltime_s=90.0)


def test_each_component_asks_for_its_own() -> None:
    first, second = asked({"cpu": 1, "cpu1": 8, "tasks1": 2, "mem1": "1G"})
    assert (first.cpus_per_task, second.cpus_per_task, second.tasks, second.memory_b) == (1, 8, 2, GIB)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 300), ("0:05", 5), ("1:02:03", 3723), ("1-2", 93600), ("1-2:30", 95400), ("1-0:0:9", 86409), ("soon", None)],
)
def test_time_limits_are_those_of_sbatch(text: str, seconds: float | None) -> None:
    assert parse_time_limit(text) == seconds


def test_sizes_are_in_mebibytes_without_a_unit() -> None:
    assert [parse_size(text) for text in ("10", "2g", "3GB", "0", "much", None)] == [
        10 * MIB, 2 * GIB, 3 * GIB, 0, None, None,
    ]  # fmt: skip


ROWS = [{"name": "debug", "nodes": 1, "walltime": 600}, {"name": "main", "nodes": 4, "walltime": "2:00:00", "qos": "q"}]


def test_a_row_is_chosen_with_all_that_the_map_asks_for() -> None:
    assert "--partition=debug" in directives(script(site={"partitions": ROWS}))
    assert "--partition=main" in directives(script({"nodeCount": 2}, site={"partitions": ROWS}))
    assert "--partition=main" in directives(script({"sbatch": "-t 60"}, site={"partitions": ROWS}))
    named = directives(script({"partition": "main"}, site={"partitions": ROWS}))
    assert "--qos=q" in named, "the row of the named partition says its QOS"


@pytest.mark.parametrize(
    "own", [{"nodeCount": 5}, {"sbatch": ["--time=3:00:00"]}, {"partition": "debug", "nodeCount": 2}]
)
def test_a_job_that_no_row_holds_gets_no_script(own: Mapping[str, Any]) -> None:
    with pytest.raises(ConfigError, match="lacks"):
        script(own, site={"partitions": ROWS})


@pytest.mark.parametrize(
    ("own", "kept", "left_out"),
    [
        ({"directives": ["--mem-per-cpu=150"]}, "--mem-per-cpu=150", "--mem="),
        ({"sbatch": ["--mem-per-gpu 150"]}, "--mem-per-gpu 150", "--mem="),
        ({"directives": ["--mem-per-c=150"]}, "--mem-per-c=150", "--mem="),
        ({"memPerCpu": "150"}, "--mem-per-cpu=150", "--mem="),
        ({"memPerGpu": "150"}, "--mem-per-gpu=150", "--mem="),
        ({"memPerCpu": "150", "directives": ["--mem=1G"]}, "--mem=1G", "--mem-per-cpu"),
        ({"directives": ["--cpus-per-gpu=2", "-G 1"]}, "--cpus-per-gpu=2", "--cpus-per-task"),
        ({"exclusive": True, "directives": ["-s"]}, "-s", "--exclusive"),
        ({"directives": ["-c 2"]}, "--mem=200M", "--mem-per"),
    ],
)
def test_a_raw_option_replaces_what_sbatch_does_not_take_beside_it(
    own: Mapping[str, Any], kept: str, left_out: str
) -> None:
    text = " ".join(directives(script(own, request=Request(cpus=3, memory_b=200 * MIB))))
    assert kept in text
    assert left_out not in text


def test_raw_gpus_replace_those_of_the_request() -> None:
    own, request = {"directives": ["--gpus-per-node=2"]}, Request(resources={"gpus": 1, "nvme": 1})
    assert "--gres=nvme:1" in directives(script(own, request=request))
    assert asked(own, request)[0].resources == {"nvme": 1, "gpus": 2}
