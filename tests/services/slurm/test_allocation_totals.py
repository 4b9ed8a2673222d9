"""What a job asks of Slurm, all options together, is what a controller gave, and no spelling of it passes a ceiling."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.config.yaml_text import parse_yaml
from longshore.contract.executor import Batch
from longshore.model.workflow import MIB, WHOLE_NODE_CPUS, Allocation, NodeSize, Request, total_request
from longshore.services.batch.script_writer import job_spec
from longshore.services.slurm.dialect import SlurmDialect
from longshore.sites.limits import exceeded_limits, read_limits

NODE: Final = NodeSize(cpus=8, memory_b=4000 * MIB, threads=2)


def asked(*lines: str, own: Mapping[str, object] | None = None) -> tuple[Allocation, ...]:
    settings = {"omit": ["mem"], "directives": list(lines), **(own or {})}
    batch = Batch(id="1", tag="t", request=Request(), members=(), attributes={}, settings=settings)
    dialect = SlurmDialect({})
    return dialect.allocations(job_spec(dialect, batch, {}))


@pytest.mark.parametrize(
    ("line", "cpus", "memory_mib"),
    [
        ("--mincpus=4", 4, None),
        ("-B 1:2:2", 4, None),
        ("-B 2:2", 4, None),
        ("-B 2", 2, None),
        ("-B *:2", 2, None),
        ("-B 1-2:1", 2, None),
        ("-N 2 -B 1:2:2", 8, None),
        ("-B 1:2:2 -c 2", 8, None),
        ("-B 2:2:1 -n 1", 2, None),
        ("-B 2:2 --ntasks-per-node=1", 2, None),
        ("--threads-per-core=1 -c 4", 8, None),
        ("--threads-per-core=1 -n 4", 8, None),
        ("--threads-per-core=2 -c 3", 4, None),
        ("--hint=nomultithread -c 4", 8, None),
        ("--hint=multithread -c 4", 4, None),
        ("--ntasks-per-core=1 -n 4", 8, None),
        ("-c 2 --ntasks-per-core=1", 2, None),
        ("-c 4", 4, None),
        ("-n 3", 4, None),
        ("-N 2 --mincpus=3", 8, None),
        ("-N 2-4 -n 2", 4, None),
        ("-N 2-4", 8, None),
        ("-N 2-4 --ntasks-per-node=2", 8, None),
        ("-n 4 --ntasks-per-node=1", 8, None),
        ("-w n[1-3]", 6, None),
        ("--exclusive --mem=100", 8, 100),
        ("--exclusive --mem-per-cpu=100", 8, 800),
        ("--exclusive --oversubscribe", 2, None),
        ("--oversubscribe --exclusive", 8, None),
        ("--exclusive=user", 2, None),
        ("--exclusive=user --exclusive", 8, None),
        ("--mem=0", 2, 4000),
        ("--threads-per-core=1 --mem-per-cpu=100 -c 2", 4, 200),
        ("-N 2 -n 4 --mem-per-cpu=100", 4, 400),
        ("--gpus=2 --mem-per-gpu=100", 2, 200),
        ("--gpus=2 --cpus-per-gpu=3", 6, None),
        ("--gpus-per-task=1 -n 2 --mem-per-gpu=100", 2, 200),
        ("--gpus-per-node=2 -N 2 --mem-per-gpu=100 --cpus-per-gpu=1", 4, 400),
        ("--gres=gpu:1 --mem-per-gpu=100", 2, 100),
        ("--mem-per-c=200", 2, None),
    ],
)
def test_a_job_asks_for_what_a_controller_gave(line: str, cpus: int, memory_mib: int | None) -> None:
    """Check the sums against jobs of Slurm 22.05 on nodes of two sockets with two cores of two threads and 4000 MB."""
    total = total_request(asked(line), NODE)
    nodes = max(each.most_nodes or each.nodes or 1 for each in asked(line))
    # Each node gives whole cores, of which nobody asked for the rest.
    given = nodes * 2 * math.ceil(total.cpus / nodes / 2)
    assert given == cpus
    if memory_mib is not None:
        assert total.memory_b == memory_mib * MIB


OPTIONS: Final = {
    "cpus-per-task": ("c", st.integers(1, 12)),
    "ntasks": ("n", st.integers(1, 12)),
    "nodes": ("N", st.integers(1, 6)),
    "mincpus": ("", st.integers(1, 12)),
    "ntasks-per-node": ("", st.integers(1, 6)),
}


@st.composite
def lines(draw: st.DrawFn) -> tuple[dict[str, int], list[str]]:
    """Values of options, and raw lines that say them last; in any order, spelled in any way that sbatch has."""
    values: dict[str, int] = {}
    found: list[str] = []
    for name in draw(st.lists(st.sampled_from(sorted(OPTIONS)), unique=True)):
        short, amounts = OPTIONS[name]
        values[name] = draw(amounts)
        begin = draw(st.integers(_least_letters(name), len(name)))
        spellings = [f"--{name[:begin]}={values[name]}", f"--{name[:begin]} {values[name]}"]
        spellings += (
            [f"-{short}{values[name]}", f"-{short} {values[name]}", f"-H{short}{values[name]}"] if short else []
        )
        earlier = [f"--{name}=1"] if draw(st.booleans()) else []
        found.append(" ".join([*earlier, draw(st.sampled_from(spellings))]))
    if draw(st.booleans()):
        values["exclusive"] = 1
        found.append(draw(st.sampled_from(["--exclusive", "--exclus", "-s --exclusive"])))
    order = draw(st.permutations(found))
    return values, list(order) if draw(st.booleans()) else [" ".join(order)]


def _least_letters(name: str) -> int:
    return {"cpus-per-task": 10, "ntasks": 6, "nodes": 5, "mincpus": 2, "ntasks-per-node": 12}[name]


def expected_cpus(values: Mapping[str, int], node: NodeSize) -> int:
    """Processors by the words of sbatch(1), independent of the code."""
    each = values.get("cpus-per-task", 1)
    per_node, tasks, nodes = values.get("ntasks-per-node"), values.get("ntasks"), values.get("nodes", 0)
    if tasks is None:
        tasks = (nodes or 1) * (per_node or 1)
        nodes = nodes or (1 if per_node else 0)
    else:
        nodes = min(nodes, tasks)
        nodes = nodes or (math.ceil(tasks / per_node) if per_node else 0)
    cpus = max(tasks * each, (nodes or 1) * max(values.get("mincpus", 0), each))
    if "exclusive" in values:
        if node.cpus is None:
            return WHOLE_NODE_CPUS
        nodes = nodes or math.ceil(tasks / max(1, node.cpus // each))
        cpus = max(cpus, nodes * node.cpus)
    return cpus


@given(said=lines(), ceiling=st.integers(1, 80), node=st.sampled_from([NODE, NodeSize()]))
def test_no_spelling_of_what_a_job_asks_for_passes_a_ceiling(
    said: tuple[dict[str, int], list[str]], ceiling: int, node: NodeSize
) -> None:
    values, raw = said
    total = total_request(asked(*raw), node)
    assert total.cpus == expected_cpus(values, node)
    limits = read_limits(parse_yaml(f"{{cpus: {ceiling}}}", "site.yaml"))
    assert bool(list(exceeded_limits(total, limits))) is (expected_cpus(values, node) > ceiling)


@given(
    memory=st.integers(1, 4000),
    cpus=st.integers(1, 8),
    nodes=st.integers(1, 4),
    way=st.sampled_from(["--mem={}", "--mem {}M", "--mem-per-cpu={}", "--mem-per-c {}", "memPerCpu", "mem"]),
)
def test_no_way_to_ask_for_memory_passes_a_ceiling(memory: int, cpus: int, nodes: int, way: str) -> None:
    is_key = way in {"mem", "memPerCpu"}
    own = {"omit": [], way: memory} if is_key else {"omit": []}
    raw = [f"-N {nodes} -c {cpus}", *([] if is_key else [way.format(memory)])]
    total = total_request(asked(*raw, own=own), NODE)
    each = cpus if "per" in way or "Per" in way else 1
    assert total.memory_b == memory * MIB * each * nodes
