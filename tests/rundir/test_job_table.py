"""The table of jobs says what stands in the lines of the workflow, whichever columns it was asked for."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Final

import pytest

from longshore.contract.service import RunPaths
from longshore.errors import RunUnreadableError
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Implementation, Job, JobGroup, JobSettings, Ordering, Request, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir import job_table
from longshore.rundir.job_table import Column, JobTable, job_names, read_header
from longshore.rundir.submissions import accept_changes, read_manifest
from longshore.system.atomic import create_file
from longshore.testing.runs import write_run

COLUMNS: Final[tuple[Column, ...]] = ("names", "outputs", "parents", "tags")


def restate(run: RunPaths) -> None:
    """Write the manifest of a run anew, so that its changed workflow is the one of the submission."""
    manifest = read_manifest(run)
    assert manifest is not None
    accept_changes(run, manifest)


def test_order_labels_and_parents_are_those_of_the_lines(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "b_1": ("a_1",), "a_2": (), "b_2": ("a_1", "a_2")}, final="last")
    table = JobTable(run)
    names = [table[job].name for job in range(len(table))]
    assert sorted(names[:4]) == ["a_1", "a_2", "b_1", "b_2"]
    assert names[4] == "last"
    assert table.header.final
    assert {names[job]: {names[parent] for parent in table.parents[job]} for job in range(5)} == {
        "a_1": set(),
        "a_2": set(),
        "b_1": {"a_1"},
        "b_2": {"a_1", "a_2"},
        "last": set(),
    }
    assert [table.labels[label] for label in table.label_of] == [name[:1] if name[1] == "_" else name for name in names]
    assert [table.settings(job).label for job in range(5)] == [table.labels[label] for label in table.label_of]


def write_grid(root: Path, visits: int, *, ordering: bool = False) -> RunPaths:
    """A run of two jobs a visit, the second after the first, each with a data ID and an output."""
    profiles = {label: JobSettings(label=label) for label in ("isr", "calibrate")}
    jobs = [
        Job(
            name=f"{label}_{visit}",
            label=label,
            command=("true",),
            settings=profiles[label],
            tags={"visit": visit},
            outputs=(f"{label}_{visit}.fits",),
        )
        for label in profiles
        for visit in range(visits)
    ]
    groups = tuple(
        JobGroup(key=(visit,), jobs=(f"isr_{visit}", f"calibrate_{visit}"))
        for visit in range(visits if ordering else 0)
    )
    by_visit = Ordering(
        name="by_visit", dimensions=("visit",), implementation=Implementation.GROUP, blocking=True, groups=groups
    )
    workflow = Workflow(
        "grid",
        Dag.by_name(jobs, [(f"isr_{visit}", f"calibrate_{visit}") for visit in range(visits)]),
        files={name: File(name=name, path=f"/data/{name}") for job in jobs for name in job.outputs},
        orderings=[by_visit] if ordering else [],
    )
    run = RunPaths(root)
    root.mkdir()
    create_file(run.workflow, workflow_lines(workflow))
    return run


@pytest.mark.parametrize("columns", [each for size in range(5) for each in combinations(COLUMNS, size)])
def test_columns_say_what_the_records_say(
    tmp_path: Path, columns: tuple[Column, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_table, "_BLOCK_B", 150)
    jobs = JobTable(write_grid(tmp_path / "run", 9), *columns)
    records = [jobs[job] for job in range(len(jobs))]
    assert len(records) == len(jobs) == 18
    assert jobs.names == [stored.name for stored in records]
    assert jobs.outputs == [stored.outputs for stored in records]
    assert jobs.parents == [stored.p for stored in records]
    assert jobs.tags == [stored.tags for stored in records]
    assert list(job_names(jobs.run)) == [(stored.name, jobs.label(job)) for job, stored in enumerate(records)]
    assert list(jobs.profile_of) == [stored.s for stored in records]
    assert jobs.names_of([3, 17]) == {3: records[3].name, 17: records[17].name}
    assert [file.name for file in jobs.files()] == [f"{name}.fits" for name in jobs.names]


def test_a_label_has_the_requests_of_its_profiles(tmp_path: Path) -> None:
    requests = {"b": [Request(memory_b=3), Request()], "a": [Request(memory_b=5)]}
    profiles = [JobSettings(label=label, request=each) for label, listed in requests.items() for each in listed]
    jobs = [Job(name=f"j{n}", label=each.label, command=("true",), settings=each) for n, each in enumerate(profiles)]
    run = RunPaths(tmp_path)
    create_file(run.workflow, workflow_lines(Workflow("w", Dag.by_name(jobs, []))))
    table = JobTable(run)
    assert table.labels == ["b", "a"]
    assert table.requests_of_labels == requests


def test_jobs_are_selected_by_name_or_label(tmp_path: Path) -> None:
    jobs = JobTable(write_grid(tmp_path / "run", 3))
    names = jobs.names
    assert jobs.select() == []
    assert {names[job] for job in jobs.select(labels=["isr", "other"])} == {"isr_0", "isr_1", "isr_2"}
    assert {names[job] for job in jobs.select(names=["isr_1", "calibrate_2"])} == {"isr_1", "calibrate_2"}
    both = jobs.select(names=["calibrate_0"], labels=["isr"])
    assert both == sorted(both)
    assert {names[job] for job in both} == {"isr_0", "isr_1", "isr_2", "calibrate_0"}


def test_ancestors_are_parents_and_the_groups_before(tmp_path: Path) -> None:
    jobs = JobTable(write_grid(tmp_path / "run", 3, ordering=True))
    number = {name: job for job, name in enumerate(jobs.names)}
    assert jobs.ancestors(number["isr_0"]) == [number["isr_0"]]
    assert jobs.ancestors(number["calibrate_1"]) == sorted(
        number[name] for name in ("isr_0", "calibrate_0", "isr_1", "calibrate_1")
    )
    assert [barrier.title for barrier in jobs.barriers_before(number["isr_2"])] == ["'visit 1' of 'by_visit'"]
    assert jobs.children(number["isr_0"]) == [number["calibrate_0"]]


def test_the_final_job_descends_from_all(tmp_path: Path) -> None:
    jobs = JobTable(write_run(tmp_path / "run", {"a_1": (), "a_2": ()}, final="last"))
    assert jobs.final == 2
    assert jobs.ancestors(2) == [0, 1, 2]
    assert jobs.children(0) == []
    assert JobTable(write_run(tmp_path / "other", {"a_1": ()})).final is None


def test_the_header_is_read_without_the_jobs(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",)})
    assert read_header(run).jobs == 2
    run.workflow.unlink()
    with pytest.raises(RunUnreadableError, match="No such file"):
        read_header(run)


def test_a_profile_that_the_header_lacks_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",)})
    run.workflow.write_bytes(run.workflow.read_bytes().replace(b'"s":0', b'"s":1', 1))
    restate(run)
    with pytest.raises(RunUnreadableError, match="has a job whose profile is not in its header"):
        JobTable(run)


@pytest.mark.parametrize(
    ("parent", "which"), [(1, "job 1"), (7, "job 1"), (-1, "job 1"), (10**20, "its number has more than 31 bits")]
)
def test_a_parent_that_is_not_before_its_child_is_refused(tmp_path: Path, parent: int, which: str) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",)})
    run.workflow.write_bytes(run.workflow.read_bytes().replace(b'"p":[0]', b'"p":[%d]' % parent, 1))
    restate(run)
    with pytest.raises(RunUnreadableError, match=f"has a job whose parent is not before it: {which}"):
        _ = JobTable(run).parents


def test_a_record_that_went_away_is_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",)})
    jobs = JobTable(run)
    run.workflow.write_bytes(b"x" * 1000)
    with pytest.raises(RunUnreadableError, match="changed after it was checked, in line 3"):
        jobs.names_of([1])
    gone = JobTable(write_run(tmp_path / "other", {"a_1": ()}))
    gone.run.workflow.unlink()
    with pytest.raises(RunUnreadableError, match="cannot be read: No such file"):
        gone[0]


def test_a_missing_workflow_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunUnreadableError, match=r"workflow\.jsonl' cannot be read"):
        JobTable(RunPaths(tmp_path))


def test_a_workflow_cut_anywhere_is_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",), "a_3": ("a_2",)})
    whole = run.workflow.read_bytes()
    for length in range(len(whole)):
        run.workflow.write_bytes(whole[:length])
        with pytest.raises(RunUnreadableError):
            JobTable(run)


@pytest.mark.parametrize("line", [b'{"name": "a_1", "s": "none"}\n', b"\n", b"{\n", b'{"s":0}\n'])
def test_a_line_that_is_no_job_is_refused(tmp_path: Path, line: bytes) -> None:
    run = write_run(tmp_path / "run", {"a_1": (), "a_2": ("a_1",)})
    lines = run.workflow.read_bytes().splitlines(keepends=True)
    run.workflow.write_bytes(lines[0] + line + lines[2])
    with pytest.raises(RunUnreadableError, match="a line that is no job"):
        JobTable(run, "names")
