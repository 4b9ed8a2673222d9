"""The DAG of a BPS submit directory is read as jobs with parents."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.services.htcondor.bps.submit_directories import CALIB, COADD, DATA

from longshore.errors import RunUnreadableError
from longshore.services.htcondor.bps.mirror import find_dag
from longshore.services.htcondor.bps.read_directory import BpsDag, read_dag


def read(text: str, folder: Path, **groups: str) -> BpsDag:
    """Read a DAG of some lines, with the DAGs of its groups."""
    for name, lines in groups.items():
        (folder / "subdags" / f"wms_group_{name}").mkdir(parents=True, exist_ok=True)
        (folder / "subdags" / f"wms_group_{name}" / f"group_{name}.dag").write_text(lines, "utf-8")
    path = folder / "run.dag"
    path.write_text(text, "utf-8")
    return read_dag(path)


def test_jobs_are_in_an_order_in_which_they_may_run() -> None:
    dag = read_dag(next((DATA / "finished").glob("*.dag")))
    names = list(dag.nodes)
    assert names[0] == "pipetaskInit"
    assert names[-1] == "finalJob"
    assert all(names.index(parent) < names.index(name) for name in names for parent in dag.parents[name])
    assert dag.parents[COADD] == [CALIB]
    assert dag.attributes["bps_operator"] == "someone"
    assert dag.nodes[CALIB].description.is_file()


def test_jobs_of_groups_wait_for_what_their_group_waits_for() -> None:
    dag = read_dag(next((DATA / "groups").glob("*.dag")))
    first, second = dag.groups.values()
    assert [len(first.jobs), len(second.jobs)] == [2, 2]
    assert second.previous == [first.name]
    assert first.is_blocking
    assert dag.parents[first.jobs[0]] == ["pipetaskInit"]
    assert all(dag.nodes[job].description.is_file() for job in [*first.jobs, *second.jobs])


GROUPS = """JOB a "a.sub" DIR "jobs/a"
SUBDAG EXTERNAL wms_group_g_1 group_g_1.dag DIR subdags/wms_group_g_1
SCRIPT POST wms_group_g_1 /opt/subdag_post.sh wms_group_g_1 $RETURN
JOB wms_check_status_wms_group_g_1 "check.sub" DIR "subdags/wms_group_g_1"
JOB z "z.sub" DIR "jobs/z"
PARENT a CHILD wms_group_g_1
PARENT wms_group_g_1 CHILD wms_check_status_wms_group_g_1
PARENT wms_check_status_wms_group_g_1 CHILD z
"""
INSIDE = """JOB x "x.sub" DIR "../../jobs/x"
JOB y "y.sub" DIR "../../jobs/y"
PARENT x CHILD y
"""


def test_nodes_that_are_no_jobs_pass_on_what_they_wait_for(tmp_path: Path) -> None:
    dag = read(GROUPS, tmp_path, g_1=INSIDE)
    assert dag.parents == {"a": [], "x": ["a"], "y": ["x"], "z": ["y"]}
    assert not dag.groups["wms_group_g_1"].is_blocking
    assert dag.nodes["x"].folder == tmp_path / "jobs" / "x"


def test_empty_nodes_pass_on_what_they_wait_for(tmp_path: Path) -> None:
    dag = read(
        'JOB a "a.sub" DIR "jobs/a"\nJOB b "b.sub" DIR "jobs/b"\nJOB wms_noop_o_1 "noop.sub" NOOP\n'
        'JOB c "c.sub" DIR "jobs/c"\nPARENT a b CHILD wms_noop_o_1\nPARENT wms_noop_o_1 CHILD c\n',
        tmp_path,
    )
    assert dag.parents["c"] == ["a", "b"]
    assert list(dag.nodes) == ["a", "b", "c"]


def test_a_long_chain_of_empty_nodes_is_read(tmp_path: Path) -> None:
    names = ["a", *(f"wms_noop_{number}" for number in range(3000)), "z"]
    lines = [f"JOB {name} {name}.sub{' NOOP' if name.startswith('wms_') else ''}" for name in names]
    lines += [f"PARENT {parent} CHILD {child}" for parent, child in pairwise(names)]
    assert read("\n".join(lines), tmp_path).parents == {"a": [], "z": ["a"]}


def test_jobs_of_earlier_groups_come_first(tmp_path: Path) -> None:
    numbers = [3, 1, 2]
    inside = {f"g_{n}": f"JOB a{n} a.sub\nJOB b{n} b.sub\nPARENT b{n} CHILD a{n}\n" for n in numbers}
    groups = "".join(f"SUBDAG EXTERNAL wms_group_g_{n} group_g_{n}.dag DIR subdags/wms_group_g_{n}\n" for n in numbers)
    order = "PARENT wms_group_g_1 CHILD wms_group_g_2\nPARENT wms_group_g_2 CHILD wms_group_g_3\n"
    assert list(read(groups + order, tmp_path, **inside).nodes) == ["b1", "a1", "b2", "a2", "b3", "a3"]


def test_a_cycle_is_refused(tmp_path: Path) -> None:
    text = 'JOB a "a.sub" DIR "jobs/a"\nJOB b "b.sub" DIR "jobs/b"\nPARENT a CHILD b\nPARENT b CHILD a\n'
    with pytest.raises(RunUnreadableError, match="are a cycle"):
        read(text, tmp_path)


def test_a_missing_dag_of_a_group_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunUnreadableError, match=r"group_g_1\.dag' cannot be read: No such file"):
        read(GROUPS, tmp_path)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_any_graph_keeps_its_edges(tmp_path: Path, pairs: list[tuple[int, int]]) -> None:
    edges = {(f"j{min(pair)}", f"j{max(pair)}") for pair in pairs if pair[0] != pair[1]}
    lines = [f'JOB j{number} "j.sub" DIR "jobs/j"\n' for number in reversed(range(10))]
    lines += [f"PARENT {parent} CHILD {child}\n" for parent, child in sorted(edges)]
    dag = read("".join(lines), tmp_path)
    assert {(parent, child) for child in dag.nodes for parent in dag.parents[child]} == edges
    names = list(dag.nodes)
    assert all(names.index(parent) < names.index(child) for parent, child in edges)


def test_only_dags_of_bps_are_found(tmp_path: Path) -> None:
    assert find_dag(tmp_path) is None
    (tmp_path / "mine.dag").write_text("JOB a a.sub\n", "utf-8")
    (tmp_path / "ours.dag").write_text('SET_JOB_ATTR LongshoreRun = "x"\nSET_JOB_ATTR bps_run = "r"\n', "utf-8")
    assert find_dag(tmp_path) is None
    (tmp_path / "theirs.dag").write_text('JOB a "a.sub"\nSET_JOB_ATTR bps_run= "r"\n', "utf-8")
    assert find_dag(tmp_path) == tmp_path / "theirs.dag"
    assert find_dag(tmp_path / "nowhere") is None
