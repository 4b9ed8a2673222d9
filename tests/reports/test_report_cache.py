"""The report of a run without further changes is cached until any input changes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.written_run import NOW, WrittenRun, course

from longshore.contract.capabilities import BriefEvents
from longshore.contract.service import Mark, RunPaths, Unreachable
from longshore.model.event import BriefEvent, Event, Finished, Restarted
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.reports.report import report_run
from longshore.rundir.run_directory import read_cached, write_cached
from longshore.runstate.open_run import OpenRun
from longshore.services.local.service import LocalService


@pytest.fixture
def dead(tmp_path: Path) -> WrittenRun:
    """A run that is over, and whose engine is gone; one of its jobs left a log."""
    made = WrittenRun(tmp_path / "run")
    made.begin()
    tell(made, course())
    made.snapshot()
    log = made.run.root / made.opened.log_of(2, "j2", "a", 1)
    log.parent.mkdir(parents=True)
    log.write_text("cannot find the tape\n", "utf-8")
    return made


def tell(run: WrittenRun, events: list[Event]) -> None:
    for event in events:
        run.write(event)
        run.know(event)


def look(run: WrittenRun) -> RunReport:
    return report_run(run.opened, details=False, now=NOW + 100)


def anew(run: WrittenRun) -> RunReport:
    kept(run).unlink(missing_ok=True)
    return look(run)


def kept(run: WrittenRun) -> Path:
    return run.run.cache / "report.json"


def mark(run: WrittenRun) -> None:
    """Change what was kept so that whoever tells it can be known."""
    text = read_cached(run.run, "report.json")
    assert b"cannot find the tape" in text
    write_cached(run.run, "report.json", text.replace(b"cannot find the tape", b"found it"))


def is_kept(report: RunReport) -> bool:
    assert report.summary
    return any("found it" in line for failure in report.summary.failures for line in failure.tail)


def test_a_cached_report_is_returned_again(dead: WrittenRun) -> None:
    first = look(dead)
    assert first.state is JobState.FAILED
    assert look(dead) == first == anew(dead)
    mark(dead)
    assert is_kept(look(dead))
    assert not is_kept(anew(dead))


def test_the_report_of_a_run_whose_engine_died_is_cached(tmp_path: Path) -> None:
    run = WrittenRun(tmp_path / "run")
    run.begin()
    tell(run, course()[:3])
    run.snapshot()
    first = look(run)
    assert (first.state, first.counts[JobState.UNKNOWN]) == (JobState.UNKNOWN, 1)
    assert kept(run).exists()
    assert look(run) == first
    tell(run, course()[3:4])
    assert look(run).counts[JobState.SUCCEEDED] == 1


def began_again(run: WrittenRun) -> None:
    run.begin(seals=run.journal.stat().st_size)


def went_on(run: WrittenRun) -> None:
    run.write(Restarted(jobs=(2,), n=run.n + 1, t=NOW))


def lost_its_end(run: WrittenRun) -> None:
    run.journal.write_bytes(run.journal.read_bytes()[:-9])


def wrote_to_a_log(run: WrittenRun) -> None:
    with (run.run.root / run.opened.log_of(2, "j2", "a", 1)).open("a", encoding="utf-8") as file:
        file.write("and it was late\n")


def lost_a_log(run: WrittenRun) -> None:
    (run.run.root / run.opened.log_of(2, "j2", "a", 1)).unlink()


def took_another_snapshot(run: WrittenRun) -> None:
    run.n += 1
    run.snapshot()


def was_handed_over_again(run: WrittenRun) -> None:
    run.opened = OpenRun(run=run.run, card=msgspec.structs.replace(run.opened.card, name="another"))


def tore_it(run: WrittenRun) -> None:
    kept(run).write_bytes(kept(run).read_bytes()[:-9])


def is_of_another_version(run: WrittenRun) -> None:
    text = read_cached(run.run, "report.json")
    write_cached(run.run, "report.json", re.sub(rb'"format":\d+,', b'"format":1,', text, count=1))


@pytest.mark.parametrize(
    "happens",
    [
        began_again,
        went_on,
        lost_its_end,
        wrote_to_a_log,
        lost_a_log,
        took_another_snapshot,
        was_handed_over_again,
        tore_it,
        is_of_another_version,
    ],
)
def test_any_changed_input_invalidates_the_cache(dead: WrittenRun, happens: Callable[[WrittenRun], None]) -> None:
    look(dead)
    mark(dead)
    happens(dead)
    report = look(dead)
    assert not is_kept(report)
    assert report == anew(dead)


def test_the_cache_moves_with_its_run(dead: WrittenRun, tmp_path: Path) -> None:
    look(dead)
    mark(dead)
    dead.run.root.rename(tmp_path / "moved")
    moved = type(dead.run)(tmp_path / "moved")
    report = report_run(OpenRun(run=moved, card=dead.opened.card), details=False, now=NOW)
    assert not is_kept(report)
    assert report.path == str(moved.root)


def test_reports_of_single_jobs_are_not_cached(dead: WrittenRun) -> None:
    look(dead)
    mark(dead)
    assert report_run(dead.opened, details=True, now=NOW).jobs is not None
    assert is_kept(look(dead))


class BriefService(LocalService, BriefEvents):
    """A service that reads the journal, and says that it has a shorter form of it."""

    def brief_events(
        self, run: RunPaths, mark: Mark = "", *, with_attempts: bool = False
    ) -> tuple[Iterator[BriefEvent], Mark] | Unreachable:
        return self.events(run, mark)


def test_reports_of_single_jobs_are_cached_where_events_have_a_shorter_form(dead: WrittenRun) -> None:
    def details() -> RunReport:
        opened = OpenRun(run=dead.run, card=dead.opened.card)
        opened.__dict__["service"] = BriefService()
        return report_run(opened, details=True, now=NOW + 100)

    first = details()
    again = details()
    assert first.jobs is not None
    assert again.jobs is not None
    assert list(again.jobs) == list(first.jobs) == [again.jobs[job] for job in range(len(again.jobs))]
    assert again.jobs[:2] == list(first.jobs)[:2]
    assert msgspec.structs.replace(again, jobs=None) == msgspec.structs.replace(first, jobs=None)
    write_cached(dead.run, "details.json", read_cached(dead.run, "details.json").replace(b'"here"', b'"there"'))
    assert {job.host for job in details().jobs or () if job.host} == {"there"}
    assert look(dead).jobs is None
    dead.write(Restarted(n=dead.n + 1, t=NOW + 99, jobs=(2,)))
    assert {job.host for job in details().jobs or () if job.host} == {"here"}, "there is news"


def test_columns_that_differ_in_length_are_no_cached_report(dead: WrittenRun) -> None:
    opened = OpenRun(run=dead.run, card=dead.opened.card)
    opened.__dict__["service"] = BriefService()
    first = report_run(opened, details=True, now=NOW + 100)
    text = read_cached(dead.run, "details.json")
    write_cached(dead.run, "details.json", re.sub(rb'"name":\["j0",', b'"name":[', text))
    again = report_run(opened, details=True, now=NOW + 100)
    assert list(again.jobs or ()) == list(first.jobs or ()) != []


def test_without_write_permission_nothing_is_cached(dead: WrittenRun) -> None:
    dead.run.cache.write_text("in the way", "utf-8")
    assert look(dead) == look(dead)
    dead.run.cache.unlink()
    assert look(dead).state is JobState.FAILED


def test_the_report_of_a_finished_run_is_cached(dead: WrittenRun) -> None:
    assert isinstance(course()[-1], Finished)
    assert look(dead).finished_at == NOW + len(course())


def test_a_report_without_summary_is_not_cached(dead: WrittenRun) -> None:
    for path in dead.run.root.glob("status*"):
        path.unlink()
    brief = report_run(dead.opened, details=False, summary=False, now=NOW + 100)
    assert brief.summary is None
    assert not kept(dead).exists()
    whole = look(dead)
    assert whole.summary is not None
    assert msgspec.structs.replace(whole, summary=None, specifics=()) == brief
