"""Events of a run are equal for every way of reading: at once or in parts, cached or not, over submissions."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.disk import room_for

from longshore.contract.service import RunPaths, StaleMarkError, Unreachable
from longshore.model.event import (
    FORMAT,
    AttemptSucceeded,
    BriefEvent,
    Deleted,
    Event,
    Failed,
    Finished,
    Life,
    Restarted,
    Steer,
)
from longshore.model.json_lines import encode_line
from longshore.model.states import JobState
from longshore.model.tasks import Dag
from longshore.model.workflow import Job, JobGroup, JobSettings, Ordering, Workflow
from longshore.model.workflow_lines import workflow_lines
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_waiting
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JOB_STATES
from longshore.services.htcondor import status_lines
from longshore.services.htcondor.events.dagman_end import DagmanEnd
from longshore.services.htcondor.events.event_source import LogEventSource, lock_cache, read_state
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.services.htcondor.log_lookup import CondorLogLocator
from longshore.services.htcondor.service import HTCondorService
from longshore.services.htcondor.submission_record import (
    DagSubmission,
    RecordedIntervention,
    SubmissionRecord,
    backup_folder,
    read_submissions,
    write_submissions,
)
from longshore.system.atomic import create_file, write_atomically
from longshore.system.sharing import is_locked

DATA = Path(__file__).resolve().parents[3] / "data" / "htcondor"
OVER = """\
001 (001.000.000) 2026-11-22 06:32:14 Job executing on host: <127.0.0.1:1>
...
005 (001.000.000) 2026-11-22 06:34:05 Job terminated.
\t(1) Normal termination (return value 1)
...
"""


@pytest.fixture(autouse=True)
def _where_the_logs_were_written(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """They have the local time of a machine whose clock went by UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def job(name: str) -> Job:
    return Job(name=name, label=name[0], command=("true",), settings=JobSettings(label=name[0]))


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run of eight jobs without order, handed over once, with a log of every kind of end."""
    found = RunPaths(tmp_path / "run")
    found.wms.mkdir(parents=True)
    found.journal.mkdir()
    workflow = Workflow("w", Dag.by_name([job(f"a{number}") for number in range(7)]), final=job("f"))
    create_file(found.workflow, workflow_lines(workflow))
    shutil.copy(DATA / "mixed.nodes.log", found.wms / "run.dag.nodes.log")
    (found.wms / "run.dag.dagman.log").write_text(OVER, "utf-8")
    write_submissions(found, SubmissionRecord(submissions=(handed(1),)))
    return found


def handed(cluster: int, **more: object) -> DagSubmission:
    life = Life(v=FORMAT, life=1, t=1795329133.0, host="ap", pid=cluster, boot="", by="restart" if more else "submit")
    return DagSubmission(life=life, cluster=cluster, schedd="ap", retries={1: 1}, **more)  # type: ignore[arg-type]


def reading(run: RunPaths, *, gone: Callable[[], bool] = lambda: False) -> LogEventSource:
    return LogEventSource(run, read_submissions(run), gone)


def told(run: RunPaths, **more: Callable[[], bool]) -> list[Event]:
    return list(reading(run, **more).events()[0])


def shown(run: RunPaths, events: Sequence[BriefEvent]) -> str:
    return " ".join(JOB_STATES[code].value for code in replay(JobTable(run), events).code)


ALL = "SUCCEEDED FAILED FAILED SUCCEEDED DELETED SUCCEEDED DELETED FAILED"


def test_events_of_a_complete_log(run: RunPaths) -> None:
    events = told(run)
    assert shown(run, events) == ALL
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.state, end.t) == (JobState.FAILED, 1795329245.0)
    assert isinstance(events[0], Life)
    assert [event.n for event in events[1:]] == list(range(1, len(events)))  # type: ignore[union-attr]


def test_a_growing_log_gives_the_same_events(run: RunPaths) -> None:
    whole = list(map(encode_line, told(run)))
    shutil.rmtree(run.cache)
    log = run.wms / "run.dag.nodes.log"
    text, over = log.read_bytes(), run.wms / "run.dag.dagman.log"
    over.rename(over.with_name("over"))
    pieces: list[Event] = []
    mark = ""
    for end in range(0, len(text) + 900, 900):
        with log.open("ab" if end else "wb") as file:
            file.write(text[max(0, end - 900) : end])
        events, mark = reading(run).events(mark)
        pieces += events
    over.with_name("over").rename(over)
    events, mark = reading(run).events(mark)
    pieces += events
    assert list(map(encode_line, pieces)) == whole
    events, again = reading(run).events(mark)
    assert (list(events), again) == ([], mark)


@pytest.mark.parametrize("kept", [True, False])
def test_pruned_jobs_are_not_deleted(run: RunPaths, kept: bool) -> None:
    jobs = [job(name) for name in ("a0", "a1", "a2", "b0")]
    workflow = Workflow("w", Dag.by_name(jobs, [("a0", "a1"), ("a1", "a2")]))
    write_atomically(run.workflow, b"".join(workflow_lines(workflow)))
    number = [each.name for each in workflow].index("a0")
    # Why DAGMan submitted nothing of the other label is not known: it was left.
    (run.wms / "run.dag.nodes.log").write_text(
        f'000 (002.000.000) 2026-11-22 06:32:14 Submitted\n    [ DAGNodeName = "j{number}"; JobBatchName = "w" ]\n...\n'
        "001 (002.000.000) 2026-11-22 06:32:15 Job executing on host: <127.0.0.1:1>\n...\n"
        "005 (002.000.000) 2026-11-22 06:32:16 Job terminated.\n\t(1) Normal termination (return value 1)\n...\n",
        "utf-8",
    )
    write_submissions(run, SubmissionRecord(submissions=(msgspec.structs.replace(handed(1), retries={}),)))
    if not kept:
        run.cache.write_text("in the way", "utf-8")
    events = told(run)
    assert [event.jobs for event in events if isinstance(event, Deleted)] == [
        ([each.name for each in workflow].index("b0"),)
    ]
    assert [event.n for event in events[1:]] == list(range(1, len(events)))  # type: ignore[union-attr]
    assert sorted(shown(run, events).split()) == ["DELETED", "FAILED", "PRUNED", "PRUNED"]


def test_events_without_a_cache_are_the_same(run: RunPaths) -> None:
    whole = list(map(encode_line, told(run)))
    shutil.rmtree(run.cache)
    run.cache.write_text("in the way", "utf-8")
    events, mark = reading(run).events()
    assert list(map(encode_line, events)) == whole
    events, _ = reading(run).events(mark)
    assert list(events) == []
    with pytest.raises(StaleMarkError):
        reading(run).events("1:2")
    assert list(reading(run).job_phases().attempts) == [1, 6, 3, 3, 0, 1, 3, 3]
    run.cache.unlink()
    with pytest.raises(StaleMarkError):
        reading(run).events(mark)


def test_a_full_disk_does_not_prevent_reading(run: RunPaths) -> None:
    whole = list(map(encode_line, told(run)))
    shutil.rmtree(run.cache)
    (run.cache / "htcondor").mkdir(parents=True)
    for size in (0, 4096):
        with room_for(size):
            events, mark = reading(run).events()
            assert (list(map(encode_line, events)), mark) == (whole, f"unkept:{len(whole)}")
            assert list(reading(run).events(mark)[0]) == []
            assert list(reading(run).job_phases().attempts) == [1, 6, 3, 3, 0, 1, 3, 3]
    assert list(map(encode_line, told(run))) == whole
    assert read_state(run.cache / "htcondor").is_finished


@pytest.mark.parametrize("how", ["torn state", "lost events", "events nobody counted", "another log"])
def test_a_damaged_cache_is_rebuilt(run: RunPaths, how: str) -> None:
    (run.wms / "run.dag.dagman.log").unlink()
    whole = list(map(encode_line, told(run)))
    kept = run.cache / "htcondor"
    if how == "torn state":
        (kept / "state").write_bytes(b"\x81")
    elif how == "lost events":
        os.truncate(kept / "0001.jsonl", 100)
    elif how == "events nobody counted":
        with (kept / "0001.jsonl").open("ab") as file:
            file.write(b'{"e":"half')
    else:
        log = run.wms / "run.dag.nodes.log"
        log.write_bytes(log.read_bytes().replace(b"(002.", b"(902."))
        whole = [line.replace(b'"2.0', b'"902.0') for line in whole]
    assert list(map(encode_line, told(run))) == whole


def test_a_dagman_that_vanished(run: RunPaths) -> None:
    (run.wms / "run.dag.dagman.log").unlink()
    assert not any(isinstance(event, Finished) for event in told(run))
    events = told(run, gone=lambda: True)
    assert isinstance(events[-1], Finished)
    assert events[-1].state is JobState.DELETED


SUCCEEDED = """\
000 (00{cluster}.000.000) 2026-11-22 06:32:14 Submitted
    [ DAGNodeName = "{node}"; JobBatchName = "w" ]
