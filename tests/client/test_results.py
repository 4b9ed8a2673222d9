"""What Python gets of a run prints as the commands do and becomes tables; a restart warns of changed files."""

from __future__ import annotations

import csv
import io
import os
import signal
import warnings
from pathlib import Path

import pytest
from tests.client.text_printer import TextPrinter
from tests.command import Cli
from tests.waiting import engine_of, eventually

import longshore
from longshore.errors import FilesError, RunNotFoundError, SubmissionRefusedError, UsageError

TWO = """\
payloadName: two
pipeline:
  dimensions: {visit: [1, 2]}
  tasks:
    good: {dimensions: [visit], command: "echo {visit}"}
    bad: {command: "echo no data; test -e mend"}
numberOfRetries: 0
requestMemory: 64
"""


def shown(record: object) -> str:
    """Return what a notebook shows of a record."""
    printer = TextPrinter()
    record._repr_pretty_(printer, False)  # type: ignore[attr-defined]
    return printer.texts[-1]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> longshore.Run:
    """A run of three jobs, one of which failed; it is prepared first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "two.yaml").write_text(TWO, "utf-8")
    prepared = longshore.prepare("two.yaml", set={"payloadName": "other"})
    assert dict(prepared.jobs) == {"good": 2, "bad": 1}
    assert str(prepared).splitlines()[-3:] == ["  good: 2", "  bad: 1", f"Submit dir: {prepared.path}"]
    assert shown(prepared) == str(prepared)
    assert "other" in str(prepared.path)
    made = longshore.submit(prepared.path)
    assert made.path == prepared.path
    assert made.wait(timeout=120) is longshore.JobState.FAILED
    return made


def test_records_print_as_the_commands_do(run: longshore.Run, cli: Cli) -> None:
    wide = {"COLUMNS": "100"}
    for record, words in (
        (run.explain("bad"), ("explain", run.id, "bad")),
        (run.show_job("bad"), ("show-job", run.id, "bad")),
        (run.stats(), ("stats", run.id)),
        (run.stats(labels="good"), ("stats", run.id, "--label", "good")),
        (run.suggest_resources(margin=1.5), ("suggest-resources", run.id, "--margin", "1.5")),
    ):
        assert cli(*words, env=wide).stdout.rstrip("\n") == str(record).rstrip("\n")
        assert shown(record) == str(record)
    statistics = run.stats()
    assert repr(statistics) == f"<Statistics of run {run.id}: jobs 3, attempts 3>"
    assert (statistics.total.badput.attempts, statistics.labels["good"].succeeded) == (1, 2)
    assert set(statistics.requests) == set(statistics.labels)
    assert sum(each.attempts for each in statistics.hosts.values()) == 3
    for ask in (run.stats, run.suggest_resources):
        with pytest.raises(RunNotFoundError, match="gods"):
            ask(labels=["gods"])
    with pytest.raises(ValueError, match="margin is 0"):
        run.suggest_resources(margin=0)


def test_suggested_requests_are_saved_and_submitted(run: longshore.Run, tmp_path: Path) -> None:
    suggested = run.suggest_resources()
    assert {each.label for each in suggested.suggestions} == {"good", "bad"}
    assert suggested.savings
    assert repr(suggested).startswith("<SuggestedRequests: labels 2, to change ")
    path = suggested.save(tmp_path / "tuned.yaml", over="two.yaml")
    assert longshore.prepare(path).jobs == {"good": 2, "bad": 1}
    with pytest.raises(FilesError, match="exists already"):
        suggested.save(path)


def test_a_run_is_exported(run: longshore.Run, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run.export("csv").decode())))
    assert len(rows) == 3
    assert run.export("wfformat", "trace.json") == Path("trace.json")
    assert (tmp_path / "trace.json").read_text("utf-8").startswith("{")
    assert "no data" in run.write_html("run.html").read_text("utf-8")
    for form in ("ro-crate", "xml"):
        with pytest.raises(UsageError):
            run.export(form)


def test_results_become_tables_where_pandas_is(run: longshore.Run) -> None:
    pytest.importorskip("pandas")
    table = run.stats().to_pandas()
    assert list(table[table["group"] == "label"]["key"]) == ["good", "bad"]
    assert set(run.suggest_resources().to_pandas()["label"]) <= {"good", "bad"}


def test_a_restart_warns_of_changes_that_it_does_not_take(run: longshore.Run, tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO.replace("test -e mend", "test -e other"), "utf-8")
    with pytest.warns(UserWarning, match=r"has changed, and it runs as it was: .*bad.* with_changes=True") as found:
        run.restart()
    assert found[0].filename == __file__
    assert run.wait(timeout=120) is longshore.JobState.FAILED
    (tmp_path / "other").touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.restart(with_changes=False)
        assert run.wait(timeout=120) is longshore.JobState.FAILED
        run.restart(with_changes=True)
    assert any("bad" in note for note in run.notes)
    assert run.wait(timeout=120) is longshore.JobState.SUCCEEDED


def resume(run: longshore.Run) -> bool | None:
    """Resume a run; ``None`` while its engine is not gone."""
    try:
        return run.resume()
    except SubmissionRefusedError:
        return None


def test_a_run_whose_engine_died_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = "until test -e go; do sleep 0.05; done"
    (tmp_path / "slow.yaml").write_text(f"pipeline: {{tasks: {{slow: {{command: '{command}'}}}}}}\n", "utf-8")
    run = longshore.submit("slow.yaml", set={"payloadName": "slow"})
    eventually(lambda: run.counts.get(longshore.JobState.RUNNING))
    os.kill(engine_of(run.path), signal.SIGKILL)
    eventually(lambda: resume(run))
    (tmp_path / "go").touch()
    assert run.wait(timeout=120) is longshore.JobState.SUCCEEDED
    eventually(lambda: resume(run) is False)
    assert run.notes[-1].startswith("nothing to resume")
