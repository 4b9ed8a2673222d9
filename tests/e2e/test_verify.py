"""`verify`: whatever happens to a covered file of a run is found and named; an intact run is called intact."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.command import Cli
from tests.progress_notes import ProgressNotes
from tests.workflows import WriteRun

from longshore.contract.service import RunPaths
from longshore.errors import LongshoreError
from longshore.rundir.run_directory import read_card
from longshore.runstate.open_run import OpenRun
from longshore.runstate.verify import NOT_COVERED, Check, VerifyResult, verify_run

TASKS = {"a": ("A", []), "b": ("B", ["a"]), "c": ("B", [])}


@pytest.fixture
def finished(cli: Cli, write_run: WriteRun) -> Path:
    """A run that is over, restarted once."""
    path = write_run(
        "pipetask: {B: {runQuantumCommand: 'exit 3'}}\nrunQuantumCommand: 'true'\nnumberOfRetries: 0\n", TASKS
    )
    ran = cli("submit", path, "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    return Path(ran.json["submit_dir"])


def verified(root: Path) -> VerifyResult:
    run = RunPaths(root)
    return verify_run(OpenRun(run=run, card=read_card(run)), ProgressNotes())


def flip(content: bytes, data: st.DataObject) -> bytes:
    place = data.draw(st.integers(0, len(content) - 1))
    return content[:place] + bytes([content[place] ^ 1 << data.draw(st.integers(0, 7))]) + content[place + 1 :]


def drop_line(content: bytes, data: st.DataObject) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[data.draw(st.integers(0, len(lines) - 1))]
    return b"".join(lines)


def repeat_line(content: bytes, data: st.DataObject) -> bytes:
    lines = content.splitlines(keepends=True)
    place = data.draw(st.integers(0, len(lines) - 1))
    return b"".join([*lines[:place], lines[place], *lines[place:]])


def cut(content: bytes, data: st.DataObject) -> bytes:
    return content[: data.draw(st.integers(0, len(content) - 1))]


def append(content: bytes, data: st.DataObject) -> bytes:
    return content + data.draw(st.binary(min_size=1, max_size=5))


DAMAGES = (flip, drop_line, repeat_line, cut, append)


def is_told(root: Path, name: str) -> bool:
    """Whether a damage is told, with the name of the file."""
    try:
        result = verified(root)
    except LongshoreError as error:
        return name in error.message  # a card that is no card at all
    assert result.is_intact == (not result.damages)
    return any(Path(damage.path).name == Path(name).name for damage in result.damages)


@given(data=st.data())
def test_every_damage_of_a_covered_file_is_found_and_named(finished: Path, data: st.DataObject) -> None:
    covered = verified(finished).covered
    exact = [name for name, check in covered.items() if check is not Check.FORM]
    path = finished / data.draw(st.sampled_from(exact))
    damage = data.draw(st.sampled_from(DAMAGES))
    before = path.read_bytes()
    after = damage(before, data)
    if path.match("journal/0*.jsonl") and after.startswith(before):
        return  # what follows the seal of a life is void
    path.write_bytes(after)
    try:
        assert after == before or is_told(finished, path.relative_to(finished).as_posix())
    finally:
        path.write_bytes(before)
    assert verified(finished).is_intact


def test_every_covered_file_is_missed(finished: Path) -> None:
    for name in verified(finished).covered:
        if name.startswith(("keeper/", "run.json")):
            continue  # the engine copied the ends to the journal; without a card this is no run
        if name == "journal/end.json":
            continue  # without it, the last life counts as far as it goes
        (finished / name).rename(finished / "kept")
        assert is_told(finished, name), name
        (finished / "kept").rename(finished / name)


def test_files_are_covered_or_listed_as_not_covered(finished: Path) -> None:
    covered = verified(finished).covered
    prefixes = tuple(name for name in NOT_COVERED if name.endswith("/"))
    for path in finished.rglob("*"):
        name = path.relative_to(finished).as_posix()
        if path.is_file() and name not in covered and not name.startswith(prefixes):
            assert name in NOT_COVERED or name.startswith(("keeper/", ".")), name


def test_a_journal_of_which_nothing_is_left_is_damage(cli: Cli, finished: Path) -> None:
    for path in (finished / "journal").iterdir():
        path.unlink()
    told = cli("verify", finished)
    assert told.returncode == 5
    assert f"'{finished / 'journal'}': 'status.json' was written by engine 1, which has no file there" in told.stdout
    assert cli("resume", finished).returncode == 6


def test_a_line_of_the_journal_is_named_with_what_is_not_known(cli: Cli, finished: Path) -> None:
    path = finished / "journal" / "0001.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], lines[3].replace(b'"submitted"', b'"Submitted"'), *lines[4:]]))
    ran = cli("verify", finished)
    assert ran.returncode == 5
    assert f"damaged      '{path}', line 4: it is not as it was written" in ran.stdout
    assert "what happened later is not known" in ran.stdout
    assert "Bring the files back from a backup or a copy" in ran.stdout


def test_several_runs_take_the_worst_status(cli: Cli, finished: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    (copy / "workflow.jsonl").write_bytes(b"{}\n")
    ran = cli("verify", "@last", copy, "--json")
    assert ran.returncode == 5
    assert [run["intact"] for run in ran.json["runs"]] == [True, False]
    (damage,) = ran.json["runs"][1]["damages"]
    assert damage["path"] == str(copy / "workflow.jsonl")
    assert damage["unknown"] == "which commands its jobs have is not known"
    text = cli("verify", copy, "--list")
    assert "checked      workflow.jsonl: SHA-256 in its manifest" in text.stdout
    assert "not checked  logs/: output of jobs" in text.stdout


def test_a_run_that_cannot_be_opened_hides_no_other(cli: Cli, finished: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_bytes(b"\xff")
    runs = (tmp_path / "bad", "nosuch", finished)
    ran = cli("verify", *runs)
    assert ran.returncode == 5
    assert "no run 'nosuch' is known" in ran.stderr
    assert f"'{tmp_path / 'bad' / 'run.json'}' cannot be read" in ran.stderr
    assert ran.stdout.startswith("intact       run '")
    document = cli("verify", *runs, "--json").json
    assert [run["path"] for run in document["runs"]] == [str(finished)]
    assert [(each["run"], each["error"]["code"]) for each in document["failed"]] == [
        (str(tmp_path / "bad"), "run_unreadable"),
        ("nosuch", "run_not_found"),
    ]


@pytest.mark.parametrize("name", ["journal/0001.jsonl", "journal/end.json"])
def test_a_pipe_in_the_place_of_a_file_of_the_journal_is_damage(cli: Cli, finished: Path, name: str) -> None:
    (finished / name).unlink()
    os.mkfifo(finished / name)
    ran = cli("verify", finished)
    assert ran.returncode == 5
    assert f"damaged      '{finished / name}': it cannot be read: it is not a regular file" in ran.stdout


OLDER: dict[str, tuple[Callable[[Path], object], bool]] = {
    "as it was": (lambda _: None, True),
    "torn": (lambda run: (run / "workflow.jsonl").write_bytes((run / "workflow.jsonl").read_bytes()[:-9]), False),
}


@pytest.mark.parametrize(("change", "intact"), OLDER.values(), ids=OLDER)
def test_a_prepared_run_of_an_older_version_has_no_manifest_and_the_rest_is_checked(
    cli: Cli, write_run: WriteRun, change: Callable[[Path], object], *, intact: bool
) -> None:
    run = Path(cli("prepare", write_run(), "--json").json["submit_dir"])
    shutil.rmtree(run / "submissions")
    card = msgspec.json.decode((run / "run.json").read_bytes())
    del card["c"]
    (run / "run.json").write_bytes(msgspec.json.encode({**card, "format": 1}))
    change(run)
    result = verified(run)
    assert result.is_intact is intact
    assert result.notes == ["it was prepared by an older version: it has no manifest to compare its files with"]


def test_the_journal_of_an_ended_run_that_was_cut_before_the_newest_snapshot_is_damaged(
    cli: Cli, finished: Path
) -> None:
    path = finished / "journal" / "0001.jsonl"
    (finished / "journal" / "end.json").unlink()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-2]))
    ran = cli("verify", finished)
    assert ran.returncode == 5
    assert f"damaged      '{path}': it ends with event {len(lines) - 3}, and 'status.json' knows event" in ran.stdout


def test_an_ended_run_without_the_record_of_its_end_is_damaged_until_resume_seals_it(cli: Cli, finished: Path) -> None:
    end = finished / "journal" / "end.json"
    before = end.read_bytes()
    end.unlink()
    ran = cli("verify", finished)
    assert ran.returncode == 5
    assert f"damaged      '{end}': it does not seal life 1, which ends with the end of the run" in ran.stdout
    assert cli("resume", finished).returncode == 0
    assert end.read_bytes() == before
    assert cli("verify", finished).returncode == 0


def test_a_journal_that_was_cut_before_attempts_that_its_keeper_started_is_damaged(cli: Cli, finished: Path) -> None:
    path = finished / "journal" / "0001.jsonl"
    (finished / "journal" / "end.json").unlink()
    lines = path.read_bytes().splitlines(keepends=True)
    newest = max(number for number, line in enumerate(lines) if b'"e":"submitting"' in line)
    path.write_bytes(b"".join(lines[:newest]))
    (finished / "status.json").unlink()
    ran = cli("verify", finished)
    assert ran.returncode == 5
    assert f"damaged      '{path}': it lacks the submission of" in ran.stdout
