"""Interventions become events once HTCondor accepted them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.disk import room_for

from longshore.contract.service import Intervention, JobSelection, RunPaths
from longshore.errors import SubmissionRefusedError, UnreachableError
from longshore.model.event import FORMAT, Life, Steer
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, JobSettings, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.services.htcondor.control import interventions
from longshore.services.htcondor.control.interventions import cancel_jobs, cancel_run, intervene, unreached_notes
from longshore.services.htcondor.schedd.client import CondorClient
from longshore.services.htcondor.submission_record import (
    DagSubmission,
    RecordedIntervention,
    SubmissionRecord,
    read_submissions,
    update_interventions,
    write_submissions,
)
from longshore.system.atomic import create_file


class _Schedd(CondorClient):
    """A schedd with some jobs of a DAGMan, which does what it is told when it is asked to remove them."""

    def __init__(self, removal: Callable[[], int], *nodes: str) -> None:
        super().__init__()
        self._removal = removal
        self._nodes = nodes
        self.acts: list[str] = []

    def query_jobs(self, constraint: str, attributes: Sequence[str]) -> list[Mapping[str, Any]]:
        return [] if self.acts else [dict.fromkeys(attributes, node) for node in self._nodes]

    def apply_action(self, action: str, constraint: str, reason: str) -> int:
        self.acts.append(action)
        return self._removal()

    def is_expression(self, text: str) -> bool:
        return bool(text)

    def throttle_dag(self, cluster: int, most: int) -> None:
        self.acts.append(f"throttle {cluster} {most}")


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run that was handed over."""
    run = RunPaths(tmp_path)
    run.wms.mkdir()
    run.journal.mkdir()
    life = Life(v=FORMAT, life=1, t=1.0, host="ap", pid=7, boot="", by="submit")
    write_submissions(run, SubmissionRecord(submissions=(DagSubmission(life=life, cluster=7, schedd="ap"),)))
    return run


def cancel(run: RunPaths, schedd: _Schedd, selection: JobSelection | None = None) -> int:
    return cancel_run(run, schedd, read_submissions(run), selection or JobSelection(), "ClusterId == 7").ended


def _newest(run: RunPaths) -> DagSubmission:
    newest = read_submissions(run).last_submission
    assert newest is not None
    return newest


def given(run: RunPaths) -> list[tuple[str, bool]]:
    return [(order.steer.act, order.is_accepted) for order in read_submissions(run).interventions]


def test_a_cancel_is_accepted_when_the_schedd_confirms_it(run: RunPaths) -> None:
    meanwhile: list[list[tuple[str, bool]]] = []

    def remove() -> int:
        meanwhile.append(given(run))
        return 1

    assert cancel(run, _Schedd(remove, "j0", "j1")) == 2
    assert meanwhile == [[("cancel", False)]]
    assert given(run) == [("cancel", True)]


def test_a_failed_cancel_is_not_recorded(run: RunPaths) -> None:
    def remove() -> int:
        raise UnreachableError("the schedd does not answer")

    with pytest.raises(UnreachableError):
        cancel(run, _Schedd(remove, "j0"))
    assert given(run) == []
    with pytest.raises(SubmissionRefusedError, match="pass-thru"):
        cancel(run, _Schedd(lambda: 0, "j0"), JobSelection(pass_thru="Owner == 1"))
    assert given(run) == []


@pytest.mark.parametrize("full", ["before", "all the time"])
def test_a_full_disk_does_not_prevent_a_cancel(run: RunPaths, full: str) -> None:
    with ExitStack() as disk:
        disk.enter_context(room_for(0))

        def remove() -> int:
            if full == "before":
                disk.close()
            return 1

        assert cancel(run, _Schedd(remove, "j0")) == 1
    assert given(run) == ([("cancel", True)] if full == "before" else [])


def test_a_cancel_that_removed_nothing_is_not_accepted(run: RunPaths) -> None:
    schedd = _Schedd(lambda: 0)
    assert cancel(run, schedd, JobSelection(final_too=True)) == 0
    assert schedd.acts == ["Remove", "RemoveX", "Remove"]
    assert given(run) == [("cancel", False)]


