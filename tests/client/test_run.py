"""Runs as Python objects: submitted, watched, explained, steered; errors are those of the command line."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from tests.client.text_printer import TextPrinter

import longshore
from longshore.client.tables import make_table
from longshore.errors import LongshoreError, RunNotFoundError, RunPausedError, SubmissionRefusedError
from longshore.model.event import Event, Finished, Steer
from longshore.model.values import YamlValue

THREE = """\
payloadName: three
pipeline:
  dimensions: {visit: [1, 2]}
  tasks:
    good: {dimensions: [visit], command: "echo visit {visit} is fine"}
    bad: {command: "echo no data; test -e mend"}
numberOfRetries: 0
requestMemory: 64
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "three.yaml").write_text(THREE, "utf-8")
    return tmp_path


def test_a_run_is_submitted_watched_and_restarted(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given: dict[str, YamlValue] = {
        "payloadName": "yes",
        "requestMemory": "128 MiB",
        "attrs": {"large": 1e16, "none": None},
    }
    run = longshore.submit("three.yaml", set=given)
    assert run.wait(progress=True, timeout=120) is longshore.JobState.FAILED
    assert f"{run.id}: 2/3 succeeded, 1 failed" in capfd.readouterr().err
    assert "_yes_" in run.name, "a word stays a word"
    jobs = run.jobs()
    assert repr(jobs) == "<3 jobs: 2 SUCCEEDED, 1 FAILED>"
    assert [(job.name, dict(job.tags), job.request_memory_b) for job in jobs[:2]] == [
        ("good_1", {"visit": 1}, 128 << 20),
        ("good_2", {"visit": 2}, 128 << 20),
    ]
    assert jobs[2].exit_code == 1
    assert jobs[2].finished_at is not None
    assert run.logs("bad") == "no data\n"
    explained = run.explain("bad")
    assert explained.state is longshore.JobState.FAILED
    assert str(explained).startswith(
        f"bad (number 2, label bad) of run {run.id} is FAILED.\n  {explained.reasons[0]}\n"
    )
    assert run.show_job("bad").line in str(run.show_job("bad"))
    assert run.report().summary is not None
    printer = TextPrinter()
    run.explain("bad")._repr_pretty_(printer, False)
    run.report()._repr_pretty_(printer, False)
    assert printer.texts == [
        str(run.explain("bad")),
        f"<RunReport {run.id} {run.name} FAILED: 3 jobs>",
    ]
    lines = str(run.report()).splitlines()
    assert lines[0] == f"{run.id}  {run.name}  FAILED on local"
    assert re.fullmatch(r"  3 jobs, succeeded 2/3, failed 1/3, wall time \S+ s", lines[1])
    assert lines[2:] == [
        "  good: 2 succeeded",
        "  bad: 1 failed",
        f"Failed: bad (exit code 1): no data; log: {run.path}/logs/bad/00/bad.1.log",
    ]
    assert re.fullmatch(r"bad FAILED, exit code 1, attempt 1 on \S+, \d+\.\d s", str(jobs[2]))
    assert re.fullmatch(r"good_1 SUCCEEDED, attempt 1 on \S+, \d+\.\d s", str(jobs[0]))
    assert repr(run.events()) == f"<Events of run {run.id}>"
    assert run.counts[longshore.JobState.FAILED] == 1
    (folder / "mend").touch()
    again = longshore.open("@last")
    again.restart(set={"requestMemory": 200, "numberOfRetries": 1})
    assert again.wait(timeout=120) is longshore.JobState.SUCCEEDED
    assert [job.request_memory_b for job in again.jobs()] == [128 << 20, 128 << 20, 200 << 20], "of the newest attempt"
    assert repr(again) == f"<Run {run.id} {run.name} SUCCEEDED>"
    assert [report.id for report in longshore.runs(filters=["state=SUCCEEDED"])] == [run.id]


def test_events_come_one_by_one_and_without_blocking(folder: Path) -> None:
    run = longshore.submit("three.yaml")

    async def follow() -> list[tuple[str, Event]]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        found = [item async for item in run.events(follow=True)]
        ticking.cancel()
        assert ticks > 10, "other tasks ran meanwhile"
        return found

    found = asyncio.run(follow())
    assert isinstance(found[-1][1], Finished)
    assert list(run.events()) == found
    assert [mark for mark, _ in run.events(since=found[3][0])] == [mark for mark, _ in found[4:]]


def test_a_live_run_is_steered(folder: Path) -> None:
    (folder / "slow.yaml").write_text(THREE.replace("test -e mend", "until test -e go; do sleep 0.05; done"), "utf-8")
    run = longshore.submit("slow.yaml")
    with pytest.raises(TimeoutError, match="it goes on"):
        run.wait(timeout=0.0)
    assert run.pause("the archive is down").paused
    with pytest.raises(RunPausedError, match=rf"run '{run.id}' is PAUSED: .*the archive is down.* unpause {run.id}"):
        run.wait(timeout=120)
    assert not run.unpause().paused
    with pytest.raises(TimeoutError):
        run.wait(timeout=0.5)
    run.throttle(3)
    run.throttle(None)
    limits = [event.set for _, event in run.events() if isinstance(event, Steer) and event.act == "throttle"]
    assert limits == [{"max": "3"}, {}], "the second lifts the first"
    with pytest.raises(SubmissionRefusedError):
        run.restart()
    assert run.cancel(wait=60).state is longshore.JobState.DELETED
    assert run.state is longshore.JobState.DELETED


def test_a_cell_of_a_notebook_shows_the_run(folder: Path) -> None:
    run = longshore.submit("three.yaml", set={"payloadName": "<script>alert(1)</script>"})
    run.wait(timeout=120)
    cell = run._repr_html_()
    assert cell.startswith('<iframe title="Run" sandbox="allow-scripts"')
    page = unescape(cell.partition('srcdoc="')[2].removesuffix('"></iframe>'))
    assert "no data" in page
    assert "Timeline" in page
    assert "alert(1)</script>" not in page, "foreign text stays text"
    assert cell.count("<") == 2, "the page is one attribute"


def test_jobs_become_a_table_where_pandas_is(folder: Path) -> None:
    pandas = pytest.importorskip("pandas")
    run = longshore.submit("three.yaml")
    run.wait(timeout=120)
    table = run.jobs().to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table["tag.visit"][:2]) == [1, 2]


def test_errors_are_those_of_the_command_line(folder: Path) -> None:
    (folder / "wrong.yaml").write_text(f"{THREE}requestMemry: 5\n", "utf-8")
    with pytest.raises(LongshoreError, match="requestMemry"):
        longshore.submit("wrong.yaml", strict=True)
    with pytest.raises(RunNotFoundError):
        longshore.open("b0nothing")
    assert issubclass(RunNotFoundError, longshore.LongshoreError)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        longshore.nothing  # noqa: B018 - looked up


def test_the_import_costs_nothing() -> None:
    code = "import sys, longshore; print([each for each in sys.modules if each[:10] == 'longshore.'], dir(longshore))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("[] [")
    assert "'submit'" in ran.stdout


def test_a_table_without_pandas_is_an_error_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(longshore.LongshoreError, match="'pandas'") as caught:
        make_table([])
    assert caught.value.hint == "pip install pandas"
