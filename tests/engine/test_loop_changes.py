"""A restart whose submission has another workflow, and whose engine may die at any moment."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.doors import replace_calls
from tests.engine.dying_files import DyingFiles
from tests.engine.simulation import Crash, Simulation, fails

from longshore.model.event import Restarted, Submitting
from longshore.model.states import JobState
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, JobSettings, Request, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.interventions import InterventionRecord, write_intervention
from longshore.rundir.job_table import JobTable
from longshore.rundir.submissions import create_manifest, hash_file, read_manifest, write_job_map
from longshore.system.atomic import create_file
from longshore.system.files import files
from longshore.system.folder import make_folders
from longshore.testing.fakes import AttemptOutcome, FakeManager

CHAINS = {"a_0": (), "b_0": (), "a_1": ("a_0",), "b_1": ("b_0",)}
NEW = {"n_0": (), "b_0": (), "a_0": (), "b_1": ("b_0",), "a_1": ("a_0", "n_0")}


def change_workflow(sim: Simulation, request: Request | None = None) -> None:
    """Begin a submission in which `n_0` is new, `a_1` waits for it as well, and the command of `b_0` is another."""
    run = sim.run
    # The manager knows members by number, and the numbers are others now.
    sim.manager = FakeManager(sim.clock, lambda _job, _attempt: AttemptOutcome())
    old = JobTable(run).names
    settings = JobSettings(label="a", request=request or Request())
    jobs = [Job(name=name, label="a", command=("true", name), settings=settings) for name in NEW]
    workflow = Workflow("w", Dag.by_name(jobs, [(before, name) for name, these in NEW.items() for before in these]))
    names = [job.name for job in workflow]
    folder = run.submissions / "0002"
    make_folders(folder / "wms", below=run.root)
    create_file(folder / "wms" / "engine.json", [(run.wms / "engine.json").read_bytes()], below=run.root)
    numbers = [old.index(name) if name in old else len(old) for name in names]
    lines = workflow_lines(workflow, numbers=numbers, next_number=len(old) + 1)
    create_file(folder / "workflow.jsonl", lines, below=run.root)
    pairs = {old.index(name): number for number, name in enumerate(names) if name in old}
    job_map = write_job_map(run, 2, pairs, [names.index(name) for name in ("b_0", "b_1", "a_1")])
    last = read_manifest(run)
    assert last is not None
    own = ("submissions/0002/workflow.jsonl", "submissions/0002/wms/engine.json", job_map)
    second = msgspec.structs.replace(
        last,
        v=2,
        number=2,
        workflow=own[0],
        job_map=job_map,
        folder="submissions/0002",
        expected=len(jobs),
        labels={"a": len(jobs)},
        files={**last.files, **{name: hash_file(run.root / name) for name in own}},
    )
    create_manifest(run, second)


def attempts(sim: Simulation) -> dict[str, int]:
    return dict(zip(JobTable(sim.run).names, sim.state().attempts, strict=True))


WANTED = {"n_0": 1, "a_0": 1, "b_0": 2, "a_1": 2, "b_1": 2}


def test_a_changed_workflow_keeps_what_is_up_to_date_and_runs_the_rest(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, CHAINS)
    assert sim.engine().run() is JobState.SUCCEEDED
    change_workflow(sim)
    engine = sim.engine("restart")
    engine.restart()
    assert engine.run() is JobState.SUCCEEDED
    assert attempts(sim) == WANTED
    assert [event.order for event in sim.of(Restarted)] == ["submission-0002"]
    # Another restart, with the same workflow, voids nothing again.
    again = sim.engine("restart")
    assert again.restart() == 0
    assert again.run() is JobState.SUCCEEDED
    assert attempts(sim) == WANTED


def test_a_failed_job_that_changed_has_its_attempts_counted_on(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, CHAINS, outcome=fails(1, until=2))
    assert sim.engine().run() is JobState.FAILED
    change_workflow(sim)
    engine = sim.engine("restart")
    engine.restart()
    assert engine.run() is JobState.SUCCEEDED
    assert sum(sim.state().count_states().values()) == len(NEW)


def test_what_a_user_set_changes_the_request_of_the_new_workflow(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, CHAINS, outcome=fails(1, until=9))
    sim.engine().run()
    values = {"requestMemory": "8G"}
    write_intervention(sim.run, InterventionRecord(who="me", act="restart", set=values))
    again = sim.engine("restart")
    again.restart()
    again.run()
    change_workflow(sim, Request(cpus=3, memory_b=1 << 20))
    engine = sim.engine("restart")
    engine.restart()
    assert engine.run() is JobState.SUCCEEDED
    job = JobTable(sim.run).names.index("b_0")
    asked = [event.request for event in sim.of(Submitting) if job in dict(event.jobs)]
    assert (asked[-1].cpus, asked[-1].memory_b) == (3, 8 << 30)


def test_files_of_jobs_keep_their_numbers(tmp_path: Path) -> None:
    sim = Simulation(tmp_path, CHAINS)
    before = {name: JobTable(sim.run).file_number(job) for job, name in enumerate(JobTable(sim.run).names)}
    sim.engine().run()
    change_workflow(sim)
    jobs = JobTable(sim.run)
    after = {name: jobs.file_number(job) for job, name in enumerate(jobs.names)}
    assert after == {**before, "n_0": 4}
    assert [jobs.file_number(job, jobs[job]) for job in range(len(jobs))] == list(after.values())


@pytest.mark.parametrize("after", [False, True])
def test_results_are_voided_once_whenever_the_engine_dies(tmp_path: Path, after: bool) -> None:
    for moment in range(1, 1000):
        sim = Simulation(tmp_path / str(moment), CHAINS)
        sim.engine().run()
        change_workflow(sim)
        write_intervention(sim.run, InterventionRecord(who="me", act="restart"))
        disk = DyingFiles(moment, after=after)
        try:
            with replace_calls(files, disk):
                engine = sim.engine("restart")
                engine.restart()
                engine.run()
        except Crash:
            # The user repeats the command: there is nothing else to do for a run that seems to be over.
            again = sim.engine("restart")
            again.restart()
            assert again.run() is JobState.SUCCEEDED
        assert attempts(sim) == WANTED, moment
        assert len([event for event in sim.of(Restarted) if event.order == "submission-0002"]) == 1
        if disk.calls < moment:
            break
    assert moment > 10
