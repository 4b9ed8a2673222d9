"""Edges and barriers of a workflow in the DAG."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.htcondor.rendering import context, job, rendered

from longshore.model.tasks import Dag
from longshore.model.workflow import Implementation, JobGroup, Ordering, Workflow
from longshore.services.htcondor.render.dag_edges import find_edges
from longshore.services.htcondor.submission.validate import parse_dag


def _text(workflow: Workflow) -> str:
    return rendered(workflow, context())["wms/run.dag"]


def _ancestors(workflow: Workflow) -> dict[str, set[str]]:
    """The jobs each job comes right after, seen through nodes without jobs."""
    found = parse_dag(_text(workflow).splitlines(keepends=True))
    assert not found.faults
    names = [each.name for each in workflow]
    ancestors: dict[str, set[str]] = defaultdict(set)
    for child, parents in found.parents.items():
        if child.startswith("j"):
            through = {above for parent in parents if parent.startswith("wms_noop") for above in found.parents[parent]}
            direct = {parent for parent in parents if parent.startswith("j")}
            jobs = {parent for parent in direct | through if parent.startswith("j")}
            gates = (direct | through) - jobs
            ancestors[names[int(child[1:])]] = gates | {names[int(parent[1:])] for parent in jobs}
    return ancestors


@given(st.integers(2, 12).flatmap(lambda n: st.sets(st.tuples(st.integers(0, n - 2), st.integers(1, n - 1)))))
def test_edges_are_complete_and_exact(pairs: set[tuple[int, int]]) -> None:
    edges = [(f"n{parent}", f"n{child}") for parent, child in pairs if parent < child]
    workflow = Workflow("w", Dag.by_name([job(f"n{number}", label="n") for number in range(12)], edges))
    expected: dict[str, set[str]] = defaultdict(set)
    for parent, child in edges:
        expected[child].add(parent)
    assert _ancestors(workflow) == expected


def test_many_to_many_is_as_long_as_both_together() -> None:
    many = 400
    jobs = [job(f"{side}{number}", label=side) for side in "ab" for number in range(many)]
    edges = [(f"a{one}", f"b{other}") for one in range(many) for other in range(many)]
    text = _text(Workflow("w", Dag.by_name(jobs, edges)))
    lines = [line for line in text.splitlines() if line.startswith("PARENT")]
    assert sum(map(len, lines)) < 20 * many
    assert "JOB wms_noop_g0 d_none NOOP" in text
    few = _text(
        Workflow(
            "w", Dag.by_name(jobs[:3] + jobs[many : many + 2], [("a0", "b0"), ("a1", "b0"), ("a0", "b1"), ("a1", "b1")])
        )
    )
    assert "PARENT j0 j1 CHILD j3 j4" in few
    assert "NOOP" not in few


def test_a_job_in_front_of_thousands_is_many_short_lines() -> None:
    jobs = [job(f"n{number}", label="n") for number in range(1201)]
    lines = [
        line
        for line in _text(
            Workflow("w", Dag.by_name(jobs, [("n0", f"n{number}") for number in range(1, 1201)]))
        ).splitlines()
        if line.startswith("PARENT")
    ]
    assert len(lines) == 3
    assert all(line.startswith("PARENT j0 CHILD j") for line in lines)


def test_the_longer_chain_goes_first_and_priorities_before_that() -> None:
    jobs = [job("a"), job("b"), job("c"), job("d", attributes={"priority": 1})]
    workflow = Workflow("w", Dag.by_name(jobs, [("a", "b"), ("b", "c")]))
    order = find_edges(workflow)
    ranks = dict(zip(workflow.graph, order.ranks, strict=True))
    assert ranks == {"a": 2, "b": 1, "c": 0, "d": 0}
    names = list(workflow.graph)
    text = _text(workflow)
    assert f"PRIORITY j{names.index('a')} 2\n" in text
    assert f"PRIORITY j{names.index('d')} 3\n" in text
    assert f"PRIORITY j{names.index('c')} " not in text


@pytest.mark.parametrize(
    ("implementation", "blocking"),
    [(Implementation.NOOP, False), (Implementation.GROUP, True), (Implementation.GROUP, False)],
)
def test_groups_run_one_after_another(implementation: Implementation, blocking: bool) -> None:
    ordering = Ordering(
        name="nights",
        dimensions=("night",),
        implementation=implementation,
        blocking=blocking,
        groups=tuple(JobGroup(key=(night,), jobs=(f"a{night}", f"b{night}")) for night in (1, 2, 3)),
    )
    jobs = [job(f"{side}{night}", label=side) for side in "ab" for night in (1, 2, 3)]
    workflow = Workflow(
        "w", Dag.by_name(jobs, [(f"a{night}", f"b{night}") for night in (1, 2, 3)]), orderings=[ordering]
    )
    files = rendered(workflow, context())
    text = files["wms/run.dag"]
    assert text.count(" NOOP\n") == 2
    assert "# 'night 1' of 'nights'" in text
    has_gates = implementation is Implementation.GROUP and not blocking
    assert text.count("SCRIPT PRE ") == 2 * has_gates
    assert ("wms/gate" in files) == has_gates
    # A gate stands behind the one before it, and not behind an edge from what it waits for.
    assert ("PARENT wms_noop_g0 CHILD wms_noop_g1\n" in text) == has_gates
    found = _ancestors(workflow)
    if has_gates:
        assert found.pop("a3") == {"b2", "wms_noop_g0"}
        found["a3"] = {"b2"}
    assert found == {"b1": {"a1"}, "a2": {"b1"}, "b2": {"a2"}, "a3": {"b2"}, "b3": {"a3"}}
    ranks = dict(zip(workflow.graph, find_edges(workflow).ranks, strict=True))
    assert ranks["a1"] > ranks["b1"] > ranks["b2"] > ranks["b3"] == 0
