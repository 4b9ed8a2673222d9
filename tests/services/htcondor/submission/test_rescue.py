"""Rescue files: jobs that are done, and joins behind done jobs only."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from longshore.services.htcondor.events.dagman_end import submit_failures
from longshore.services.htcondor.render.barrier_script import dag_lines
from longshore.services.htcondor.render.dag_edges import DagEdges, edge_lines
from longshore.services.htcondor.submission.submit_dag import done_nodes, parse_retries, rescue_text

DAG = """\
SUBMIT-DESCRIPTION p { executable = /bin/true }
JOB j0 p
JOB j1 p
JOB j2 p
JOB g0 p NOOP
JOB g1 p NOOP
RETRY j1 3 UNLESS-EXIT 2
FINAL final p
RETRY final 1
PARENT j0 j1 CHILD g0
PARENT g0 CHILD g1 j2
INCLUDE overrides.dag
"""


def test_joins_are_done_when_all_before_them_is() -> None:
    lines = DAG.splitlines(keepends=True)
    assert list(done_nodes(lines, {0})) == ["j0"]
    assert list(done_nodes(lines, {0, 1})) == ["j0", "j1", "g0", "g1"]
    assert "".join(rescue_text(["j0"])).endswith("DONE j0\n")


def test_a_barrier_is_done_when_all_its_jobs_are() -> None:
    gates = 'VARS g0 after0="j0"\nVARS g0 after1="j1"\nSCRIPT PRE g0 gate g0\nVARS j2 after0="j0"\n'
    lines = DAG.replace("PARENT j0 j1 CHILD g0\n", gates).splitlines(keepends=True)
    assert list(done_nodes(lines, {0, 2})) == ["j0", "j2"]
    assert list(done_nodes(lines, {0, 1})) == ["j0", "j1", "g0", "g1"]


def test_retries_by_dagman() -> None:
    assert parse_retries(DAG.splitlines(), 4) == ({1: 3, 3: 1}, {})


def test_included_files_belong_to_it(tmp_path: Path) -> None:
    (tmp_path / "run.dag").write_text(DAG, "utf-8")
    (tmp_path / "overrides.dag").write_text("RETRY j0 7\n", "utf-8")
    assert parse_retries(["RETRY j0 1 UNLESS-EXIT 201", "RETRY j1 2 UNLESS-EXIT 2"], 4) == ({1: 2}, {0: 1})
    assert parse_retries(dag_lines(tmp_path / "run.dag"), 4) == ({0: 7, 1: 3, 3: 1}, {})


@given(st.data())
def test_what_is_done_is_closed_under_its_parents(data: st.DataObject) -> None:
    wide = data.draw(st.integers(2, 600))
    parents: list[tuple[int, ...]] = [() for _ in range(wide)] + [tuple(range(wide)) for _ in range(wide)]
    done = data.draw(st.sets(st.integers(0, wide - 1), min_size=max(0, wide - 2)))
    lines = "".join(edge_lines(DagEdges(parents, (), (), ()))).splitlines()
    joins = [name for name in done_nodes(lines, done) if name.startswith("g")]
    there = {line.split()[1] for line in lines if line.startswith("JOB g")}
    assert set(joins) == (there if len(done) == wide else set())


def test_reasons_of_failed_submits(tmp_path: Path) -> None:
    path = tmp_path / "run.dag.dagman.out"
    path.write_text(
        "11/22/26 07:00:01 Submitting node j2 from inline description\n"
        "11/22/26 07:00:01 ERROR: No 'executable' parameter was provided\n"
        "11/22/26 07:00:01 Node submit failed after 1 try.\n"
        "11/22/26 07:00:01 Shortcutting node j2 retries because of submit failure(s)\n"
        "11/22/26 07:00:09 Shortcutting node final retries because of submit failure(s)\n"
        "11/22/26 07:00:09 Shortcutting node g7 retries because of submit failure(s)\n",
        "utf-8",
    )
    found = submit_failures(path, 4)
    assert found[2] == "DAGMan could not submit it: ERROR: No 'executable' parameter was provided"
    assert sorted(found) == [2, 3]
    assert submit_failures(tmp_path / "none", 4) == {}
    path.write_text("", "utf-8")
    assert submit_failures(path, 4) == {}