def test_a_cancel_during_the_final_job_is_only_recorded(run: RunPaths) -> None:
    schedd = _Schedd(lambda: 1, "final")
    assert cancel(run, schedd) == 0
    assert schedd.acts == []
    assert given(run) == [("cancel", True)]


def test_confirmed_interventions_follow_earlier_events(run: RunPaths) -> None:
    def remove() -> int:
        assert intervene(
            run, schedd, read_submissions(run), Intervention(selection=JobSelection(), act="throttle", set={"max": "3"})
        )
        return 1

    schedd = _Schedd(remove, "j0")
    cancel(run, schedd)
    assert given(run) == [("throttle", True), ("cancel", True)]
    assert [order.steer.act for order in read_submissions(run).accepted] == ["throttle", "cancel"]


def test_concurrent_interventions_are_all_recorded(run: RunPaths) -> None:
    def add(number: int) -> None:
        order = RecordedIntervention(steer=Steer(who="ada", act="pause", t=float(number)), life=1)
        update_interventions(run, lambda book: (*book.interventions, order))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(order.steer.t for order in read_submissions(run).interventions) == list(map(float, range(20)))


@pytest.fixture
def half(run: RunPaths) -> RunPaths:
    """Of six jobs and a final one, DAGMan has submitted the first two; the last depends on the first."""
    names = ["a0", "b1", "b2", "b3", "c4", "b5", "f"]
    jobs = [Job(name=name, label=name[0], command=("true",), settings=JobSettings(label=name[0])) for name in names]
    create_file(run.workflow, workflow_lines(Workflow("w", Dag.by_name(jobs[:6], [("b1", "b5")]), final=jobs[6])))
    submitted = '000 (00{}.000.000) 2026-11-22 06:32:15 Job submitted: <x>\n    [ DAGNodeName = "j{}" ]\n...\n'
    (run.wms / "run.dag.nodes.log").write_text(submitted.format(8, 0) + submitted.format(9, 1), "utf-8")
    return run


def test_cancel_of_a_label_notes_jobs_that_will_still_run(half: RunPaths) -> None:
    outcome = cancel_jobs(half, _Schedd(lambda: 1), _newest(half), JobSelection(labels=("b",)))
    assert outcome.ended == 1
    (said,) = outcome.alive
    assert said.startswith("2 of these jobs are not in HTCondor's queue yet, and DAGMan will submit them")
    assert said.endswith(": cancel them once there, or cancel the whole run")
    assert cancel_jobs(half, _Schedd(lambda: 1), _newest(half), JobSelection(jobs=("a0", "b1", "b5"))).alive == ()


def test_hold_notes_jobs_that_are_not_held(half: RunPaths) -> None:
    def order(act: str, *, jobs: tuple[str, ...] = (), labels: tuple[str, ...] = ()) -> tuple[str, ...]:
        return unreached_notes(half, Intervention(act=act, selection=JobSelection(jobs=jobs, labels=labels)))

    hold = "not in HTCondor's queue yet, and DAGMan will submit {0}: hold {0} once there, or pause the whole run"
    assert order("hold", jobs=("b1", "b2")) == (f"1 of these jobs is {hold.format('it')}",)
    assert order("hold", labels=("a",)) == ()
    assert order("hold") == (f"3 of these jobs are {hold.format('them')}",)
    assert order("release") == ()


def test_unreadable_events_are_noted(half: RunPaths) -> None:
    half.workflow.unlink()
    (said,) = interventions.notes_on_unsubmitted(half, [2], "hold")
    assert said.startswith("whether DAGMan has yet to submit some of these jobs is not known: ")


@pytest.mark.parametrize("act", ["hold", "release"])
def test_an_empty_selection_is_all_jobs_in_the_queue(half: RunPaths, act: str) -> None:
    class Schedd(_Schedd):
        def apply_action(self, action: str, constraint: str, reason: str) -> int:
            self.acts += [action, constraint]
            return 1

    schedd = Schedd(lambda: 1)
    assert intervene(half, schedd, read_submissions(half), Intervention(act=act))
    assert schedd.acts == [act.capitalize(), "DAGManJobId =?= 7 && LongshoreJob =!= undefined"]