...
001 (00{cluster}.000.000) 2026-11-22 06:32:15 Job executing on host: <127.0.0.1:1>
...
005 (00{cluster}.000.000) 2026-11-22 06:32:16 Job terminated.
\t(1) Normal termination (return value {exit})
...
"""
GATE = """
11/22/26 06:32:17 PRE Script of node g0 failed with status 127
11/22/26 06:32:18 ERROR: the following job(s) failed:
"""


def groups(run: RunPaths, *exits: int) -> list[str]:
    """A run of two groups behind each other, of a label each, of whose jobs the first ones ended; names of its jobs."""
    jobs = [job(name) for name in ("a0", "a1", "b0", "b1")]
    steps = (JobGroup(key=("1",), jobs=("a0", "a1")), JobGroup(key=("2",), jobs=("b0", "b1")))
    order = Ordering(name="o", dimensions=("visit",), groups=steps)
    workflow = Workflow("w", Dag.by_name(jobs, [("a0", "a1"), ("b0", "b1")]), orderings=(order,))
    write_atomically(run.workflow, b"".join(workflow_lines(workflow)))
    (run.wms / "run.dag.nodes.log").write_text(
        "".join(
            SUCCEEDED.format(cluster=number + 2, node=f"j{number}", exit=code) for number, code in enumerate(exits)
        ),
        "utf-8",
    )
    return [each.name for each in workflow]


@pytest.mark.parametrize("in_short", [True, False])
@pytest.mark.parametrize(
    ("exits", "said", "ends", "why"),
    [
        ((), "", "FAILED PRUNED DELETED PRUNED", "DAGMan ended with exit code 1"),
        (
            (),
            "\n11/22/26 06:32:17 ERROR: no\n",
            "FAILED PRUNED DELETED PRUNED",
            "DAGMan refuses to run the graph: ERROR: no",
        ),
        (
            (0, 0),
            GATE,
            "SUCCEEDED SUCCEEDED FAILED PRUNED",
            "DAGMan ended with exit code 1: PRE Script of node g0 failed with status 127",
        ),
        (
            (0,),
            "\n11/22/26 06:32:17 ERROR: one\n11/22/26 06:32:17 ERROR: two\n",
            "SUCCEEDED FAILED DELETED PRUNED",
            "DAGMan ended with exit code 1: ERROR: two",
        ),
        ((0, 1), "", "SUCCEEDED FAILED DELETED PRUNED", "no attempt left: numberOfRetries is 0: exit code 1"),
    ],
)
def test_an_error_of_dagman_is_no_cancel(
    run: RunPaths, exits: tuple[int, ...], said: str, ends: str, why: str, in_short: bool
) -> None:
    assert groups(run, *exits) == ["a0", "a1", "b0", "b1"]
    (run.wms / "run.dag.dagman.out").write_text(said, "utf-8")
    write_submissions(run, SubmissionRecord(submissions=(msgspec.structs.replace(handed(1), retries={}),)))
    events: list[BriefEvent] = list(reading(run).brief_events()[0] if in_short else reading(run).events()[0])
    assert shown(run, events) == ends
    assert [event.why for event in events if isinstance(event, Failed)] == [why]
    assert not any(isinstance(event, Steer) for event in events)
    assert isinstance(events[-1], Finished)
    assert in_short or events[-1].state is JobState.FAILED


def test_the_cache_is_not_locked_during_queries(run: RunPaths) -> None:
    (run.wms / "run.dag.dagman.log").unlink()
    asked: list[bool] = []

    def gone() -> bool:
        asked.append(is_locked(run.cache / "htcondor" / "lock"))
        return len(asked) > 1

    with lock_cache(run.cache / "htcondor"):
        pass
    assert not any(isinstance(event, Finished) for event in told(run, gone=gone))
    assert isinstance(told(run, gone=gone)[-1], Finished)
    assert isinstance(told(run, gone=gone)[-1], Finished)
    assert asked == [False, False], "of what is over nobody is asked"


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (Unreachable(why="nobody is there"), None),
        (DagmanEnd(at=1e12, is_removed=False, exit=0), None),
        (DagmanEnd(at=1000.0, is_removed=False, exit=1), JobState.FAILED),
        (None, JobState.DELETED),
    ],
)
def test_a_log_that_appears_late_is_waited_for(
    run: RunPaths, answer: DagmanEnd | Unreachable | None, state: JobState | None
) -> None:
    over = run.wms / "run.dag.dagman.log"
    text = over.read_text("utf-8")
    over.unlink()
    events = list(LogEventSource(run, read_submissions(run), lambda: True, lambda: answer).events()[0])
    assert [event.state for event in events if isinstance(event, Finished)] == [state] * (state is not None)
    over.write_text(text, "utf-8")
    if state is None:
        (end,) = [event for event in told(run) if isinstance(event, Finished)]
        assert (end.state, end.t) == (JobState.FAILED, 1795329245.0)


def test_hold_reasons_are_written_for_reports(run: RunPaths) -> None:
    (run.wms / "run.dag.dagman.log").unlink()
    log = run.wms / "run.dag.nodes.log"
    text = log.read_bytes()
    log.write_bytes(text[: text.index(b"013 (006.000.000)")])
    assert "HELD" in shown(run, told(run))
    assert read_waiting(run).reasons == {"held by HTCondor: me (by user user)": (6,)}


def test_interventions_are_ordered_among_events(run: RunPaths) -> None:
    book = read_submissions(run)
    steer = Steer(who="ada", act="cancel", t=1795329236.5)
    write_submissions(
        run, SubmissionRecord(submissions=book.submissions, interventions=(RecordedIntervention(steer=steer, life=1),))
    )
    events = told(run)
    place = next(number for number, event in enumerate(events) if isinstance(event, Steer) and event.act == "cancel")
    assert all(event.t <= 1795329236 for event in events[:place])
    assert isinstance(events[-1], Finished)
    assert events[-1].state is JobState.DELETED


def test_unconfirmed_interventions_are_no_events(run: RunPaths) -> None:
    book, whole = read_submissions(run), list(map(encode_line, told(run)))
    steer = Steer(who="ada", act="cancel", t=1795329236.5)
    write_submissions(
        run,
        msgspec.structs.replace(book, interventions=(RecordedIntervention(steer=steer, life=1, is_accepted=False),)),
    )
    shutil.rmtree(run.cache)
    assert list(map(encode_line, told(run))) == whole


def test_a_cancel_is_an_event_before_its_confirmation(run: RunPaths) -> None:
    (run.wms / "run.dag.dagman.log").unlink()
    book = read_submissions(run)
    order = RecordedIntervention(steer=Steer(who="ada", act="cancel", t=1795329245.5), life=1, is_accepted=False)
    write_submissions(run, msgspec.structs.replace(book, interventions=(order,)))
    log = run.wms / "run.dag.nodes.log"
    with log.open("a", encoding="utf-8") as file:
        file.write(
            '000 (090.000.000) 2026-11-22 06:34:05 Submitted\n    [ DAGNodeName = "j4" ]\n...\n'
            "009 (090.000.000) 2026-11-22 06:34:06 Job was aborted.\n\tDAG Removed: User removed it.\n...\n"
        )
    before = told(run)
    write_submissions(
        run, msgspec.structs.replace(book, interventions=(msgspec.structs.replace(order, is_accepted=True),))
    )
    for events in (before, told(run), told(run, gone=lambda: True)):
        assert [event.who for event in events if isinstance(event, Steer) and event.act == "cancel"] == ["ada"]


def test_the_cache_is_cleared_when_an_intervention_is_gone(run: RunPaths) -> None:
    (run.wms / "run.dag.dagman.log").unlink()
    book = read_submissions(run)
    steer = Steer(who="ada", act="cancel", t=1795329236.5)
    write_submissions(run, msgspec.structs.replace(book, interventions=(RecordedIntervention(steer=steer, life=1),)))
    assert any(isinstance(event, Steer) and event.who == "ada" for event in told(run))
    write_submissions(run, book)
    assert not any(isinstance(event, Steer) and event.who == "ada" for event in told(run))


def test_a_restart_starts_a_new_life(run: RunPaths) -> None:
    before = told(run)
    folder = backup_folder(run, 1)
    folder.mkdir(parents=True)
    for path in run.wms.glob("run.dag.*"):
        path.rename(folder / path.name)
    again = Restarted(jobs=(1, 7), who="ada", t=1795330000.0)
    write_submissions(run, SubmissionRecord(submissions=(handed(1), handed(40, restarted=again))))
    stamp = " 2026-11-22 07:00:00 "
    (run.wms / "run.dag.nodes.log").write_text(
        "".join(
            f"000 (0{cluster}.000.000){stamp}Job submitted\n    DAG Node: {node}\n...\n"
            f"001 (0{cluster}.000.000){stamp}Job executing on host: <10.0.0.1:9618?alias=n1>\n...\n"
            f"005 (0{cluster}.000.000){stamp}Job terminated.\n\t(1) Normal termination (return value 0)\n...\n"
            for cluster, node in ((41, "j1"), (42, "final"))
        ),
        "utf-8",
    )
    (run.wms / "run.dag.dagman.log").write_text(OVER.replace("(001.", "(040."), "utf-8")
    events = told(run)
    assert list(map(encode_line, events[: len(before)])) == list(map(encode_line, before))
    assert [event.life for event in events if isinstance(event, Life)] == [1, 2]
    shutil.rmtree(run.cache)
    assert list(map(encode_line, told(run))) == list(map(encode_line, events)), "both lives in one pass"
    kept = run.cache / "htcondor"
    assert read_state(kept).sizes == [(kept / f"000{life}.jsonl").stat().st_size for life in (1, 2)]
    assert shown(run, events) == ALL.replace("FAILED", "SUCCEEDED", 1)[: -len("FAILED")] + "SUCCEEDED"
    logs = CondorLogLocator(run, reading(run).job_phases())
    assert logs.attempts(1) == 7
    assert logs.path(1, "a1", "a", 7) == "logs/a/00/a1.41.1.log"
    assert logs.path(1, "a1", "a", 4) == "logs/a/00/a1.7.1.log"
    (run.root / "logs" / "a" / "00").mkdir(parents=True)
    (run.root / "logs" / "a" / "00" / "a1.41.log").touch()
    assert CondorLogLocator(run, reading(run).job_phases()).path(1, "a1", "a", 7) == "logs/a/00/a1.41.log"


def test_status_lines_of_dagman(run: RunPaths) -> None:
    book = read_submissions(run)
    first, second = status_lines.lines(run, book, None, None, lambda: JobPhases(1))
    assert first == "DAGMan: job 1.0 of the schedd 'ap', submitted 2026-11-22T06:32:13Z by submit"
    assert second.startswith("Its log was last written ")
    held = status_lines.lines(run, book, [{"JobStatus": 5, "HoldReason": "quota"}], None, lambda: JobPhases(1))
    assert list(held)[-1] == "DAGMan itself is held: quota; to release it: longshore resume 1.0"
    out = run.wms / "run.dag.dagman.out"
    given_up = "11/22/26 07:00:01 Shortcutting node j2 retries because of submit failure(s)\n"
    out.write_text("\n11/22/26 07:00:00 submit error: No such directory: /x\n" + given_up, "utf-8")
    (said,) = list(status_lines.lines(run, book, [], None, lambda: JobPhases(1)))[2:]
    assert said.startswith("For job 'a2': DAGMan could not submit it: submit error: No such directory: /x; ")
    out.write_text(out.read_text("utf-8") + given_up.replace("j2", "j4"), "utf-8")
    assert "For 2 jobs, 'a2' among them: " in list(status_lines.lines(run, book, [], None, lambda: JobPhases(1)))[2]
    assert len(list(status_lines.lines(run, book, None, None, lambda: JobPhases(1)))) == 2, (
        "a run that is over tells it job by job"
    )
    (run.wms / "run.dag.nodes.log").unlink()
    assert "does not exist yet" in list(status_lines.lines(run, book, [], None, lambda: JobPhases(1)))[1]


def test_a_finished_run_has_brief_events(run: RunPaths) -> None:
    first = reading(run)
    news, mark = first.brief_events()
    assert first.brief_phases() is None, "nothing was read yet"
    in_short = list(news)
    assert not (run.cache / "htcondor").exists(), "it is read once"
    assert shown(run, in_short) == shown(run, told(run)) == ALL
    standing = first.brief_phases()
    assert standing is not None
    assert list(standing.attempts) == list(reading(run).job_phases().attempts)
    assert any(isinstance(event, AttemptSucceeded) for event in in_short)
    again, same = reading(run).brief_events(mark)
    assert (list(again), same) == ([], mark)
    with (run.wms / "run.dag.nodes.log").open("a", encoding="utf-8") as file:
        file.write("028 (002.000.000) 2026-11-22 06:34:05 Job ad information event triggered.\n...\n")
    with pytest.raises(StaleMarkError):
        reading(run).brief_events(mark)


def test_live_and_cached_runs_have_full_events(run: RunPaths) -> None:
    over = run.wms / "run.dag.dagman.log"
    over.rename(over.with_name("over"))
    news, mark = reading(run).brief_events()
    assert list(map(encode_line, news)) == list(map(encode_line, told(run)))
    over.with_name("over").rename(over)
    (end,) = [event for event in reading(run).brief_events(mark)[0] if isinstance(event, Finished)]
    assert end.state is JobState.FAILED
    assert len(list(reading(run).brief_events()[0])) == len(told(run))


def test_brief_events_contain_interventions_and_earlier_submissions(run: RunPaths) -> None:
    book = read_submissions(run)
    steer = Steer(who="ada", act="cancel", t=1795329236.5)
    write_submissions(
        run, SubmissionRecord(submissions=book.submissions, interventions=(RecordedIntervention(steer=steer, life=1),))
    )
    in_short = list(reading(run).brief_events()[0])
    assert not any(isinstance(event, AttemptSucceeded) for event in in_short)
    assert shown(run, in_short) == shown(run, told(run))


def test_a_run_without_submission_has_no_events(run: RunPaths) -> None:
    write_submissions(run, SubmissionRecord())
    assert list(reading(run).brief_events()[0]) == []


def test_log_paths_follow_from_brief_events(run: RunPaths) -> None:
    service = HTCondorService()
    answer = service.brief_events(run)
    assert not isinstance(answer, Unreachable)
    assert list(answer[0])
    places = service.log_locator(run)
    assert places is not None
    assert [places.attempts(job) for job in range(8)] == list(reading(run).job_phases().attempts)
    assert places.path(0, "a0", "a", 1) == CondorLogLocator(run, reading(run).job_phases()).path(0, "a0", "a", 1)


def test_the_log_locator_checks_few_files(run: RunPaths) -> None:
    standing = JobPhases(100)
    for job in range(100):
        standing.add_cluster(job, job + 2)
        standing.attempts[job] = 1
    logs = CondorLogLocator(run, standing)
    for job in range(50):
        assert logs.path(job, f"a{job}", "a", 1) == f"logs/a/00/a{job}.{job + 2}.1.log"
    folder = run.root / "logs" / "a" / "00"
    folder.mkdir(parents=True)
    (folder / "a50.52.log").touch()
    assert logs.path(50, "a50", "a", 1) == "logs/a/00/a50.52.1.log"
    assert CondorLogLocator(run, standing).path(50, "a50", "a", 1) == "logs/a/00/a50.52.log"
