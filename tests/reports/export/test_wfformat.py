"""WfFormat: valid by its schema, whatever names jobs and files have, and read back as the same workflow."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from longshore.errors import Origin
from longshore.graphs.wfformat import read_wfformat
from longshore.model.event import Attempt, StagedFiles
from longshore.model.tasks import TaskGraph
from longshore.model.values import YamlValue
from longshore.model.workflow import Request
from longshore.reports.export.wfformat import TracedJob, TracedRun, render_wfformat, with_final_job

SCHEMA = Path(__file__).resolve().parents[2] / "data" / "wfformat" / "wfcommons-schema.json"
VALIDATOR = jsonschema.Draft7Validator(json.loads(SCHEMA.read_text("utf-8")))
NASTY = ["<b>&", "a\nb", 'a"b', "\udcff", "\0", "..", "a/../b", "/", ".", "ü", "a b", "x#1", "-"]
NAMES = st.text(st.characters(), min_size=1, max_size=8) | st.sampled_from(NASTY)


def traced(*jobs: TracedJob, name: str = "w", **sizes: int) -> TracedRun:
    return TracedRun(id="k7f3aa", name=name, version="0.1.0", created_at=1.0, jobs=jobs, sizes=sizes)


def document(run: TracedRun) -> Any:
    text = render_wfformat(run)
    assert text == render_wfformat(run)
    found = json.loads(text)
    VALIDATOR.validate(found)
    return found


def graph(run: TracedRun) -> TaskGraph:
    settings: dict[str, YamlValue] = {
        "timeScale": 1,
        "memoryScale": 0,
        "outputScale": 1,
        "python": "python3",
        "program": "/replay.py",
    }
    return read_wfformat(render_wfformat(run).encode(), settings, Origin("t.json"))


def success(**values: Any) -> Attempt:
    return Attempt(job=0, number=1, started_at=10.0, ended_at=14.0, exit_code=0, **values)


def test_specification_and_execution() -> None:
    staged = StagedFiles(bytes_in=5, bytes_out=6)
    ran = success(host="slot1@node7", run_s=2.0, cpu_s=1.0, peak_memory_b=400, staged=staged)
    first = TracedJob(name="a", label="fit", outputs=("x",), success=ran, request=Request(cpus=2))
    workflow = document(traced(first, TracedJob(name="b", label="sum", parents=(0,), inputs=("x",)), x=9))["workflow"]
    a, b = workflow["specification"]["tasks"]
    assert (a["name"], a["id"], a["parents"], a["children"], a["outputFiles"]) == (
        "fit_ID0000001",
        "a",
        [],
        ["b"],
        ["x"],
    )
    assert (b["parents"], b["children"], b["inputFiles"]) == (["a"], [], ["x"])
    assert workflow["specification"]["files"] == [{"id": "x", "sizeInBytes": 9}]
    assert workflow["execution"] == {
        "makespanInSeconds": 4.0,
        "executedAt": "1970-01-01T00:00:10.000Z",
        "machines": [{"nodeName": "node7"}],
        "tasks": [
            {
                "id": "a",
                "runtimeInSeconds": 2.0,
                "executedAt": "1970-01-01T00:00:10.000Z",
                "coreCount": 2,
                "avgCPU": 50.0,
                "readBytes": 5,
                "writtenBytes": 6,
                "memoryInBytes": 400,
                "machines": ["node7"],
            }
        ],
    }


def test_a_run_without_successes_has_no_execution() -> None:
    assert "execution" not in document(traced(TracedJob(name="a", label="fit")))["workflow"]


def test_a_run_time_that_was_not_measured_is_the_time_between_start_and_end() -> None:
    found = document(traced(TracedJob(name="a", label="fit", success=success())))
    assert found["workflow"]["execution"]["tasks"][0]["runtimeInSeconds"] == 4.0


def test_the_final_job_waits_for_all_that_no_other_job_waits_for() -> None:
    jobs = [
        TracedJob(name="a", label="A"),
        TracedJob(name="b", label="A", parents=(0,)),
        TracedJob(name="c", label="A"),
        TracedJob(name="finalJob", label="finalJob"),
    ]
    assert with_final_job(jobs)[-1].parents == (1, 2)


@given(
    st.lists(
        st.tuples(NAMES, st.lists(NAMES, max_size=3, unique=True)),
        min_size=1,
        max_size=4,
        unique_by=lambda each: each[0],
    ),
    NAMES,
)
def test_any_names_are_valid_and_stay_apart(jobs: Iterable[tuple[str, list[str]]], name: str) -> None:
    listed = [
        TracedJob(name=job, label=name, parents=tuple(range(number)), outputs=tuple(files), success=success())
        for number, (job, files) in enumerate(jobs)
    ]
    run = TracedRun(
        id="k7f3aa",
        name=name,
        version="0.1.0",
        created_at=1.0,
        jobs=listed,
        sizes={file: 1 for job in listed for file in job.outputs},
    )
    tasks = document(run)["workflow"]["specification"]["tasks"]
    assert len({task["id"] for task in tasks}) == len(listed)
    files = {file for job in listed for file in job.outputs}
    assert len({file for task in tasks for file in task["outputFiles"]}) == len(files)


@given(st.lists(NAMES, min_size=1, max_size=4, unique=True), st.sampled_from(["fit", "step-2", "a.b", "<b>"]))
def test_what_is_written_is_read_back(names: list[str], label: str) -> None:
    jobs = [
        TracedJob(
            name=name,
            label=label,
            parents=(number - 1,) if number else (),
            inputs=(f"{names[number - 1]}.out",) if number else (),
            outputs=(f"{name}.out",),
            success=success(),
        )
        for number, name in enumerate(names)
    ]
    found = graph(traced(*jobs))
    assert [len(found.dag.parents[number]) for number in range(len(names))] == [0, *([1] * (len(names) - 1))]
    assert {task.label for task in found.dag.nodes} == {label}
    assert len(found.files) == len(names)
