"""The barrier between two groups opens when all jobs of the first are over, and not earlier."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.services.htcondor.rendering import context, job, rendered

from longshore.model.event import Ended, Failed, Started, Submitted, Submitting
from longshore.model.states import Cause
from longshore.model.tasks import Dag
from longshore.model.workflow import JobGroup, Ordering, Workflow
from longshore.runstate.apply_events import apply_event
from longshore.runstate.run_state import JobCode, RunState
from longshore.services.htcondor.render import barrier_script as program
from longshore.services.htcondor.render.barrier_script import BarrierFollower
from longshore.services.htcondor.render.dag_edges import find_edges

DAG = """\
SUBMIT-DESCRIPTION d_none {
  executable = /bin/true
}
JOB j0 d_none
JOB j1 d_none
JOB j2 d_none
JOB g0 d_none NOOP
VARS g0 after0="j1"
VARS g0 after1="j2"
SCRIPT PRE g0 gate g0
PARENT j0 CHILD j1
INCLUDE overrides.dag
"""


class Folder:
    """A DAG, and what DAGMan writes about it.

    Parameters
    ----------
    path
        Where to put it.
    """

    def __init__(self, path: Path, dag: str = DAG, overrides: str = "") -> None:
        self.path = path
        self._clusters: dict[str, int] = {}
        self._last = 6
        (path / "run.dag").write_text(dag, "utf-8")
        (path / "overrides.dag").write_text(overrides, "utf-8")

    def log(self, kind: int, node: str, rest: str = "") -> None:
        """Write a record of a node's job."""
        if kind == 0:
            self._last += 1
            self._clusters[node] = self._last
            rest = f'host: <127.0.0.1:9618>\n    [ DAGNodeName = "{node}"; JobBatchName = "x" ]'
        text = f"{kind:03} ({self._clusters[node]:03}.000.000) 2026-11-22 10:00:00 Said {rest}\n...\n"
        self._add("run.dag.nodes.log", text)

    def ended(self, node: str, code: int | None = 0) -> None:
        """Write that a node's job ran, and with which exit code, or that it was removed."""
        self.log(0, node)
        self.log(1, node)
        if code is None:
            self.log(9, node, "\n\tvia condor_rm")
        else:
            self.log(5, node, f"\n\t(1) Normal termination (return value {code})\n\t\tUsr 0")

    def said(self, text: str) -> None:
        """Write what DAGMan says."""
        self._add("run.dag.dagman.out", text)

    def _add(self, name: str, text: str) -> None:
        with (self.path / name).open("a", encoding="utf-8") as file:
            file.write(text)


