"""What `clean` shows is what it removes, and no more; a run stays whole, also when the removal is killed."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.progress_notes import ProgressNotes
from tests.written_run import NOW, WrittenRun, finished_run

from longshore.contract.service import RunPaths
from longshore.control.clean import CleanRequest, RemovableKind, clean, find_lock_users, plan_clean
from longshore.errors import RunNotFoundError, SubmissionRefusedError
from longshore.keeper.protocol import KeeperRecord
from longshore.keeper.scratch_folders import temporary_prefix
from longshore.model.states import JobState
from longshore.reports.logs import find_logs
from longshore.reports.status import status_run
from longshore.rundir.registry import RegistryEntry, state_folder, write_entry
from longshore.rundir.run_directory import read_card, read_cleanings
from longshore.runstate.open_run import open_run
from longshore.runstate.verify import verify_run
from longshore.system.files import files
from longshore.system.host import host_name

AFTER = NOW + 1e6
CACHES = ["cache/report.json", "cache/waiting.json", "cache/deep/events.jsonl", "cache/.x.0123456789ab.draft"]
DRAFTS = [".status.json.0123456789ab.draft", "wms/.run.dag.abcdefabcdef.draft", "logs/a/00/.j.ffffffffffff.draft"]
OTHERS = [
    "output.fits",
    ".draft",
    ".x.0123.draft",
    "wms/run.dag",
    "logs/a/00/else.txt",
    "data/cache/kept",
]
LOGS = [f"logs/{'ab'[job // 3]}/00/j{job}.{attempt}.log" for job in range(6) for attempt in (1, 2)]
SUCCESSFUL = {"logs/a/00/j0.1.log", "logs/a/00/j1.2.log", "logs/b/00/j3.1.log", "logs/b/00/j4.1.log"}
files_of_runs = st.sets(st.sampled_from([*CACHES, *DRAFTS, *OTHERS, *LOGS]))


def old_run(root: Path, names: set[str]) -> WrittenRun:
    """A run that is over, with some more files, all of them old."""
    written = finished_run(root, retries=1)
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, "utf-8")
        os.utime(path, (NOW, NOW))
    write_entry(RegistryEntry.of(read_card(written.run), str(root)))
    return written


def content(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} - {"cleaned.json"}


@given(files_of_runs, st.sets(st.sampled_from(RemovableKind), min_size=1))
@settings(max_examples=examples(25))
def test_exactly_what_is_shown_is_removed(names: set[str], kinds: set[RemovableKind]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "run").resolve()
        old_run(root, names)
        before = content(root)
        plan = plan_clean(CleanRequest(references=[str(root)], kinds=kinds), now=AFTER)
        assert content(root) == before
        result = clean(plan, now=AFTER)
        shown = {file.path.relative_to(root).as_posix() for file in plan.files}
        assert before - content(root) == shown
        assert result.removed == plan.files
        assert not result.failed
        expected = set(CACHES) if RemovableKind.CACHES in kinds else set()
        expected |= set(DRAFTS) if RemovableKind.TEMPORARY in kinds else set()
        expected |= SUCCESSFUL if RemovableKind.LOGS in kinds else set()
        assert shown == names & expected
        assert status_run(open_run(str(root))).state is JobState.FAILED


class Killed(BaseException):
    """The end of the process."""


@given(st.integers(0, len(CACHES) + len(DRAFTS) + len(SUCCESSFUL)))
@settings(max_examples=examples(12))
def test_a_removal_that_is_killed_leaves_a_whole_run_and_can_be_continued(number: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        root = Path(folder, "run").resolve()
        old_run(root, {*CACHES, *DRAFTS, *OTHERS, *LOGS})
        request = CleanRequest(references=[str(root)])
        plan = plan_clean(request, now=AFTER)
        damages = verify_run(open_run(str(root)), ProgressNotes()).damages
        left, unlink = iter(range(number)), files.unlink

        def unlink_some(name: str, *, dir_fd: int) -> None:
            if next(left, None) is None:
                raise Killed
            unlink(name, dir_fd=dir_fd)

        patch.setattr(files, "unlink", unlink_some)
        if number < len(plan.files):
            with pytest.raises(Killed):
                clean(plan, now=AFTER)
        patch.setattr(files, "unlink", unlink)
        opened = open_run(str(root))
        assert verify_run(opened, ProgressNotes()).damages == damages
        assert status_run(opened).state is JobState.FAILED
        rest = plan_clean(request, now=AFTER)
        assert len(rest.files) == (len(plan.files) - number if number < len(plan.files) else len(plan.files))
        clean(rest, now=AFTER)
        assert not plan_clean(request, now=AFTER).files


def test_a_run_that_is_named_twice_is_cleaned_once(tmp_path: Path) -> None:
    old_run(tmp_path / "run", set(CACHES))
    plan = plan_clean(
        CleanRequest(
            references=[str(tmp_path / "run"), read_card(RunPaths(tmp_path / "run")).id, f"{tmp_path}/./run/"]
        ),
        now=AFTER,
    )
    assert len(plan.files) == len(CACHES)


def test_what_goes_while_it_is_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "run"
    old_run(root, set(DRAFTS))
    scandir = os.scandir

    @contextmanager
    def scan_and_remove(folder: str | Path) -> Iterator[list[os.DirEntry[str]]]:
        with scandir(folder) as found:
            entries = list(found)
        for entry in entries:
            if entry.name == ".run.dag.abcdefabcdef.draft":
                Path(entry.path).unlink()
        yield entries

    monkeypatch.setattr(os, "scandir", scan_and_remove)
    plan = plan_clean(CleanRequest(references=[str(root)]), now=AFTER)
    assert {file.path.relative_to(root).as_posix() for file in plan.files} == {DRAFTS[0], DRAFTS[2]}


def test_a_removed_log_is_told_as_removed(tmp_path: Path) -> None:
    run = old_run(tmp_path / "run", set(LOGS)).run
    clean(plan_clean(CleanRequest(references=[str(run.root)]), now=AFTER), now=AFTER)
    opened = open_run(str(run.root))
    (run.root / LOGS[1]).unlink()
    with pytest.raises(RunNotFoundError, match="'longshore clean' removed logs of jobs that succeeded"):
        find_logs(opened, job="j0")
    (cleaning,) = read_cleanings(run)
    assert cleaning.files == {"logs": 4}
    assert any("'longshore clean' removed" in note for note in find_logs(opened, labels=["a"]).notes)


def test_links_are_neither_followed_nor_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "j0.1.log").write_text("kept", "utf-8")
    (outside / ".x.0123456789ab.draft").write_text("kept", "utf-8")
    run = old_run(tmp_path / "run", set()).run
    run.cache.symlink_to(outside)
    (run.logs / "a").mkdir(parents=True)
    (run.logs / "a" / "00").symlink_to(outside)
    plan = plan_clean(CleanRequest(references=[str(run.root)]), now=AFTER)
    assert plan.files == ()
    assert len(list(outside.iterdir())) == 2


def test_a_run_that_is_not_over_or_too_young_stays_as_it_is(tmp_path: Path) -> None:
    live = old_run(tmp_path / "live", {*CACHES, *LOGS})
    lines = live.journal.read_bytes().splitlines(keepends=True)
    live.journal.write_bytes(b"".join(lines[:-1]))
    live.run.status.unlink()
    (live.run.journal / "end.json").unlink()
    plan = plan_clean(CleanRequest(references=[str(live.run.root)]), now=AFTER)
    assert (plan.files, plan.skipped) == ((), (("k7f3aa", "it is not over"),))
    over = old_run(tmp_path / "over", {*CACHES, *LOGS})
    request = CleanRequest(references=[str(over.run.root)], older_than_s=1e7)
    assert plan_clean(request, now=AFTER).skipped == (("k7f3aa", "it ended too recently for --older-than"),)
    plan = plan_clean(CleanRequest(references=[str(over.run.root)]), now=AFTER)
    over.run.engine_lock.touch()
    with over.run.engine_lock.open() as lock:
        files.flock(lock.fileno(), 2)
        result = clean(plan, now=AFTER)
    assert {why for _, why in result.failed} == {"an engine of the run is at work"}
    assert result.removed == ()


def test_another_clean_is_not_called_an_engine(tmp_path: Path) -> None:
    run = old_run(tmp_path / "run", set(CACHES)).run
    run.engine_lock.touch()
    request = CleanRequest(references=[str(run.root)])
    plan = plan_clean(request, now=AFTER)
    hold = (
        "import fcntl, sys; f = open(sys.argv[-1]); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"
    )
    words = [sys.executable, "-c", hold, "longshore", "clean", str(run.engine_lock)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        expected = f"another 'longshore clean' is at work on it (process {other.pid})"
        assert {why for _, why in clean(plan, now=AFTER).failed} == {expected}
        assert plan_clean(request, now=AFTER).skipped == (("k7f3aa", expected),)
        other.communicate("\n")
    assert len(clean(plan, now=AFTER).removed) == len(CACHES)


def test_only_holders_of_a_lock_are_found_in_the_table_of_the_kernel() -> None:
    status = os.stat_result((0o100644, 4563, 0xFE01, 1, 0, 0, 0, 0, 0, 0))
    table = """1: POSIX  ADVISORY  WRITE 11 fe:01:4563 120 120
