"""A restart with a changed workflow has a DAG of its own; events, logs and counts are right over both DAGs."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest
from tests.services.htcondor import changed_run
from tests.services.htcondor.changed_run import EARLIER, LATER, AnsweringSchedd, make_workflow, node, states
from tests.services.htcondor.rendering import ROOT, context, job

from longshore.contract.service import JobSelection, RestartChanges, RunPaths, StaleMarkError
from longshore.errors import RunUnreadableError, SubmissionRefusedError
from longshore.jobs.scripts import task_record_path
from longshore.model.event import Failed, Finished, Life, Restarted, Submitting
from longshore.model.json_lines import encode_line
from longshore.model.states import JobState
from longshore.model.submission import REUSED_JOBS, ReusedJobs
from longshore.model.tasks import Dag
from longshore.model.workflow import MIB, JobRules, Request, Workflow
from longshore.rundir.job_table import JobTable
from longshore.runstate.replay import replay
from longshore.services.htcondor.log_lookup import CondorLogLocator
from longshore.services.htcondor.render.dag import dag_text
from longshore.services.htcondor.schedd.client import DagmanJob
from longshore.services.htcondor.submission.submit_dag import resolve_submission
from longshore.services.htcondor.submission_record import read_submissions, write_submissions

CHANGED = ("b", "f")
WIDER = {"x": (), "y": (), "z": (), "a": (), "b": ("a",)}
"""Parents in a workflow in which the number of each job is another than before."""


@pytest.fixture
def schedd() -> AnsweringSchedd:
    return AnsweringSchedd()


@pytest.fixture
def run(tmp_path: Path, schedd: AnsweringSchedd) -> RunPaths:
    """A run that is over: ``b`` failed, and its configuration was mended since."""
    return changed_run.submitted_earlier(tmp_path / "run", schedd)


@pytest.fixture
def changed(run: RunPaths) -> RunPaths:
    """The same, whose next submission has another workflow."""
    changed_run.change_workflow(run, make_workflow(LATER), CHANGED)
    return run


def folder(run: RunPaths) -> Path:
    return run.submissions / "0002" / "wms"


def restart(run: RunPaths, schedd: AnsweringSchedd) -> None:
    """Restart the run; all jobs that run succeed."""
    plan = changed_run.plan(run)
    changed_run.submit(run, schedd, plan)
    names = JobTable(run).names
    nodes = [f"j{number}" for number in plan.restarted.jobs if names[number] != "f"]
    changed_run.write_logs(folder(run), 200, {**dict.fromkeys(nodes, 0), "final": 0})


def test_events_of_an_earlier_dag_have_the_numbers_of_the_new_workflow(run: RunPaths) -> None:
    source = changed_run.reading(run)
    mark = source.events()[1]
    assert states(run) == {"a": ("SUCCEEDED", 1), "b": ("FAILED", 1), "c": ("SUCCEEDED", 1), "f": ("SUCCEEDED", 1)}
    brief = changed_run.reading(run).complete_mark()
    changed_run.change_workflow(run, make_workflow(LATER), CHANGED)
    assert states(run) == {
        "n": ("READY", 0),
        "a": ("SUCCEEDED", 1),
        "b": ("FAILED", 1),
        "d": ("PRUNED", 0),
        "f": ("SUCCEEDED", 1),
    }
    for old in (mark, brief):
        with pytest.raises(StaleMarkError):
            changed_run.reading(run).events(old)
    events, mark = changed_run.reading(run).events()
    assert [event.state for event in events if isinstance(event, Finished)] == [JobState.FAILED]
    assert list(changed_run.reading(run).events(mark)[0]) == []


def test_a_run_failed_even_if_what_failed_is_gone(run: RunPaths) -> None:
    changed_run.change_workflow(run, make_workflow({"n": (), "a": ()}), ("f",))
    events = list(changed_run.reading(run).events()[0])
    assert [event.state for event in events if isinstance(event, Finished)] == [JobState.FAILED]
    assert states(run) == {"n": ("READY", 0), "a": ("SUCCEEDED", 1), "f": ("SUCCEEDED", 1)}


def test_names_of_files_have_the_numbers_that_jobs_keep() -> None:
    jobs = [job(name, label="l", tasks=3, rules=JobRules(resume_tasks=True)) for name in ("a'1", "b")]
    ctx = msgspec.structs.replace(context(), folder="submissions/0002", file_numbers=(1207, 4))
    text = "".join(dag_text(Workflow("w", Dag.by_name(jobs)), ctx))
    first, second = (line for line in text.split("\n") if line.startswith("VARS j"))
    assert 'f="a_1-1207"' in first
    assert 'o="02"' in first
    assert 'o="00"' in second
    for number in (1207, 4):
        assert f'TASKS_DONE={ROOT}/{task_record_path(number)}"' in text


def test_a_changed_workflow_runs_what_is_new_and_what_changed(changed: RunPaths, schedd: AnsweringSchedd) -> None:
    restart(changed, schedd)
    assert schedd.taken == [changed.wms / "run.dag", folder(changed) / "run.dag"]
    done = (folder(changed) / "run.dag.rescue001").read_text("utf-8").split("\n")
    assert [line for line in done if line.startswith("DONE")] == [f"DONE {node(changed, 'a')}"]
    assert (changed.wms / "backups" / "001" / "run.dag.nodes.log").exists()
    assert not list(changed.wms.glob("run.dag.*"))
    wanted = {"n": 1, "a": 1, "b": 2, "d": 1, "f": 2}
    assert states(changed) == {name: ("SUCCEEDED", attempts) for name, attempts in wanted.items()}
    events = list(changed_run.reading(changed).events()[0])
    assert [event.life for event in events if isinstance(event, Life)] == [1, 2]
    ends = [event.state for event in events if isinstance(event, Finished)]
    assert ends == [JobState.FAILED, JobState.SUCCEEDED]


def test_all_ways_of_reading_both_dags_agree(changed: RunPaths, schedd: AnsweringSchedd) -> None:
    restart(changed, schedd)
    cached = list(map(encode_line, changed_run.reading(changed).events()[0]))
    shutil.rmtree(changed.cache)
    brief, mark = changed_run.reading(changed).brief_events()
    jobs = JobTable(changed, "parents")
    code = replay(jobs, brief).code
    assert list(changed_run.reading(changed).brief_events(mark)[0]) == []
    assert list(map(encode_line, changed_run.reading(changed).events()[0])) == cached
    assert list(code) == list(replay(jobs, changed_run.reading(changed).events()[0]).code)


def test_logs_of_both_dags_are_found(changed: RunPaths, schedd: AnsweringSchedd) -> None:
    restart(changed, schedd)
    names = JobTable(changed).names
    logs = CondorLogLocator(changed, changed_run.reading(changed).job_phases())
    first = 100 + 1 + list(EARLIER).index("b")
    job = names.index("b")
    assert logs.attempts(job) == 2
    assert logs.path(job, "b", "b", 1) == f"logs/b/00/b.{first}.1.log"
    assert logs.path(job, "b", "b", 2).startswith("logs/b/00/b.2")
    assert (changed.root / "logs" / "d" / "00").is_dir(), "HTCondor holds a job whose log it cannot open"


def test_a_name_with_special_characters_has_the_number_that_its_job_keeps(run: RunPaths) -> None:
    before = JobTable(run).names.index("b")
    changed_run.change_workflow(run, make_workflow(WIDER), ("f",))
    job = JobTable(run).names.index("b")
    assert job != before
    logs = CondorLogLocator(run, changed_run.reading(run).job_phases())
    assert logs.path(job, "b'", "b", 1).startswith(f"logs/b/00/b_-{before}.")


def test_another_restart_goes_on_with_the_changed_workflow(changed: RunPaths, schedd: AnsweringSchedd) -> None:
    changed_run.submit(changed, schedd, changed_run.plan(changed))
    ends = {node(changed, "n"): 0, node(changed, "b"): 1, "final": 0}
    changed_run.write_logs(folder(changed), 200, ends, code=1)
    assert states(changed)["d"] == ("PRUNED", 0)
    plan = changed_run.plan(changed, RestartChanges())
    names = JobTable(changed).names
    assert [names[job] for job in plan.restarted.jobs] == ["b", "d", "f"], "what changed runs once"
    changed_run.submit(changed, schedd, plan)
    assert schedd.taken[2] == folder(changed) / "run.dag"
    assert {path.name for path in (changed.wms / "backups").iterdir()} == {"001", "002"}
    done = (folder(changed) / "run.dag.rescue001").read_text("utf-8")
    assert {line for line in done.split("\n") if line.startswith("DONE")} == {
        f"DONE {node(changed, name)}" for name in ("a", "n")
    }
    changed_run.write_logs(folder(changed), 300, {node(changed, "b"): 0, node(changed, "d"): 0, "final": 0})
    assert states(changed) == {
        "n": ("SUCCEEDED", 1),
        "a": ("SUCCEEDED", 1),
        "b": ("SUCCEEDED", 3),
        "d": ("SUCCEEDED", 1),
        "f": ("SUCCEEDED", 3),
    }


def test_a_third_workflow_maps_both_before_it(changed: RunPaths, schedd: AnsweringSchedd) -> None:
    restart(changed, schedd)
    changed_run.change_workflow(changed, make_workflow({"z": (), "d": (), "a": ()}), ("d", "f"))
    assert states(changed) == {
        "z": ("READY", 0),
        "d": ("SUCCEEDED", 1),
        "a": ("SUCCEEDED", 1),
        "f": ("SUCCEEDED", 2),
    }
    plan = changed_run.plan(changed)
    names = JobTable(changed).names
    assert {names[job] for job in plan.restarted.jobs} == {"z", "d", "f"}


def test_a_refused_restart_leaves_the_run_as_it_was(changed: RunPaths, schedd: AnsweringSchedd) -> None:
    before = {path.name: path.read_bytes() for path in changed.wms.iterdir() if path.is_file()}
    schedd.fails = SubmissionRefusedError("the disk of the schedd is full")
    with pytest.raises(SubmissionRefusedError, match="disk of the schedd"):
        changed_run.submit(changed, schedd, changed_run.plan(changed))
    assert {path.name: path.read_bytes() for path in changed.wms.iterdir() if path.is_file()} == before | {
        "htcondor.json": (changed.wms / "htcondor.json").read_bytes()
    }
    assert not list(folder(changed).glob("run.dag.*"))
    assert read_submissions(changed).pending is None
    assert states(changed)["a"] == ("SUCCEEDED", 1)
    schedd.fails = None
    restart(changed, schedd)
    assert states(changed)["d"] == ("SUCCEEDED", 1)


@pytest.mark.parametrize("arrived", [False, True])
def test_a_killed_restart_is_found_or_rolled_back(changed: RunPaths, schedd: AnsweringSchedd, arrived: bool) -> None:
    changed_run.submit(changed, schedd, changed_run.plan(changed))
    record = read_submissions(changed)
    assert record.last_submission is not None
    begun = msgspec.structs.replace(record.last_submission, cluster=0, schedd="", global_id="")
    # As if the process had been killed before it recorded the answer.
    write_submissions(changed, msgspec.structs.replace(record, submissions=record.submissions[:1], pending=begun))
    assert states(changed)["b"] == ("FAILED", 1), "the logs of the first DAG are in the backups"
    schedd.there = DagmanJob(cluster=200, schedd="ap", global_id="ap#200") if arrived else None
    found = resolve_submission(changed, schedd, read_submissions(changed))
    assert found.pending is None
    assert [each.folder for each in found.submissions] == ["", "submissions/0002"][: 1 + arrived]
    assert (changed.wms / "run.dag.nodes.log").exists() is not arrived
    assert (folder(changed) / "run.dag.rescue001").exists() is arrived
    assert states(changed)["b"] == (("UNREADY", 1) if arrived else ("FAILED", 1))


def test_tasks_that_were_done_before_a_change_are_forgotten(tmp_path: Path, schedd: AnsweringSchedd) -> None:
    run = changed_run.submitted_earlier(tmp_path / "run", schedd, tasks=5)
    numbers = {name: number for number, name in enumerate(JobTable(run).names)}
    for number in numbers.values():
        record = run.root / task_record_path(number)
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text("1\n2\n", "utf-8")
    changed_run.change_workflow(run, make_workflow(LATER, tasks=5), CHANGED)
    dag = (folder(run) / "run.dag").read_text("utf-8")
    record_of_b = task_record_path(numbers["b"])
    assert any(f"VARS {node(run, 'b')} " in line for line in dag.split("\n"))
    changed_run.submit(run, schedd, changed_run.plan(run))
    assert not (run.root / record_of_b).exists()
    assert (run.root / task_record_path(numbers["a"])).exists(), "jobs that stay keep theirs"
    new = JobTable(run).file_number(JobTable(run).names.index("n"))
    assert new >= len(numbers), "a new job reads no record of another"


def test_what_users_set_goes_to_the_new_dag(run: RunPaths, schedd: AnsweringSchedd) -> None:
    for dagman, values in (200, {"requestMemory": "1G", "requestCpus": "2"}), (300, {"requestMemory": "2G"}):
        changes = RestartChanges(set=values, selection=JobSelection(labels=("b",)))
        changed_run.submit(run, schedd, changed_run.plan(run, changes))
        changed_run.write_logs(run.wms, dagman, {node(run, "b"): 1, "final": 0}, code=1)
    workflow = make_workflow(LATER, request=Request(cpus=3, disk_b=9 * MIB, memory_b=MIB))
    changed_run.change_workflow(run, workflow, CHANGED)
    changed_run.submit(run, schedd, changed_run.plan(run))
    overrides = (folder(run) / "overrides.dag").read_text("utf-8").split("\n")
    assert [line for line in overrides if line.startswith("VARS")] == [f'VARS {node(run, "b")} cpus="2" mem="2048"']
    changed_run.write_logs(folder(run), 400, {node(run, "n"): 0, node(run, "b"): 0, node(run, "d"): 0, "final": 0})
    asked = {
        pair: event.request
        for event in changed_run.reading(run).events()[0]
        if isinstance(event, Submitting)
        for pair in event.jobs
    }
    b, d = (JobTable(run).names.index(name) for name in ("b", "d"))
    assert asked[b, 1] == Request(), "as the first workflow had it"
    assert asked[b, 2] == Request(cpus=2, memory_b=1024 * MIB)
    assert asked[b, 4] == Request(cpus=2, disk_b=9 * MIB, memory_b=2048 * MIB)
    assert asked[d, 1] is None, "as the newest workflow has it"


def test_nodes_that_an_earlier_dagman_could_not_submit_keep_their_reason(
    run: RunPaths, schedd: AnsweringSchedd
) -> None:
    changed_run.write_logs(run.wms, 100, {node(run, "a"): 0, node(run, "c"): 0, "final": 0}, code=1)
    (run.wms / "run.dag.dagman.out").write_text(
        "\n11/22/26 07:00:00 ERROR: submit failed: no such accounting group"
        f"\n11/22/26 07:00:00 Shortcutting node {node(run, 'b')} retries because of submit failure\n",
        "utf-8",
    )
    changed_run.change_workflow(run, make_workflow(WIDER), ("f",))
    failed = [event for event in changed_run.reading(run).events()[0] if isinstance(event, Failed)]
    names = JobTable(run).names
    assert [names[event.j] for event in failed] == ["b"]
    assert "no such accounting group" in failed[0].why


def test_a_run_begins_with_results_of_another(tmp_path: Path, schedd: AnsweringSchedd) -> None:
    run = changed_run.prepare_run(tmp_path / "run", make_workflow(EARLIER))
    names = JobTable(run).names
    kept = ReusedJobs(run="k0", path="/runs/k0", jobs=tuple(names.index(name) for name in ("a", "c")))
    (run.root / REUSED_JOBS).write_bytes(msgspec.json.encode(kept))
    changed_run.submit(run, schedd)
    done = (run.wms / "run.dag.rescue001").read_text("utf-8")
    assert done.count("DONE") == 2
    changed_run.write_logs(run.wms, 100, {node(run, "b"): 1, "final": 0}, code=1)
    wanted = {"a": ("SUCCEEDED", 1), "b": ("FAILED", 1), "c": ("SUCCEEDED", 1), "f": ("SUCCEEDED", 1)}
    assert states(run) == wanted
    shutil.rmtree(run.cache)
    assert list(replay(JobTable(run, "parents"), changed_run.reading(run).brief_events()[0]).code) == list(
        replay(JobTable(run, "parents"), changed_run.reading(run).events()[0]).code
    )
    again = changed_run.plan(run, RestartChanges(from_labels=("c",)))
    changed_run.submit(run, schedd, again)
    changed_run.write_logs(run.wms, 200, {node(run, "b"): 1, node(run, "c"): 0, "final": 0}, code=1)
    assert states(run) == wanted | {"b": ("FAILED", 2), "c": ("SUCCEEDED", 2), "f": ("SUCCEEDED", 2)}
    # What was kept stays in a restart, also with another workflow.
    changed_run.change_workflow(run, make_workflow(LATER), CHANGED)
    plan = changed_run.plan(run)
    names = JobTable(run).names
    assert [names[job] for job in sorted(plan.done)] == ["a"]
    assert isinstance(plan.restarted, Restarted)


def test_a_refused_submission_with_kept_results_is_tried_again(tmp_path: Path, schedd: AnsweringSchedd) -> None:
    run = changed_run.prepare_run(tmp_path / "run", make_workflow(EARLIER))
    (run.root / REUSED_JOBS).write_bytes(msgspec.json.encode(ReusedJobs(run="k0", path="/runs/k0", jobs=(0,))))
    schedd.fails = SubmissionRefusedError("the disk of the schedd is full")
    with pytest.raises(SubmissionRefusedError, match="disk of the schedd"):
        changed_run.submit(run, schedd)
    assert not list(run.wms.glob("run.dag.*"))
    schedd.fails = None
    changed_run.submit(run, schedd)
    assert "DONE j0" in (run.wms / "run.dag.rescue001").read_text("utf-8")


@pytest.mark.parametrize("folder", ["/etc", "submissions/../..", "submissions/2"])
def test_a_record_that_names_another_folder_is_unreadable(run: RunPaths, folder: str) -> None:
    record = read_submissions(run)
    last = record.submissions[-1]
    for damaged in (
        msgspec.structs.replace(record, pending=msgspec.structs.replace(last, folder=folder)),
        msgspec.structs.replace(record, submissions=(msgspec.structs.replace(last, folder=folder),)),
    ):
        write_submissions(run, damaged)
        with pytest.raises(RunUnreadableError, match="is no folder of a submission"):
            read_submissions(run)