def test_barrier_opens_when_all_succeeded(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    gate = BarrierFollower("g0", tmp_path)
    assert not gate.is_open()
    for node in ("j0", "j1"):
        folder.ended(node)
        assert not gate.is_open()
    folder.log(0, "j2")
    folder.log(12, "j2")
    assert not gate.is_open()
    with (tmp_path / "run.dag.nodes.log").open("a", encoding="utf-8") as file:
        file.write("005 (009.000.000) 2026-11-22 10:00:00 Job terminated.\n\t(1) Normal termination (return value 0)\n")
    # Half a record says nothing yet.
    assert not gate.is_open()
    with (tmp_path / "run.dag.nodes.log").open("a", encoding="utf-8") as file:
        file.write("...\n")
    assert gate.is_open()


@pytest.mark.parametrize("code", [1, None])
def test_failed_jobs_and_their_descendants_are_over(tmp_path: Path, code: int | None) -> None:
    folder = Folder(tmp_path)
    gate = BarrierFollower("g0", tmp_path)
    folder.ended("j0", code)
    assert not gate.is_open()
    folder.ended("j2", code)
    assert gate.is_open()


def test_retried_jobs_are_not_over(tmp_path: Path) -> None:
    folder = Folder(tmp_path, overrides="RETRY j0 2 UNLESS-EXIT 7\nRETRY j2 1\n")
    gate = BarrierFollower("g0", tmp_path)
    for code in (1, 7):
        folder.ended("j2", 0)
        assert not gate.is_open()
        folder.ended("j0", code)
    assert gate.is_open()


@pytest.mark.parametrize(
    ("kind", "rest", "is_open"),
    [
        (9, "was aborted.\n\tvia condor_rm (by user ann)", False),
        (9, "was aborted.\n\tlongshore cancel (by user ann)", True),
        (9, "was aborted.\n\tThe job attribute PeriodicRemove expression 'x' evaluated to TRUE", True),
        (5, "terminated.\n\t(1) Normal termination (return value 1)", True),
        (5, "terminated.\n\t(0) Abnormal termination (signal 9)", True),
    ],
)
def test_where_only_removals_by_a_person_are_retried_other_ends_are_final(
    tmp_path: Path, kind: int, rest: str, *, is_open: bool
) -> None:
    folder = Folder(tmp_path, overrides="RETRY j1 1 UNLESS-EXIT 201\nRETRY j2 1 UNLESS-EXIT 201\n")
    for node in ("j1", "j2"):
        folder.log(0, node)
        folder.log(kind, node, rest)
    assert BarrierFollower("g0", tmp_path).is_open() == is_open


def test_done_jobs_are_not_waited_for(tmp_path: Path) -> None:
    Folder(tmp_path)
    for number, done in ((1, "j0"), (2, "j2")):
        (tmp_path / f"run.dag.rescue00{number}").write_text(f"# Rescue DAG file\n#\nDONE {done}\n", "utf-8")
    folder = Folder(tmp_path, DAG.replace("JOB j1 d_none\n", "JOB j1 d_none DONE\n"))
    assert folder.path == tmp_path
    assert BarrierFollower("g0", tmp_path).is_open()


def test_unsubmitted_nodes_are_over(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    given_up = "11/22/26 10:00:00 Shortcutting node j2 retries because of submit failure(s)\n"
    # Of an earlier time, before the node was submitted again.
    folder.said(f"{given_up}11/22/26 11:00:00 ** condor_scheduniv_exec.1.0 (CONDOR_DAGMAN) STARTING UP\n")
    gate = BarrierFollower("g0", tmp_path)
    assert not gate.is_open()
    # What another gate was to let pass, which could not run.
    folder.said("11/22/26 11:00:01 PRE Script of Node j0 failed with status 1\n")
    assert not gate.is_open()
    folder.said(given_up)
    assert gate.is_open()


@settings(max_examples=examples(60))
@given(data=st.data())
def test_barrier_opens_when_the_engines_would(data: st.DataObject, tmp_path: Path) -> None:
    size = data.draw(st.integers(2, 9))
    pairs = data.draw(st.sets(st.tuples(st.integers(0, size - 2), st.integers(1, size - 1)), max_size=12))
    first = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=size))
    names = [f"n{number}" for number in range(size)]
    groups = (
        JobGroup(key=(1,), jobs=tuple(names[number] for number in sorted(first))),
        JobGroup(key=(2,), jobs=("next",)),
    )
    workflow = Workflow(
        "w",
        Dag.by_name(
            [job(name, label="n") for name in (*names, "next")],
            [(names[parent], names[child]) for parent, child in pairs if parent < child],
        ),
        orderings=[Ordering(name="o", dimensions=("x",), groups=groups)],
    )
    order = find_edges(workflow)
    for path in tmp_path.iterdir():
        path.unlink()
    text = rendered(workflow, context())["wms/run.dag"]
    (node,) = [line.split()[2] for line in text.splitlines() if line.startswith("SCRIPT PRE ")]
    folder, gate = Folder(tmp_path, text), BarrierFollower(node, tmp_path)
    state = RunState(order.parents, [0] * len(order.parents), barriers=order.barriers)
    waits = [each.name for each in workflow].index("next")
    while ready := [each for each in range(len(state.code)) if state.code[each] == JobCode.READY and each != waits]:
        assert gate.is_open() == (state.code[waits] == JobCode.READY)
        chosen = data.draw(st.sampled_from(sorted(ready)))
        code = data.draw(st.sampled_from([0, 0, 1]))
        folder.ended(f"j{chosen}", code)
        _end(state, chosen, code)
    assert gate.is_open()
    assert state.code[waits] == JobCode.READY


def _end(state: RunState, number: int, code: int) -> None:
    """Tell the engine's state that a job ran."""
    batch = f"b{number}"
    events: Sequence[Any] = [
        Submitting(b=batch, tag=batch, jobs=((number, 1),), t=1.0),
        Submitted(b=batch, id=batch, t=1.0),
        Started(j=number, a=1, host="h", at=1.0, t=1.0),
        Ended(j=number, a=1, exit=code, cause=Cause.EXIT if code else None, t=2.0),
        *([Failed(j=number, why="exit code 1", t=2.0)] if code else []),
    ]
    for event in events:
        apply_event(state, event)


def test_the_program_waits(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    run = subprocess.Popen([sys.executable, "-I", program.__file__, "g0"], cwd=tmp_path)
    try:
        folder.ended("j1", 3)
        assert run.poll() is None
        folder.ended("j2")
        assert run.wait(timeout=60) == 0
    finally:
        run.kill()
        run.wait()


def test_the_program_ends_with_dagman(tmp_path: Path) -> None:
    Folder(tmp_path)
    (tmp_path / "run.dag").unlink()
    os.mkfifo(tmp_path / "run.dag")
    command = f'"{sys.executable}" -I "{program.__file__}" g0 & echo $!; wait'
    dagman = subprocess.Popen(["/bin/sh", "-c", command], cwd=tmp_path, stdout=subprocess.PIPE)
    assert dagman.stdout is not None
    number = int(dagman.stdout.readline())
    try:
        # It has begun by the time it reads.
        (tmp_path / "run.dag").write_text(DAG, "utf-8")
        dagman.kill()
        dagman.wait()
        # Its own end closes the pipe, which both of them held.
        assert dagman.stdout.read() == b""
    finally:
        dagman.stdout.close()
        if Path(f"/proc/{number}/cwd").exists() and Path(f"/proc/{number}/cwd").resolve() == tmp_path:
            os.kill(number, signal.SIGKILL)


def test_the_program_is_valid_for_old_pythons() -> None:
    text = Path(program.__file__).read_text("utf-8")
    assert text.startswith("#!/usr/bin/env python3\n")
    assert ast.parse(text, feature_version=(3, 6)).body
    assert "from __future__" not in text
