"""A run is handed over, or nothing is left of it; and what went wrong afterwards does not undo it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.progress_notes import ProgressNotes

from longshore.config.layers import Overrides
from longshore.contract.service import RunPaths
from longshore.errors import FilesError, SubmissionRefusedError
from longshore.model.submission import Submission, SubmissionChecks
from longshore.plan.submission import submit
from longshore.plan.submit_once import SubmittedRun
from longshore.rundir.find_run import find_run
from longshore.rundir.registry import read_entries
from longshore.services.local.service import LocalService

STRICT = SubmissionChecks(strict=True)


class Accepting(LocalService):
    """Takes every run, and starts nothing."""

    name: ClassVar[str] = "local"

    def submit(self, run: RunPaths) -> Submission:
        """Say yes."""
        return Submission(id=json.loads(run.card.read_bytes())["id"], by="submit", at=1.0, user="me", host="here")


class Refusing(Accepting):
    """Takes no run."""

    def submit(self, run: RunPaths) -> Submission:
        """Say no."""
        raise SubmissionRefusedError(f"'{run.root}' is not wanted")


class Interrupted(Accepting):
    """Is interrupted by its user."""

    def submit(self, run: RunPaths) -> Submission:
        """Be interrupted."""
        raise KeyboardInterrupt


class Clogging(Accepting):
    """Takes a run, whose directory then takes nothing any more."""

    def submit(self, run: RunPaths) -> Submission:
        """Put something in the way of the new ``run.json``."""
        submission = super().submit(run)
        run.card.unlink()
        run.card.mkdir()
        return submission


@pytest.fixture
def told() -> ProgressNotes:
    return ProgressNotes()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    task = {"name": "A", "id": "a"}
    graph = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [task]}}}
    Path("graph.json").write_text(json.dumps(graph), "utf-8")
    Path("run.yaml").write_text("wfformat: graph.json\nrunQuantumCommand: 'true'\n", "utf-8")
    return Path("run.yaml")


def submitted(path: Path, told: ProgressNotes, service: type, **options: Any) -> SubmittedRun:
    named: Mapping[str, str] = {"wmsServiceClass": f"{service.__module__}.{service.__qualname__}", **options}
    return submit(path, Overrides(named), progress=told)


def test_a_run_that_was_taken(path: Path, told: ProgressNotes) -> None:
    done = submitted(path, told, Accepting)
    assert done.reference == done.card.id
    assert find_run(done.reference) == done.run
    assert [each.user for each in done.card.submissions] == ["me"]
    assert not told.notes


def test_two_runs_of_one_moment(path: Path, told: ProgressNotes) -> None:
    first, second = submitted(path, told, Accepting), submitted(path, told, Accepting)
    assert first.card.id < second.card.id
    assert first.run.root.name < second.run.root.name


def test_a_run_that_was_refused(path: Path, told: ProgressNotes, tmp_path: Path) -> None:
    with pytest.raises(SubmissionRefusedError):
        submitted(path, told, Refusing, submitPath="run")
    assert not (tmp_path / "run").exists()
    assert not list(read_entries())


def test_an_interrupt_while_a_run_is_handed_over(path: Path, told: ProgressNotes, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as interrupt:
        submitted(path, told, Interrupted, submitPath="run")
    assert (tmp_path / "run" / "run.json").exists(), "it may run already"
    (entry,) = read_entries()
    assert str(interrupt.value) == (f"during the submission; the run may go on. To end it: longshore cancel {entry.id}")


@pytest.mark.parametrize("stage", ["writing", "submitting"])
def test_an_interrupt_before_a_run_is_handed_over_leaves_nothing(path: Path, tmp_path: Path, stage: str) -> None:
    class InterruptedNotes(ProgressNotes):
        def stage(self, what: str) -> None:
            if what.startswith(stage):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^nothing was submitted$"):
        submitted(path, InterruptedNotes(), Accepting, submitPath="run")
    assert not (tmp_path / "run").exists()
    assert not list(read_entries())


def test_a_run_goes_on_even_if_its_card_cannot_be_written(path: Path, told: ProgressNotes) -> None:
    done = submitted(path, told, Clogging, submitPath="run")
    assert done.card.submissions
    assert any("the run goes on, but" in note for note in told.notes)
    assert done.notes == tuple(told.notes)


def test_a_registry_that_cannot_be_written(path: Path, told: ProgressNotes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/longshore")
    done = submitted(path, told, Accepting)
    assert done.reference == str(done.run.root)
    assert any("by its directory" in note for note in done.notes)


def test_nothing_is_left_of_a_run_that_cannot_be_prepared(path: Path, told: ProgressNotes, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(FilesError):
        submitted(path, told, Accepting, submitPath="taken")
    assert not list(read_entries())
    assert sorted(each.name for each in tmp_path.iterdir()) == ["graph.json", "run.yaml", "taken"]


def test_strict_refuses_all_warnings_at_once_and_leaves_nothing(
    path: Path, told: ProgressNotes, tmp_path: Path
) -> None:
    with path.open("a") as file:
        file.write("mine: 1\npipetask: {B: {requestCpus: 1}}\n")
    overrides = Overrides({"wmsServiceClass": f"{__name__}.Accepting", "submitPath": "run"})
    with pytest.raises(SubmissionRefusedError) as caught:
        submit(path, overrides, checks=STRICT, progress=told)
    warnings = [each.message.removeprefix("'--strict' refuses this: ") for each in caught.value.details]
    assert [warning.partition(". ")[0] for warning in warnings] == [
        "run.yaml:3:1: nothing uses 'mine'",
        "run.yaml:4:12: 'pipetask.B' matches nothing: no task has the label 'B'",
    ]
    assert caught.value.exit_status == 6
    assert not told.notes, "each warning is told once"
    assert not (tmp_path / "run").exists()
    assert not list(read_entries())
    assert submit(path, overrides, progress=told).notes == tuple(told.notes) != ()


def test_strict_names_a_single_warning_and_takes_a_run_without_any(path: Path, told: ProgressNotes) -> None:
    overrides = Overrides({"wmsServiceClass": f"{__name__}.Accepting"})
    assert submit(path, overrides, checks=STRICT, progress=told).card.submissions
    with path.open("a") as file:
        file.write("mine: 1\n")
    with pytest.raises(
        SubmissionRefusedError, match=r"refuses a run with a warning: run\.yaml:3:1: nothing uses 'mine'"
    ):
        submit(path, overrides, checks=STRICT, progress=told)


def test_facts_about_the_environment_are_no_warnings(
    path: Path, told: ProgressNotes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "x")
    done = submit(
        path,
        Overrides({"wmsServiceClass": f"{__name__}.Accepting"}),
        checks=SubmissionChecks(strict=True),
        progress=told,
    )
    assert [note for note in done.notes if "MY_API_TOKEN" in note] == told.notes != []


def test_strict_tells_the_warnings_before_an_error(path: Path, told: ProgressNotes) -> None:
    path.write_text(path.read_text().replace("graph.json", "none.json") + "mine: 1\n", "utf-8")
    with pytest.raises(FilesError):
        submit(
            path,
            Overrides({"wmsServiceClass": f"{__name__}.Accepting"}),
            checks=SubmissionChecks(strict=True),
            progress=told,
        )
    assert len(told.notes) == 1


def test_a_run_remembers_where_it_was_submitted(path: Path, told: ProgressNotes, tmp_path: Path) -> None:
    done = submitted(path, told, Accepting)
    (entry,) = read_entries()
    assert entry.submitted_from == done.card.submitted_from == str(tmp_path.resolve())
