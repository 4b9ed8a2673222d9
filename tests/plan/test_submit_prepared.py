"""What was prepared is handed over later: as it is, once, and only if nothing that it was made from is different."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from tests.progress_notes import ProgressNotes

from longshore.config.layers import Overrides
from longshore.contract.service import RunPaths, Unreachable
from longshore.errors import (
    FilesError,
    LongshoreError,
    RunNotFoundError,
    RunUnreadableError,
    SubmissionRefusedError,
    UnreachableError,
)
from longshore.model.submission import Submission
from longshore.plan import fingerprint
from longshore.plan.stages import Stage, run_stages
from longshore.plan.submission import submit
from longshore.plan.submit_prepared import submit_prepared
from longshore.rundir.registry import RegistryEntry, read_entries, read_entry, write_entry
from longshore.rundir.run_directory import read_card, read_made_from, write_made_from
from longshore.services.local.service import LocalService

YAML = """\
wfformat: graph.json
includeConfigs: more.yaml
runQuantumCommand: ./program {jobName}
workingDirectory: ${PWD}
requestMemory: 100
"""


class Taking(LocalService):
    """Takes every run, and starts nothing."""

    name: ClassVar[str] = "local"
    taken: ClassVar[list[Path]] = []
    lives: ClassVar[bool | Unreachable] = False

    def submit(self, run: RunPaths) -> Submission:
        """Say yes."""
        self.taken.append(run.root)
        return Submission(id=json.loads(run.card.read_bytes())["id"], by="submit", at=1.0, user="me", host="here")

    def is_alive(self, run: RunPaths) -> bool | Unreachable:
        """Say what the test wants."""
        return self.lives


class Refusing(Taking):
    """Takes no run."""

    def submit(self, run: RunPaths) -> Submission:
        """Say no."""
        raise SubmissionRefusedError(f"'{run.root}' is not wanted")


class Killed(BaseException):
    """Nothing that is caught: the process is gone."""


class Killing(Taking):
    """Takes a run, and the process that asked is killed at once."""

    def submit(self, run: RunPaths) -> Submission:
        """Never come back."""
        raise Killed


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Taking, "taken", [])
    monkeypatch.setattr(Taking, "lives", False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    graph = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"name": "A", "id": "a"}]}}}
    Path("graph.json").write_text(json.dumps(graph), "utf-8")
    Path("more.yaml").write_text("pipetask: {A: {requestCpus: 1}}\n", "utf-8")
    Path("program").write_text("#!/bin/sh\n", "utf-8")
    Path("program").chmod(0o755)
    Path("run.yaml").write_text(YAML, "utf-8")
    return tmp_path


def prepared(service: type = Taking, **options: Any) -> Path:
    named = {"wmsServiceClass": f"{service.__module__}.{service.__qualname__}", **options}
    _, run = run_stages(
        Path("run.yaml"), Stage.PREPARE, Overrides(named, ("numberOfRetries=1",)), progress=ProgressNotes()
    )
    assert run is not None
    return run


def problems(run: Path) -> list[str]:
    with pytest.raises(SubmissionRefusedError) as caught:
        submit_prepared(run, force=False, progress=ProgressNotes())
    assert "Prepare the run again, or submit its directory as it is now with --force." in caught.value.hint
    assert not Taking.taken
    return [f"{fault.origin}: {fault.message}" if fault.origin else fault.message for fault in caught.value.details]


def test_a_run_is_handed_over_as_it_was_prepared(folder: Path) -> None:
    run = prepared()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file() and path.name != "run.json"}
    told = ProgressNotes()
    done = submit_prepared(run, force=False, progress=told)
    assert Taking.taken == [run]
    assert {path: path.read_bytes() for path in before} == before
    assert read_card(RunPaths(run)).submissions[0].user == "me"
    assert read_entry(done.card.id) == next(read_entries())
    assert done.reference == done.card.id
    assert not RunPaths(run).submitting.exists()
    assert not told.notes
    assert (done.run.root, done.site) == (run, "local")
    assert folder in run.parents


def test_comments_are_no_change(folder: Path) -> None:
    run = prepared()
    Path("run.yaml").write_text("# a word\n" + YAML, "utf-8")
    Path("more.yaml").write_text("pipetask:\n  A:\n    requestCpus: 1 # as before\n", "utf-8")
    os.utime("program")
    os.chdir("/")
    submit_prepared(run, force=False, progress=ProgressNotes())
    assert Taking.taken == [run]


Change = Callable[[Path], object]

CHANGES: dict[str, tuple[Change, str]] = {
    "value": (
        lambda _run: Path("run.yaml").write_text(YAML.replace("100", "200"), "utf-8"),
        "run.yaml:5:16: 'requestMemory' is '200' now, and was '100'",
    ),
    "added": (
        lambda _run: Path("run.yaml").write_text(YAML + "queue: long\n", "utf-8"),
        "run.yaml:6:8: 'queue' is 'long' now, and was not set",
    ),
    "taken out": (
        lambda _run: Path("run.yaml").write_text(YAML.replace("requestMemory: 100\n", "numberOfRetries: 2\n"), "utf-8"),
        "'requestMemory' is '2048' now, and was '100'",
    ),
    "included": (
        lambda _run: Path("more.yaml").write_text("pipetask: {A: {requestCpus: 2}}\n", "utf-8"),
        "more.yaml:1:29: 'pipetask.A.requestCpus' is '2' now, and was '1'",
    ),
    "not set": (
        lambda _run: Path("more.yaml").write_text("{}\n", "utf-8"),
        "'pipetask.A.requestCpus' is not set now, and was '1'",
    ),
    "gone": (lambda _run: Path("run.yaml").unlink(), "the configuration can no longer be read: there is no file"),
    "no YAML": (
        lambda _run: Path("run.yaml").write_text("a: [\n", "utf-8"),
        "the configuration can no longer be read: ",
    ),
    "payload": (
        lambda _run: Path("graph.json").write_text("{}", "utf-8"),
        "graph.json' has another content now: 2 bytes, and ",
    ),
    "program": (
        lambda _run: Path("program").write_text("#!/bin/sH\n", "utf-8"),
        "program' has another content now, as long as before",
    ),
    "no program": (lambda _run: Path("program").unlink(), "program' is not there any more"),
    "workflow": (
        lambda run: (run / "workflow.jsonl").write_bytes((run / "workflow.jsonl").read_bytes() + b"\n"),
        "its file 'workflow.jsonl' has another content now",
    ),
    "config": (
        lambda run: next(run.glob("*_config.yaml")).unlink(),
        "_config.yaml' is not there any more",
    ),
}


@pytest.mark.parametrize(("change", "said"), CHANGES.values(), ids=CHANGES)
def test_what_is_different_is_said(folder: Path, change: Change, said: str) -> None:
    run = prepared()
    assert folder in run.parents
    change(run)
    found = problems(run)
    assert any(said in each for each in found), found
    assert read_card(RunPaths(run)).submissions == ()


def test_all_that_is_different_is_said_at_once_or_told_where_it_does_not_matter(folder: Path) -> None:
    run = prepared()
    (folder / "run.yaml").write_text(YAML.replace("100", "200") + "queue: long\n", "utf-8")
    (folder / "program").unlink()
    assert len(problems(run)) == 3
    told = ProgressNotes()
    submit_prepared(run, force=True, progress=told)
    assert Taking.taken == [run]
    assert sum(note.startswith("submitted despite a change: ") for note in told.notes) == 3


def test_a_new_layer_is_a_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = prepared()
    monkeypatch.setenv("LONGSHORE_REQUEST_DISK", "7")
    assert problems(run) == ["$LONGSHORE_REQUEST_DISK: 'requestDisk' is '7' now, and was not set"]
    assert folder in run.parents


def test_another_version(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = prepared()
    assert folder in run.parents
    monkeypatch.setattr(fingerprint, "__version__", "99.0")
    assert [each.partition(",")[0] for each in problems(run)] == ["this is Longshore 99.0"]


def test_the_profile_of_the_site(folder: Path, own_environment: Path) -> None:
    sites = own_environment / ".config" / "longshore" / "sites"
    sites.mkdir(parents=True)
    (sites / "here.yaml").write_text("service: local\nlimits: {memory: 4 GiB}\nsetup: {job: ['true']}\n", "utf-8")
    Path("run.yaml").write_text(YAML + "computeSite: here\nwmsServiceClass: local\n", "utf-8")
    _, run = run_stages(Path("run.yaml"), Stage.PREPARE, progress=ProgressNotes())
    assert run is not None
    (sites / "here.yaml").write_text("service: local\nlimits: {memory: 2 GiB}\nsetup: {job: ['false']}\n", "utf-8")
    found = problems(run)
    assert any(each == "'limits.memory' of the site 'here' is '2 GiB' now, and was '4 GiB'" for each in found), found
    assert any("false" in each and "true" in each for each in found), found
    assert folder in run.parents


def test_a_run_that_was_submitted(folder: Path) -> None:
    run = prepared()
    submit_prepared(run, force=False, progress=ProgressNotes())
    for force in (False, True):
        with pytest.raises(SubmissionRefusedError, match=r"was submitted already, .* by 'me' on 'here'") as caught:
            submit_prepared(run, force=force, progress=ProgressNotes())
        run_id = read_card(RunPaths(run)).id
        assert f"longshore restart {run_id}" in caught.value.hint
        assert f"longshore resume {run_id}" in caught.value.hint
    assert Taking.taken == [run]
    assert folder in run.parents


def test_a_run_whose_journal_has_begun(folder: Path) -> None:
    run = prepared()
    (run / "journal" / "0001.jsonl").write_text("", "utf-8")
    with pytest.raises(SubmissionRefusedError, match="was submitted already: its journal has begun"):
        submit_prepared(run, force=True, progress=ProgressNotes())
    assert folder in run.parents


def test_a_run_that_was_moved_or_copied(folder: Path) -> None:
    run = prepared()
    shutil.copytree(run, folder / "copy")
    with pytest.raises(SubmissionRefusedError, match=f"copy' was prepared as '{run}'"):
        submit_prepared(folder / "copy", force=True, progress=ProgressNotes())
    (folder / "link").symlink_to(run)
    submit_prepared(folder / "link", force=False, progress=ProgressNotes())
    assert Taking.taken == [run]


@pytest.mark.parametrize("name", ["run.json", "made-from.json", "workflow.jsonl"])
def test_a_newer_format(folder: Path, name: str) -> None:
    run = prepared()
    text = (run / name).read_text("utf-8")
    newer = text.replace('"v":1', '"v":99', 1).replace('"v": 1', '"v": 99', 1).replace('"format": 2', '"format": 99', 1)
    assert newer != text
    (run / name).write_text(newer, "utf-8")
    with pytest.raises(RunUnreadableError, match="has format 99") as caught:
        submit_prepared(run, force=True, progress=ProgressNotes())
    assert "newer" in caught.value.hint
    assert folder in run.parents


def test_what_was_not_prepared_to_its_end(folder: Path) -> None:
    half = folder / ".name.draft-17"
    half.mkdir()
    with pytest.raises(RunNotFoundError, match="was not completely prepared") as caught:
        submit_prepared(half, force=True, progress=ProgressNotes())
    assert "remove it" in caught.value.hint
    graph = folder / "graph"
    graph.mkdir()
    with pytest.raises(RunNotFoundError, match=r"there is no 'run.json' in it"):
        submit_prepared(graph, force=True, progress=ProgressNotes())
    (graph / "night.qg").write_text("", "utf-8")
    with pytest.raises(RunNotFoundError, match="there is a quantum graph in it") as caught:
        submit_prepared(graph, force=True, progress=ProgressNotes())
    assert caught.value.hint.endswith(f"longshore submit FILE --qgraph {graph / 'night.qg'}")


def test_without_its_record_only_force_helps(folder: Path) -> None:
    run = prepared()
    (run / "made-from.json").unlink()
    assert problems(run) == ["the inputs of the preparation are unknown: there is no 'made-from.json'"]
    submit_prepared(run, force=True, progress=ProgressNotes())
    assert Taking.taken == [run]
    assert folder in run.parents


def test_a_record_that_cannot_be_read(folder: Path) -> None:
    run = prepared()
    (run / "made-from.json").write_text("{", "utf-8")
    with pytest.raises(RunUnreadableError, match=r"made-from.json' cannot be read"):
        submit_prepared(run, force=True, progress=ProgressNotes())
    assert folder in run.parents


def test_a_folder_that_is_gone(folder: Path) -> None:
    run = prepared()
    made = read_made_from(RunPaths(run))
    assert made is not None
    write_made_from(RunPaths(run), msgspec.structs.replace(made, folder=str(folder / "gone")))
    assert problems(run)[1:] == [
        f"the configuration of then and of now cannot be compared: '{folder / 'gone'}': No such file or directory"
    ]


def test_a_run_that_was_refused_stays(folder: Path) -> None:
    run = prepared(Refusing)
    for _ in range(2):
        with pytest.raises(SubmissionRefusedError, match="is not wanted"):
            submit_prepared(run, force=False, progress=ProgressNotes())
    assert not list(read_entries())
    assert not RunPaths(run).submitting.exists()
    assert folder in run.parents


def test_what_was_killed_can_be_said_again(folder: Path) -> None:
    run = prepared(Killing)
    for _ in range(2):
        with pytest.raises(Killed):
            submit_prepared(run, force=False, progress=ProgressNotes())
    assert RunPaths(run).submitting.exists()
    assert folder in run.parents


@pytest.mark.parametrize(
    ("lives", "error"), [(True, SubmissionRefusedError), (Unreachable(why="it is Sunday"), UnreachableError)]
)
def test_what_was_killed_behind_the_handing_over_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lives: bool | Unreachable, error: type[LongshoreError]
) -> None:
    run = prepared(Killing)
    with pytest.raises(Killed):
        submit_prepared(run, force=False, progress=ProgressNotes())
    RunPaths(run).submitting.write_text("torn", "utf-8")
    monkeypatch.setattr(Taking, "lives", lives)
    with pytest.raises(error, match=r"began to submit"):
        submit_prepared(run, force=True, progress=ProgressNotes())
    assert folder in run.parents


def test_of_two_at_once_one_wins(folder: Path) -> None:
    run = prepared()
    outcomes: list[str] = []

    def one() -> None:
        try:
            submit_prepared(run, force=True, progress=ProgressNotes())
            outcomes.append("submitted")
        except SubmissionRefusedError as error:
            outcomes.append(error.message.partition("was ")[2].partition(",")[0])

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["submitted", *["submitted already"] * 3]
    assert Taking.taken == [run]
    assert folder in run.parents


@pytest.mark.parametrize("number", [2, 60])
def test_inputs_that_went_away(folder: Path, number: int) -> None:
    (folder / "raw").mkdir()
    for each in range(number):
        (folder / "raw" / f"{each:02}.fits").write_text("", "utf-8")
    task = "{dimensions: [n], command: 'cat {raw} > {out}', inputs: {raw: 'raw/{n}.fits'}, outputs: {out: 'o_{n}'}}"
    text = f"pipeline:\n  dimensions: {{n: {{glob: 'raw/{{n}}.fits'}}}}\n  tasks: {{m: {task}}}\n"
    Path("run.yaml").write_text(text, "utf-8")
    run = prepared()
    for each in range(number - 1):
        (folder / "raw" / f"{each:02}.fits").unlink()
    found = problems(run)
    assert found[0] == f"its input '{folder}/raw/00.fits' is not there any more"
    assert len(found) == min(number - 1, 3)
    assert number == 2 or found[-1].endswith("(and 56 more like it)")
    submit_prepared(run, force=True, progress=ProgressNotes())
    assert Taking.taken == [run]


def test_a_workflow_that_cannot_be_read(folder: Path) -> None:
    run = prepared()
    text = (run / "workflow.jsonl").read_bytes()
    (run / "workflow.jsonl").write_bytes(text[: text.index(b"\n") + 20])
    with pytest.raises(RunUnreadableError, match="is torn"):
        submit_prepared(run, force=True, progress=ProgressNotes())
    assert folder in run.parents


def test_an_id_that_another_run_has_here(folder: Path) -> None:
    run = prepared()
    card = read_card(RunPaths(run))
    other = RegistryEntry(id=card.id, path="/another", name="n", service="local", created_at=1.0)
    write_entry(other)
    told = ProgressNotes()
    done = submit_prepared(run, force=False, progress=told)
    assert done.reference == str(run)
    assert read_entry(card.id) == other
    assert any("by its directory" in note for note in told.notes)
    assert folder in run.parents


def test_a_run_prepared_and_submitted_at_once_leaves_the_same(folder: Path) -> None:
    named = {"wmsServiceClass": f"{Taking.__module__}.{Taking.__qualname__}"}
    done = submit(Path("run.yaml"), Overrides(named), progress=ProgressNotes())
    assert not done.run.submitting.exists()
    with pytest.raises(SubmissionRefusedError, match="was submitted already"):
        submit_prepared(done.run.root, force=False, progress=ProgressNotes())
    assert folder in done.run.root.parents


def test_a_directory_in_which_nothing_can_be_written_is_left_as_it_is(folder: Path) -> None:
    run = prepared()
    # A folder of that name is in the way of whoever writes the file, whoever that is.
    RunPaths(run).submitting.mkdir()
    with pytest.raises(FilesError, match="cannot be submitted, because it cannot be written") as caught:
        submit_prepared(run, force=False, progress=ProgressNotes())
    assert "nothing was started" in caught.value.hint
    assert not Taking.taken
    assert not list(read_entries())
    RunPaths(run).submitting.rmdir()
    submit_prepared(run, force=False, progress=ProgressNotes())
    assert Taking.taken == [run]
    assert folder in run.parents


def test_what_a_function_made_is_not_asked_for_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "making.py").write_text(
        "from pathlib import Path\n\n\ndef values():\n"
        "    calls = Path('calls')\n    calls.write_text(calls.read_text() + 'x' if calls.exists() else 'x')\n"
        "    return {'requestMemory': 300, 'queue': 'made'}\n",
        "utf-8",
    )
    monkeypatch.syspath_prepend(str(folder))
    Path("run.yaml").write_text(YAML + "bpsGenerateConfig: making.values()\n", "utf-8")
    run = prepared()
    Path("run.yaml").write_text(
        YAML.replace("100", "101") + "priority: 3\nbpsGenerateConfig: making.values()\n", "utf-8"
    )
    assert problems(run) == ["run.yaml:6:11: 'priority' is '3' now, and was not set"]
    assert Path("calls").read_text("utf-8") == "x"
    Path("run.yaml").write_text(YAML + "bpsGenerateConfig: making.values()\n", "utf-8")
    submit_prepared(run, force=False, progress=ProgressNotes())
    assert Taking.taken == [run]


def test_programs_are_known_by_where_jobs_find_them(folder: Path) -> None:
    Path("bin").mkdir()
    Path("program").rename("bin/program")
    Path("run.yaml").write_text(
        YAML.replace("./program {jobName}", "[program, '{jobName}']")
        + f"environment: {{PATH: '{folder}/bin:/bin:/usr/bin'}}\n",
        "utf-8",
    )
    run = prepared()
    made = read_made_from(RunPaths(run))
    assert made is not None
    assert [each.path for each in made.programs] == [str(folder / "bin" / "program")]
    assert [each.path for each in made.payload] == [str(folder / "graph.json")]
