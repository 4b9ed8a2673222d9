"""`clean` finds what lost attempts of staged jobs left beside their outputs, if their engine was killed too early."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from longshore.contract.service import Context, RunPaths, Site
from longshore.control.clean import CleanRequest, RemovableKind, clean, plan_clean
from longshore.engine import settings as engine_settings
from longshore.engine.run.loop import Engine
from longshore.engine.run_settings import read_settings
from longshore.model.states import JobState
from longshore.model.submission import Submission
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Job, JobRules, JobSettings, StagingRules, Workflow
from longshore.rundir.run_directory import read_card, write_card
from longshore.testing.fakes import AttemptOutcome, FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import new_identity, write_run_directory

AFTER = 4e9
SETTINGS = JobSettings(label="a", rules=JobRules(staging=StagingRules()))


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run that is over, of a staged job and another one; a folder has the outputs of both."""
    made = tmp_path / "made"
    made.mkdir()
    files = {name: File(name=name, path=str(made / name)) for name in ("a", "b")}
    plain = JobSettings(label="b")
    jobs = [
        Job(name=name, label=settings.label, command="true", settings=settings, outputs=(name,))
        for name, settings in (("a", SETTINGS), ("b", plain))
    ]
    workflow = Workflow("w", Dag.by_name(jobs), files=files)
    ctx = Context(settings={}, site=Site(name="fake"), paths=RunPaths(tmp_path / "run"), templates={})
    identity = new_identity(workflow, run_id="fake1", service="slurm")
    paths = write_run_directory(tmp_path / "run", workflow, identity, [engine_settings.render_settings(ctx)])
    submission = Submission(id="fake1", by="submit", at=0.0, user="u", host="h")
    write_card(paths, msgspec.structs.replace(read_card(paths), submissions=(submission,)))
    clock = FakeClock()
    manager = FakeManager(clock, lambda _job, _attempt: AttemptOutcome())
    engine = Engine(
        paths, FakeExecutor(manager), read_settings(paths), clock=clock, by="submit", log_line=lambda _line: None
    )
    assert engine.run() is JobState.SUCCEEDED
    return paths


def leave(run: RunPaths, job: int, *, token: str = "") -> Path:
    """Make the temporary directory of an attempt with half of its output."""
    left = run.root.parent / "made" / f".longshore-stage.{token or read_card(run).run_token}.{job}.1.77"
    left.mkdir()
    (left / "out").write_text("half", "utf-8")
    return left


def test_what_lost_attempts_left_is_shown_and_removed(run: RunPaths) -> None:
    gone, kept = leave(run, 0), [leave(run, 0, token="other-run"), leave(run, 1)]
    plan = plan_clean(CleanRequest(references=[str(run.root)], kinds=[RemovableKind.TEMPORARY]), now=AFTER)
    assert ([(file.path, file.size_b) for file in plan.files], plan.skipped) == ([(gone, 4)], ())
    assert gone.exists()
    result = clean(plan, now=AFTER)
    assert [file.path for file in result.removed] == [gone]
    assert sorted(gone.parent.iterdir()) == sorted(kept)


def test_another_kind_leaves_it(run: RunPaths) -> None:
    leave(run, 0)
    plan = plan_clean(CleanRequest(references=[str(run.root)], kinds=[RemovableKind.CACHES]), now=AFTER)
    assert (plan.files, plan.skipped) == ((), ())