2: FLOCK  ADVISORY  WRITE 12 fe:01:4563 0 EOF
2: -> FLOCK  ADVISORY  WRITE 13 fe:01:4563 0 EOF
3: FLOCK  ADVISORY  WRITE -1 fe:01:4563 0 EOF
4: FLOCK  ADVISORY  WRITE 14 fe:00:4563 0 EOF
"""
    assert find_lock_users(status, table) == [12]


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "run"
    old_run(root, {*CACHES, *LOGS})
    scandir = os.scandir

    def refuse(folder: str | Path) -> object:
        if Path(folder) == root / "logs":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    plan = plan_clean(CleanRequest(references=[str(root)]), now=AFTER)
    assert plan.unread == {root / "logs": "Permission denied"}


def test_a_damaged_journal_is_not_called_a_run_that_is_not_over(tmp_path: Path) -> None:
    written = old_run(tmp_path / "run", {*CACHES, *LOGS})
    lines = written.journal.read_bytes().splitlines(keepends=True)
    written.journal.write_bytes(b"".join([*lines[:3], b"{\n", *lines[4:-1]]))
    written.run.status.unlink()
    ((_, reason),) = plan_clean(CleanRequest(references=[str(written.run.root)]), now=AFTER).skipped
    assert reason.startswith("its journal is damaged, so its end is not known")
    assert "longshore verify" in reason


def test_caches_of_the_user_and_unfinished_runs_go_when_no_run_is_named(tmp_path: Path) -> None:
    run = old_run(tmp_path / "runs" / "run", set()).run
    old, young = state_folder() / "probes" / "a.json", state_folder() / "probes" / "b.json"
    for path, at in ((old, NOW), (young, AFTER)):
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}", "utf-8")
        os.utime(path, (at, at))
    draft = run.root.parent / ".next.0123456789ab.draft"
    (draft / "wms").mkdir(parents=True)
    (draft / "wms" / "x").write_text("x", "utf-8")
    archive = run.root.parent / "..run.tar.xz.0123456789ab.draft.ba9876543210.draft"
    archive.write_bytes(b"x")
    for path in (draft / "wms" / "x", draft, archive):
        os.utime(path, (NOW, NOW))
    plan = plan_clean(CleanRequest(), now=AFTER)
    assert {file.path for file in plan.files} == {old, draft, archive}
    clean(plan, now=AFTER)
    assert not old.exists()
    assert not draft.exists()
    assert young.exists()
    assert run.card.exists()


def keeper_file(run: RunPaths, tmp: Path, *, host: str = "") -> Path:
    """The file of a keeper that had a folder for the temporary directories of attempts."""
    record = KeeperRecord(pid=1, host=host or host_name(), boot="b", tmp=str(tmp))
    run.keeper.mkdir(exist_ok=True)
    path = run.keeper / f"{tmp.name}.jsonl"
    path.write_bytes(msgspec.json.encode(record) + b"\n")
    return path


def test_temporary_directories_that_killed_keepers_left_go(tmp_path: Path) -> None:
    run = old_run(tmp_path / "run", set()).run
    folders = [tmp_path / f"{temporary_prefix()}{name}" for name in ("left", "gone", "damaged", "far", "link")]
    left, gone, damaged, far, link = folders
    strange = tmp_path / "strange"
    for folder in (left, damaged, far, strange):
        (folder / "0.1").mkdir(parents=True)
        (folder / "0.1" / "data").write_text("12345", "utf-8")
    link.symlink_to(strange)
    for folder in (left, gone, link, strange):
        keeper_file(run, folder)
    keeper_file(run, far, host="other")
    path = keeper_file(run, damaged)
    path.write_bytes(path.read_bytes()[:-2])
    plan = plan_clean(CleanRequest(references=[str(run.root)]), now=AFTER)
    assert [(file.path, file.kind, file.size_b) for file in plan.files] == [(left, RemovableKind.TEMPORARY, 5)]
    assert not clean(plan, now=AFTER).failed
    assert not left.exists()
    assert all(folder.exists() for folder in (damaged, far, strange))


def test_a_damaged_run_is_skipped_with_the_reason(tmp_path: Path) -> None:
    run = old_run(tmp_path / "run", {*CACHES, *LOGS}).run
    run.card.write_text("{", "utf-8")
    plan = plan_clean(CleanRequest(), now=AFTER)
    assert not plan.files
    ((name, reason),) = plan.skipped
    assert name == "k7f3aa"
    assert str(run.card) in reason
    run.card.unlink()
    run.root.rename(tmp_path / "moved")
    assert plan_clean(CleanRequest(), now=AFTER).skipped == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_a_run_of_another_user_is_not_cleaned(tmp_path: Path) -> None:
    run = old_run(tmp_path / "run", {*CACHES, *LOGS}).run
    os.chown(run.root, 12345, 12345)
    with pytest.raises(SubmissionRefusedError, match="belongs to the user '12345'"):
        plan_clean(CleanRequest(references=[str(run.root)]), now=AFTER)
    assert not plan_clean(CleanRequest(), now=AFTER).files
