"""The doctor finds what is wrong, says the way out, and waits for nothing for ever."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.written_run import NOW, WrittenRun, course

from longshore.control.doctor import (
    Diagnosis,
    DiagnosisState,
    check_engines,
    check_folders,
    check_layers,
    check_plugins,
    check_registry,
    check_scratch,
    diagnose,
    find_unregistered_runs,
    judge_clock,
    judge_inodes,
    judge_space,
    judge_umask,
    run_checks,
    run_of_process,
    service_checks,
    unfinished_services,
    uses_service,
    version_numbers,
)
from longshore.keeper.scratch_folders import temporary_prefix
from longshore.model.submission import Submission
from longshore.rundir.registry import RegistryEntry, read_registry, write_entry
from longshore.rundir.run_directory import read_card, write_card
from longshore.system.files import files

OK, NOTE, WARNING, ERROR = DiagnosisState


def submitted(root: Path, run_id: str = "k7f3aa") -> WrittenRun:
    """A run that was submitted, and is not registered."""
    written = WrittenRun(root)
    submission = Submission(id=run_id, by="submit", at=NOW, user="u", host="h")
    write_card(written.run, msgspec.structs.replace(written.opened.card, id=run_id, submissions=(submission,)))
    return written


def register(written: WrittenRun) -> RegistryEntry:
    entry = RegistryEntry.of(read_card(written.run), str(written.run.root))
    write_entry(entry)
    return entry


def test_a_check_that_hangs_or_fails_hides_no_other() -> None:
    never = threading.Event()

    def hang() -> list[Diagnosis]:
        never.wait()
        return []

    def fail() -> list[Diagnosis]:
        raise ZeroDivisionError("so")

    def work() -> list[Diagnosis]:
        return [Diagnosis(area="c", state=OK, message="well")]

    found = list(run_checks({"a:x": hang, "b": fail, "c": work}, limit_s=2.0))
    never.set()
    assert [each.state for each in found[:2]] == [WARNING, WARNING]
    assert found[0].message == "'x' does not answer within 2 s"
    assert found[1].message == "the check failed: ZeroDivisionError: so"
    assert [each.message for each in found if each.area == "c"] == ["well"]


def test_what_a_check_found_before_it_hung_or_failed_is_not_lost() -> None:
    never = threading.Event()
    reached = threading.Event()

    def find_and_hang() -> Iterator[Diagnosis]:
        yield Diagnosis(area="a", state=ERROR, message="found")
        reached.set()
        never.wait()

    def find_and_fail() -> Iterator[Diagnosis]:
        yield Diagnosis(area="b", state=ERROR, message="found")
        assert reached.wait(60)
        raise ZeroDivisionError

    found = list(run_checks({"b": find_and_fail, "a": find_and_hang}, limit_s=2.0))
    never.set()
    assert [each.message for each in found[:3]] == ["found", "the check failed: ZeroDivisionError: ", "found"]
    assert found[3].message == "the check is not over after 2 s"


def test_runs_are_looked_at_only_for_a_service_that_cannot_be_used(tmp_path: Path) -> None:
    entry = register(submitted(tmp_path / "run"))
    lost = RegistryEntry(id="k7f3ac", path=str(tmp_path / "gone"), name="w", service="gone.Service", created_at=0.0)
    assert unfinished_services([entry, lost]) == {entry.service, "gone.Service"}
    assert uses_service([entry, lost], entry.service)
    assert not uses_service([entry, lost], "gone.Service")
    over = submitted(tmp_path / "over", "k7f3ad")
    over.begin()
    for event in course():
        over.write(event)
        over.know(event)
    over.snapshot()
    assert not uses_service([register(over)], entry.service), "the registry does not know yet that it is over"
    looks: list[str] = []

    def is_used(name: str) -> bool:
        looks.append(name)
        return len(looks) == 1

    checks = service_checks(["gone.Service"], is_used)
    list(checks["services:local"]())
    assert looks == []
    (found,) = checks["services:gone.Service"]()
    assert found.state is ERROR
    assert list(checks["services:gone.Service"]()) == []


def test_every_entry_point_of_ours_can_be_imported() -> None:
    assert [each.state for each in check_plugins()] == [OK]
    assert version_numbers("8.10.0rc1") > version_numbers("8.2")
    assert version_numbers("8.2.0") == version_numbers("8.2")


def test_a_broken_file_of_the_user_is_named_with_its_place(own_environment: Path) -> None:
    file = own_environment / ".config" / "longshore" / "longshore.yaml"
    file.parent.mkdir(parents=True)
    file.write_text("a: [1\n", "utf-8")
    found = [each for each in check_layers() if each.state is ERROR]
    assert len(found) == 1
    assert found[0].message.startswith(f"{file}:")
    file.write_text("project: dev\n", "utf-8")
    found = list(check_layers())
    assert {each.state for each in found} == {OK}
    assert f"'{file}'" in found[0].message


def test_the_registry_and_the_directories_are_compared_both_ways(tmp_path: Path) -> None:
    entry = register(submitted(tmp_path / "runs" / "known"))
    lost = submitted(tmp_path / "runs" / "lost", "k7f3ab")
    assert find_unregistered_runs([entry]) == [lost.run.root]
    write_entry(RegistryEntry(id="k7f3ac", path=str(tmp_path / "gone"), name="w", service="local", created_at=0.0))
    found = {each.message: each for each in check_registry(read_registry())}
    gone = found["1 registered run without directory: k7f3ac"]
    assert (gone.state, gone.hint) == (NOTE, "longshore forget --missing")
    assert found[f"the run '{lost.run.root}' is not in the registry"].hint == f"longshore adopt {lost.run.root}"


def test_a_run_whose_engine_died_is_found_with_the_command_that_continues_it(tmp_path: Path) -> None:
    written = submitted(tmp_path / "run")
    entry = register(written)
    written.begin()
    found = [each for each in check_engines([entry]) if each.state is WARNING]
    assert [each.hint for each in found] == ["longshore resume k7f3aa"]
    before = sorted(path for path in tmp_path.rglob("*"))
    list(check_engines([entry]))
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_a_run_that_ends_during_the_look_is_over_and_not_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = submitted(tmp_path / "run")
    entry = register(written)
    written.begin()
    written.run.engine_lock.touch()
    flock = files.flock
    rest = course()

    def end_meanwhile(file: int, operation: int) -> None:
        for event in rest:
            written.write(event)
            written.know(event)
        written.snapshot()
        rest.clear()
        flock(file, operation)

    monkeypatch.setattr(files, "flock", end_meanwhile)
    found = list(check_engines([entry]))
    assert not rest
    assert [(each.state, each.message) for each in found] == [(OK, "0 runs in progress")]


def test_many_runs_are_looked_at_side_by_side_and_within_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = []
    for number in range(20):
        written = submitted(tmp_path / f"run{number}", f"k7f3{number:02}")
        written.begin()
        entries.append(register(written))
    found = [each.hint for each in check_engines(entries, limit_s=60.0) if each.state is WARNING]
    assert found == [f"longshore resume k7f3{number:02}" for number in reversed(range(20))]
    release, hung, flock = threading.Event(), submitted(tmp_path / "hung", "k7f3zz"), files.flock
    hung.begin()
    hung.run.engine_lock.touch()
    entries.append(register(hung))
    inode = hung.run.engine_lock.stat().st_ino

    def hang(file: int, operation: int) -> None:
        if os.fstat(file).st_ino == inode:
            release.wait(60.0)
        flock(file, operation)

    monkeypatch.setattr(files, "flock", hang)
    try:
        results = [each for each in check_engines(entries, limit_s=2.0) if each.state is WARNING]
    finally:
        release.set()
    assert results[-1].message == f"only {len(results) - 1} unfinished runs of yours could be looked at within 2 s"
    assert {each.hint for each in results[:-1]} <= set(found)


def test_temporary_files_that_nothing_uses_are_found(tmp_path: Path) -> None:
    old, used, young = (tmp_path / f"{temporary_prefix()}{name}" for name in ("old", "used", "young"))
    for folder in (old, used, young, tmp_path / "longshore-else"):
        folder.mkdir()
        if folder != young:
            os.utime(folder, (NOW, NOW))
    now = young.stat().st_mtime + 60
    with subprocess.Popen(["sleep", "60"], cwd=used) as process:
        (note,) = check_scratch(tmp_path, now=now)
        process.kill()
    assert "1 folder, such as" in note.message
    assert old.name in note.message
    old.rmdir()
    used.rmdir()
    assert not list(check_scratch(tmp_path, now=now))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (
            "python -I -S -B /r/a/keeper/guard.py /r/a/keeper/1.jsonl /tmp/x next near",
            ("keeper or guard", "/r/a"),
        ),
        ("python -P -m longshore --long-log notify /r/b", ("notifier", "/r/b")),
        ("python -P -m longshore drive /r/c", ("engine", "/r/c")),
        ("python -m longshore report --id /r/c", None),
        ("vi /r/a/keeper.py", None),
        ("", None),
    ],
)
def test_a_process_of_a_run_is_known_by_its_command(command: str, expected: tuple[str, str] | None) -> None:
    known = run_of_process(command.split(), "/somewhere")
    assert known == (expected and (expected[0], Path(expected[1])))


def test_an_engine_that_was_on_standby_is_known_by_its_working_directory(tmp_path: Path) -> None:
    command = ["python", "-P", "-m", "longshore", "drive", "--standby", "local"]
    assert run_of_process(command, f"{tmp_path} (deleted)") == ("engine", tmp_path)
    assert run_of_process(command, str(tmp_path)) is None, "it has no run yet"
    (tmp_path / "run.json").touch()
    assert run_of_process(command, str(tmp_path)) == ("engine", tmp_path)


def test_room_clock_and_umask_are_judged() -> None:
    root, gib = Path("/"), 1 << 30
    assert judge_space(root, free_b=50 * gib, size_b=100 * gib).state is OK
    assert judge_space(root, free_b=gib // 2, size_b=100 * gib).state is WARNING
    assert judge_space(root, free_b=0, size_b=gib).state is ERROR
    assert judge_space(root, free_b=0, size_b=0).state is OK
    assert judge_inodes(root, free=10**6, total=10**7).state is OK
    assert judge_inodes(root, free=10**5, total=10**7).state is WARNING
    assert judge_inodes(root, free=0, total=10**7).state is ERROR
    assert judge_clock(root, difference_s=0.5).state is OK
    assert judge_clock(root, difference_s=-5.0).state is NOTE
    assert "600.0 s ahead of" in judge_clock(root, difference_s=600.0).message
    assert [judge_umask(mask).state for mask in (0o022, 0o002, 0o000, 0o700)] == [OK, OK, WARNING, ERROR]


@pytest.mark.parametrize(
    ("place", "why"),
    [("/dev/null", "'/dev/null' is not a directory"), ("/proc/nope", "no file can be made in '/proc'")],
)
def test_a_folder_of_state_that_cannot_be_made_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str, why: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", place)
    home, state = check_folders({"HOME": str(tmp_path / "to be made")})
    assert home.state == OK
    assert state.state == ERROR
    assert f"'{place}/longshore' cannot be written" in state.message
    assert why in state.message
    assert state.hint == "Let XDG_STATE_HOME name a folder that you may write to."
    assert not list(tmp_path.iterdir())


def test_a_current_directory_that_was_removed_is_one_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    found = [each for each in diagnose() if each.state not in {OK, NOTE} and "current directory" in each.message]
    assert [(each.area, each.state, each.hint) for each in found] == [("folders", ERROR, "Go to another one: cd ~")]
