"""What attempts left beside the targets of their outputs: reading removes nothing, the end of a run removes all."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.contract.service import Context, RunPaths, Site
from longshore.engine import settings as engine_settings
from longshore.engine.run.loop import Engine
from longshore.engine.run_settings import read_settings
from longshore.engine.staging import StagedEnds
from longshore.model.event import Ended
from longshore.model.states import Cause, JobState
from longshore.model.tasks import Dag, File
from longshore.model.workflow import Job, JobRules, JobSettings, StagingRules, Workflow
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_card
from longshore.testing.fakes import AttemptOutcome, FakeClock, FakeExecutor, FakeManager
from longshore.testing.runs import new_identity, write_run_directory

SETTINGS = JobSettings(label="a", rules=JobRules(staging=StagingRules()))


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run of two jobs, each with an output in a folder of its own."""
    files = {name: File(name=name, path=str(tmp_path / f"made by {name}" / "out")) for name in ("a", "b")}
    jobs = [Job(name=name, label="a", command="touch out", settings=SETTINGS, outputs=(name,)) for name in files]
    workflow = Workflow("w", Dag.by_name(jobs), files=files)
    ctx = Context(settings={}, site=Site(name="fake"), paths=RunPaths(tmp_path / "run"), templates={})
    identity = new_identity(workflow, run_id="fake1", service="fake")
    for file in files.values():
        Path(file.path).parent.mkdir()
    return write_run_directory(tmp_path / "run", workflow, identity, [engine_settings.render_settings(ctx)])


def leave(run: RunPaths, job: int, attempt: int, *, token: str = "") -> Path:
    """Make the temporary directory of an attempt with half of its output."""
    name = f".longshore-stage.{token or read_card(run).run_token}.{job}.{attempt}.77"
    left = run.root.parent / f"made by {'ab'[job]}" / name
    left.mkdir(exist_ok=True)
    (left / "out").write_text("half", "utf-8")
    return left


def test_the_end_of_an_attempt_that_was_killed_is_read_without_a_change(run: RunPaths) -> None:
    left = leave(run, 0, 1)
    staged = StagedEnds(run, JobTable(run))
    end = Ended(j=0, a=1, signal=9, cause=Cause.SIGNAL)
    assert staged.complete(end) == end
    assert staged.is_cut_off(end)
    assert (left / "out").exists()


def test_only_what_the_attempt_left_is_removed(run: RunPaths) -> None:
    kept = [leave(run, 0, 2), leave(run, 1, 1), leave(run, 0, 1, token="other-run")]
    gone = leave(run, 0, 1)
    # An engine died while it removed this one.
    gone.rename(f"{gone}.old")
    leave(run, 0, 1)
    StagedEnds(run, JobTable(run)).clean_up((0,), 1)
    assert sorted(run.root.parent.glob("made by */*")) == sorted(kept)


def test_lost_attempts_leave_nothing_behind_at_the_end_of_a_run(run: RunPaths) -> None:
    other = leave(run, 0, 1, token="other-run")
    seen: list[int] = []

    def outcome(job: int, attempt: int) -> AttemptOutcome:
        # The first job is lost beyond its budget. The second writes elsewhere when it runs again.
        seen.append(len(list(run.root.parent.glob("made by */.longshore-stage*"))))
        if job == 0 or attempt == 1:
            leave(run, job, attempt)
        return AttemptOutcome(lost=job == 0 or attempt == 1)

    clock = FakeClock()
    manager = FakeManager(clock, outcome)
    engine = Engine(
        run, FakeExecutor(manager), read_settings(run), clock=clock, by="submit", log_line=lambda _line: None
    )
    assert engine.run() is JobState.FAILED
    assert max(seen) > 2, "what is lost may still run: it stays while the run lasts"
    assert list(run.root.parent.glob("made by */.longshore-stage*")) == [other]
