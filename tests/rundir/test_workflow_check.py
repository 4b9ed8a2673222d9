"""Nobody reads a job from a workflow that is not the one of its manifest, whenever it changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longshore.contract.service import RunPaths
from longshore.errors import RunUnreadableError
from longshore.model.submission import RunIdentity
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import RUN_FORMAT, write_card
from longshore.rundir.submissions import create_manifest, take_manifest

SETTINGS = JobSettings(label="A")
JOBS = [Job(name=f"a{number}", label="A", command=(f"program {number}",), settings=SETTINGS) for number in range(4)]
FILES = {name: File(name=name, path=f"data/{name}") for name in ("x", "y")}
TEXT = b"".join(workflow_lines(Workflow("w", Dag.by_name(JOBS), files=FILES)))


CARD = RunIdentity(
    format=RUN_FORMAT, id="k7f3aa", name="w", service="local", longshore="0", created_at=1.0, expected=4, labels={}
)


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    found = RunPaths(tmp_path)
    found.workflow.write_bytes(TEXT)
    write_card(found, CARD)
    create_manifest(found, take_manifest(found, CARD))
    return found


def flipped(text: bytes, place: int, bit: int) -> bytes:
    return text[:place] + bytes([text[place] ^ 1 << bit]) + text[place + 1 :]


def test_an_unchanged_workflow_is_read(run: RunPaths) -> None:
    jobs = JobTable(run, "names")
    assert jobs.names == ["a0", "a1", "a2", "a3"]
    assert [jobs[job].name for job in range(4)] == jobs.names
    assert [file.path for file in jobs.files()] == ["data/x", "data/y"]


@given(place=st.integers(0, len(TEXT) - 1), bit=st.integers(0, 7))
def test_any_flipped_bit_is_found_when_the_workflow_is_read(run: RunPaths, place: int, bit: int) -> None:
    run.workflow.write_bytes(flipped(TEXT, place, bit))
    with pytest.raises(RunUnreadableError):
        JobTable(run)


@given(cut=st.integers(0, len(TEXT) - 1))
def test_any_cut_is_found(run: RunPaths, cut: int) -> None:
    run.workflow.write_bytes(TEXT[:cut])
    with pytest.raises(RunUnreadableError):
        JobTable(run)


@given(place=st.integers(0, len(TEXT) - 1), bit=st.integers(0, 7))
def test_a_bit_that_flips_later_is_found_before_its_job_is_started(run: RunPaths, place: int, bit: int) -> None:
    run.workflow.write_bytes(TEXT)
    jobs = JobTable(run)
    run.workflow.write_bytes(flipped(TEXT, place, bit))
    found = []
    for job in range(4):
        try:
            assert jobs[job].name == f"a{job}"
        except RunUnreadableError:
            found.append(job)
    header = TEXT.index(b"\n")
    line = TEXT[:place].count(b"\n") - 1
    assert found == ([line] if 0 <= line < 4 else [])
    if line < 4:
        assert [file.name for file in jobs.files()] == ["x", "y"]
        assert place > header or line < 0
    else:
        with pytest.raises(RunUnreadableError, match="changed after it was checked"):
            list(jobs.files())


def test_the_message_names_file_difference_and_way_out(run: RunPaths) -> None:
    run.workflow.write_bytes(TEXT + b"\n")
    with pytest.raises(RunUnreadableError, match=r"another content now: .*not as it was") as caught:
        JobTable(run)
    assert f"'longshore verify {run.root}'" in caught.value.hint
