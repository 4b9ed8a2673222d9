"""A run in an archive is read as before, and its directory goes only after the archive was compared with it."""

from __future__ import annotations

import bz2
import errno
import fcntl
import gzip
import io
import os
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.progress_notes import ProgressNotes
from tests.written_run import NOW, WrittenRun, finished_run

from longshore.contract.service import RunPaths
from longshore.control.adopt import adopt
from longshore.control.archive import ArchiveProgress, ArchiveResult, archive_run
from longshore.control.clean import CleanRequest, RemovableKind, clean, plan_clean
from longshore.errors import (
    FilesError,
    LongshoreError,
    RunNotFoundError,
    RunUnreadableError,
    SubmissionRefusedError,
    UsageError,
)
from longshore.model.notice import NoticeEvent, NoticeRule
from longshore.model.states import JobState
from longshore.reports.logs import find_logs, read_log
from longshore.reports.report import report_run
from longshore.reports.run_list import RunQuery, list_runs
from longshore.reports.status import status_run
from longshore.rundir import notices as notifier_process
from longshore.rundir.archived_runs import unpack_archive
from longshore.rundir.notices import encode_notice_rules
from longshore.rundir.registry import RegistryEntry, registered_path, remove_entry, state_folder, write_entry
from longshore.rundir.run_archive import write_archive
from longshore.rundir.run_directory import Access, read_card, require_access
from longshore.runstate.open_run import open_run
from longshore.system.files import files
from longshore.system.reading import read_tail
from longshore.system.sharing import take_lock


@pytest.fixture
def written(tmp_path: Path) -> WrittenRun:
    """A registered run that is over, with a log and an output."""
    written = finished_run(tmp_path / "runs" / "run", retries=1)
    (written.run.logs / "a" / "00").mkdir(parents=True)
    (written.run.logs / "a" / "00" / "j0.1.log").write_text("hello\n", "utf-8")
    (written.run.root / "output.fits").write_bytes(b"0" * 1000)
    write_entry(RegistryEntry.of(read_card(written.run), str(written.run.root)))
    return written


def archive(written: WrittenRun, output: Path | None = None, *, remove: bool = False) -> ArchiveResult:
    return archive_run(open_run(str(written.run.root)), output, remove=remove, progress=ProgressNotes())


def test_an_archive_is_read_like_the_run(written: WrittenRun, tmp_path: Path) -> None:
    before = report_run(open_run(str(written.run.root)), details=True)
    result = archive(written)
    assert result.path == written.run.root.with_name("run.tar.xz")
    opened = open_run(str(result.path))
    after = report_run(opened, details=True)
    assert after.path == str(result.path)
    assert (after.state, after.labels, after.finished_at) == (before.state, before.labels, before.finished_at)
    assert [(job.name, job.state, job.attempts) for job in after.jobs or ()] == [
        (job.name, job.state, job.attempts) for job in before.jobs or ()
    ]
    (log,) = find_logs(opened, job="j0").logs
    assert log.path.read_text("utf-8") == "hello\n"
    assert not (opened.run.root / "output.fits").exists()
    assert opened.run.root.stat().st_mode & 0o777 == 0o700
    assert opened.reference == str(result.path)
    # To look at an archive does not change where the id leads.
    assert registered_path("k7f3aa") == str(written.run.root)
    assert archive(written, tmp_path / "again.tar.xz").path.read_bytes() == result.path.read_bytes()


def test_the_id_leads_to_the_archive_once_the_directory_is_removed(written: WrittenRun) -> None:
    result = archive(written, remove=True)
    assert result.removed
    assert [path.name for path in written.run.root.parent.iterdir()] == ["run.tar.xz"]
    assert open_run("k7f3aa").directory == result.path
    (report,) = list_runs(RunQuery(), now=time.time()).reports
    assert (report.id, report.path) == ("k7f3aa", str(result.path))
    with pytest.raises(SubmissionRefusedError, match="can only be looked at"):
        require_access(open_run("k7f3aa").run, Access.ACT)
    with pytest.raises(SubmissionRefusedError, match="it is an archive"):
        archive_run(open_run("k7f3aa"), None, remove=True, progress=ProgressNotes())


class Killed(BaseException):
    """The end of the process."""


@pytest.mark.parametrize("call", ["fsync", "rename", "replace", "unlink", "rmdir"])
def test_a_removal_that_is_killed_leaves_the_run_or_its_archive(
    written: WrittenRun, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    before = report_run(open_run(str(written.run.root)), details=True).jobs

    def kill(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, call, kill)
        with pytest.raises(Killed):
            archive(written, remove=True)
    after = report_run(open_run("k7f3aa"), details=True).jobs
    assert [(job.name, job.state) for job in after or ()] == [(job.name, job.state) for job in before or ()]


def test_what_would_be_lost_is_not_removed(written: WrittenRun, tmp_path: Path) -> None:
    (written.run.root / "link").symlink_to("output.fits")
    with pytest.raises(FilesError, match="links, pipes or sockets, which an archive does not have: link"):
        archive(written, remove=True)
    assert archive(written).left_out == ("link",)
    for output in ("run.zip", "runs/run.tar.xz", "runs/run/x.tar.xz"):
        with pytest.raises((UsageError, FilesError)):
            archive(written, tmp_path / output)
    lines = written.journal.read_bytes().splitlines(keepends=True)
    written.journal.write_bytes(b"".join(lines[:-1]))
    written.run.status.unlink()
    (written.run.journal / "end.json").unlink()
    with pytest.raises(SubmissionRefusedError, match="it is not over"):
        archive(written, tmp_path / "live.tar.xz")


def test_an_archive_is_closed_if_a_file_of_the_run_is(written: WrittenRun, tmp_path: Path) -> None:
    assert archive(written, tmp_path / "open.tar.gz").path.stat().st_mode & 0o044
    (written.run.root / "output.fits").chmod(0o600)
    assert archive(written, tmp_path / "closed.tar.gz").path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("name", "mode", "expected"),
    [
        (".", 0o700, 0o600),
        (".", 0o750, 0o640),
        ("logs/a", 0o711, 0o600),
        ("logs/a", 0o744, 0o600),
        ("logs", 0o705, 0o604),
        ("output.fits", 0o640, 0o640),
        ("output.fits", 0o604, 0o604),
        ("output.fits", 0o444, 0o644),
    ],
)
def test_only_users_who_may_read_all_of_a_run_may_read_its_archive(
    written: WrittenRun, tmp_path: Path, name: str, mode: int, expected: int
) -> None:
    for path in (written.run.root, *written.run.root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (written.run.root / name).chmod(mode)
    assert archive(written, tmp_path / "run.tar.gz").path.stat().st_mode & 0o777 == expected


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another group")
def test_an_archive_of_another_group_is_closed_to_that_group(written: WrittenRun, tmp_path: Path) -> None:
    os.chown(written.run.root / "output.fits", -1, 12345)
    (written.run.root / "output.fits").chmod(0o640)
    assert archive(written, tmp_path / "run.tar.gz").path.stat().st_mode & 0o777 == 0o600


def test_a_directory_that_cannot_be_removed_is_named_and_found_by_clean(
    written: WrittenRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, *, dir_fd: int) -> None:
        if name == "output.fits":
            raise PermissionError(13, "Permission denied", name)
        unlink(name, dir_fd=dir_fd)

    unlink = files.unlink
    (tmp_path / "archives").mkdir()
    output = tmp_path / "archives" / "run.tar.gz"
    with monkeypatch.context() as patch:
        patch.setattr(files, "unlink", refuse)
        with pytest.raises(FilesError, match=r"still has output\.fits\n") as caught:
            archive(written, output, remove=True)
    (rest,) = written.run.root.parent.iterdir()
    assert caught.value.hint == f"To remove the rest: chmod -R u+rwX {rest} && rm -r {rest}"
    assert open_run("k7f3aa").directory == output
    plan = plan_clean(CleanRequest(), now=time.time() + 1e6)
    assert [file.path for file in plan.files if file.kind is RemovableKind.TEMPORARY] == [rest]
    clean(plan, now=NOW)
    assert not rest.exists()


def test_a_directory_that_cannot_be_renamed_stays_the_run(written: WrittenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, target: str, **folders: int) -> None:
        if name == written.run.root.name:
            raise PermissionError(13, "Permission denied", name)
        rename(name, target, **folders)

    rename = files.rename
    with monkeypatch.context() as patch:
        patch.setattr(files, "rename", refuse)
        with pytest.raises(FilesError, match=r"is written, and '.*/run' stays"):
            archive(written, remove=True)
    assert open_run("k7f3aa").directory == written.run.root


@pytest.mark.parametrize(
    ("operation", "expected"), [(fcntl.LOCK_EX, "it is in progress"), (fcntl.LOCK_SH, "an engine of it is at work")]
)
def test_a_run_whose_lock_is_held_is_refused(
    written: WrittenRun, tmp_path: Path, operation: int, expected: str
) -> None:
    assert status_run(open_run(str(written.run.root))).state is JobState.FAILED
    written.run.engine_lock.touch()
    with written.run.engine_lock.open() as lock:
        # A shared lock hides from a look, as the lock of an engine does that starts right after it.
        files.flock(lock.fileno(), operation)
        with pytest.raises(SubmissionRefusedError, match=expected):
            archive(written, tmp_path / "run.tar.gz")


class Notifier(ProgressNotes):
    """A notifier at work, which has sent its last notice when it is waited for."""

    def __init__(self, run: RunPaths) -> None:
        super().__init__()
        rule = NoticeRule(name="mail", events=(NoticeEvent.END,), command="cat", timeout_s=5.0)
        run.notice_rules.write_bytes(encode_notice_rules([rule]))
        self.lock = take_lock(run.notice_lock, below=run.root)

    def stage(self, text: str) -> None:
        if "the last notices" in text:
            self.notes.append(text)
            self.lock.release()


def test_the_last_notices_are_waited_for(written: WrittenRun) -> None:
    notifier = Notifier(written.run)
    archive_run(open_run(str(written.run.root)), None, remove=True, progress=notifier)
    assert notifier.notes == ["waiting until the last notices of run 'k7f3aa' are sent"]
    assert not written.run.root.exists()


def test_notices_that_are_sent_for_ever_are_told(written: WrittenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier_process, "_LAST_LOOK_S", -4.9)
    with Notifier(written.run).lock, pytest.raises(SubmissionRefusedError, match="its notices are still being sent"):
        archive(written, remove=True)
    assert written.run.root.exists()


def test_caches_are_left_out(written: WrittenRun, tmp_path: Path) -> None:
    """Commands that only look write them, also while an archive is made."""
    without = archive(written, tmp_path / "without.tar.gz")
    written.run.cache.mkdir()
    (written.run.cache / "report.json").write_text("{}")
    (written.run.cache / "link").symlink_to("report.json")
    result = archive(written, tmp_path / "with.tar.gz", remove=True)
    assert result.path.read_bytes() == without.path.read_bytes()
    assert not written.run.root.exists()


@pytest.mark.parametrize("remove", [False, True])
def test_a_lock_that_cannot_be_taken_hinders_a_removal_only(
    written: WrittenRun, monkeypatch: pytest.MonkeyPatch, *, remove: bool
) -> None:
    open_file = files.open

    def refuse(path: str, flags: int, *rest: int, dir_fd: int | None = None) -> int:
        if path == written.run.engine_lock.name and flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied", path)
        return open_file(path, flags, *rest, dir_fd=dir_fd)

    written.run.engine_lock.touch()
    with monkeypatch.context() as patch:
        patch.setattr(files, "open", refuse)
        if remove:
            with pytest.raises(FilesError, match="cannot be locked: Permission denied"):
                archive(written, remove=True)
        else:
            assert archive(written).path.exists()
    assert written.run.root.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_a_run_of_another_user_is_not_locked(written: WrittenRun, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(written.run.root, 12345, -1)
    written.run.engine_lock.touch()
    exclusive = []
    monkeypatch.setattr(files, "flock", lambda _, operation: exclusive.append(operation & 2))
    assert archive(written).path.exists()
    assert not any(exclusive)


def test_an_archive_below_a_name_that_is_no_text_is_read(written: WrittenRun, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        archive(written, folder / "run.tar.gz", remove=True)
    path = archive(written, folder / "run.tar.gz").path
    assert report_run(open_run(str(path)), details=False).path == str(path)
    assert open_run(str(path)).directory == path


def test_an_archive_is_not_cleaned(written: WrittenRun) -> None:
    path = archive(written, remove=True).path
    plan = plan_clean(CleanRequest(references=[str(path)]), now=time.time())
    assert (plan.files, plan.skipped) == ((), (("k7f3aa", "it is an archive"),))


def test_unpacked_archives_are_few_and_can_be_removed(written: WrittenRun, tmp_path: Path) -> None:
    for number in range(10):
        path = archive(written, tmp_path / f"{number}.tar.gz").path
        root = unpack_archive(path).root
        assert unpack_archive(path).root == root
        os.utime(root, (NOW, NOW - 1e8 + number))
    kept = sorted((state_folder() / "archives").iterdir())
    assert len(kept) == 8
    assert root in kept
    plan = plan_clean(CleanRequest(kinds=[RemovableKind.CACHES]), now=NOW)
    assert sorted(file.path for file in plan.files if file.is_folder) == kept
    clean(plan, now=NOW)
    assert not list((state_folder() / "archives").iterdir())


def test_what_was_removed_of_an_unpacked_archive_is_unpacked_again(written: WrittenRun) -> None:
    path = archive(written).path
    root = unpack_archive(path).root
    (root / "archive.json").unlink()
    (root / "run.json").unlink()
    assert read_card(unpack_archive(path)).id == "k7f3aa"


def test_a_file_that_is_no_archive_of_a_run_is_refused(written: WrittenRun, tmp_path: Path) -> None:
    whole = archive(written).path.read_bytes()
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LongshoreError, match=r"the archive '.*' is damaged"):
        open_run(str(cut))
    (written.run.root / "run.json").rename(tmp_path / "run.json")
    other = tmp_path / "other.tar.gz"
    with other.open("wb") as stream:
        write_archive(written.run.root, stream, suffix=".tar.gz")
    with pytest.raises(RunNotFoundError, match="there is no run in the archive"):
        open_run(str(other))
    assert not list((state_folder() / "archives").iterdir())


def test_the_id_of_an_adopted_archive_leads_to_it(written: WrittenRun, tmp_path: Path) -> None:
    path = archive(written, tmp_path / "kept.tar.gz").path
    (refused,) = adopt([path])
    assert refused.error is not None
    assert f"'{written.run.root}' as well" in refused.error.message, "the directory is the run"
    remove_entry("k7f3aa")
    (adopted,) = adopt([path])
    assert (adopted.error, adopted.former_path) == (None, None)
    assert registered_path("k7f3aa") == str(path)
    (listed,) = list_runs(RunQuery(), now=time.time()).reports
    assert (listed.id, listed.state) == ("k7f3aa", JobState.FAILED)
    assert status_run(open_run("k7f3aa")).state is JobState.FAILED
    path.write_bytes(b"no archive")
    (damaged,) = adopt([path])
    assert damaged.error is not None
    assert "is damaged, or none" in damaged.error.message


def test_progress_is_reported_every_few_seconds() -> None:
    stages: list[str] = []
    notes = ProgressNotes()
    notes.stage = stages.append  # type: ignore[method-assign, assignment]
    now = [0.0]
    progress = ArchiveProgress(notes, "writing", 4 << 20, clock=lambda: now[0])
    for at in (0.0, 4.9, 5.0, 6.0, 11.0):
        now[0] = at
        progress.add(1 << 19)
    assert stages == ["writing", "writing: 1.5 MiB of 4 MiB", "writing: 2.5 MiB of 4 MiB"]


def test_a_log_with_a_hole_takes_no_room_once_it_is_unpacked(written: WrittenRun) -> None:
    log = written.run.logs / "a" / "00" / "j0.1.log"
    with log.open("r+b") as file:
        file.truncate(30 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"end\n")
        file.truncate(60 << 20)
    unpacked = open_run(str(archive(written).path)).run.logs / "a" / "00" / "j0.1.log"
    assert b"".join(read_log(unpacked)) == log.read_bytes()
    assert unpacked.stat().st_size == log.stat().st_size
    assert unpacked.stat().st_blocks * 512 < 8 << 20


def test_only_the_end_of_a_long_log_is_unpacked_and_all_of_it_is_read(written: WrittenRun, tmp_path: Path) -> None:
    log = written.run.logs / "a" / "00" / "j0.1.log"
    log.write_bytes(b"".join(b"line %d\n" % number for number in range(30_000)))
    unpacked = open_run(str(archive(written, tmp_path / "x.tar.gz").path)).run.logs / "a" / "00" / "j0.1.log"
    assert unpacked.stat().st_blocks * 512 < 1 << 17
    assert read_tail(unpacked, 2) == ("line 29998", "line 29999")
    assert b"".join(read_log(unpacked)) == log.read_bytes()
    assert b"".join(read_log(unpacked, tail=1)) == b"line 29999\n"


def pack(path: Path, members: Iterable[tuple[str, bytes]]) -> Path:
    output = io.BytesIO()
    with tarfile.TarFile(fileobj=output, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    path.write_bytes((gzip if path.suffix == ".gz" else bz2).compress(output.getvalue()))
    return path


def test_an_archive_with_more_than_a_run_of_so_many_jobs_has_is_refused(written: WrittenRun, tmp_path: Path) -> None:
    card = ("run/run.json", written.run.card.read_bytes())
    many = pack(tmp_path / "many.tar.gz", [card, *((f"run/logs/{number}", b"") for number in range(2_000))])
    with pytest.raises(RunUnreadableError, match=r"its member 'logs/\d+' is one too many: it has 6 jobs"):
        open_run(str(many))
    large = pack(tmp_path / "large.tar.gz", [card, ("run/journal/0001.jsonl", bytes(64 << 20))])
    with pytest.raises(RunUnreadableError, match=r"its files up to 'journal/0001\.jsonl' have 67,"):
        open_run(str(large))
    first = pack(tmp_path / "first.tar.bz2", [("run/run.json", bytes(64 << 20))])
    with pytest.raises(RunUnreadableError, match=r"its files up to 'run\.json' have 67,"):
        open_run(str(first))
    assert not list((state_folder() / "archives").iterdir())


def test_a_relative_output_needs_a_current_directory(
    written: WrittenRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(FilesError, match="the current directory is gone"):
        archive(written, Path("x.tar.xz"))


def test_damage_of_the_run_is_named_and_its_directory_stays(written: WrittenRun, tmp_path: Path) -> None:
    workflow = written.run.workflow
    workflow.write_bytes(workflow.read_bytes()[:100])
    with pytest.raises(SubmissionRefusedError, match="is damaged, so its directory is not removed"):
        archive(written, remove=True)
    assert not list(written.run.root.parent.glob("*.tar.*"))
    (damage,) = archive(written).damages
    assert damage.path == str(workflow)


def test_an_archive_that_cannot_be_written_is_named_with_the_way_out(
    written: WrittenRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FilesError) as refused:
        archive(written, tmp_path / "no" / "x.tar.xz")
    assert refused.value.hint == f"Make it: mkdir -p {tmp_path}/no"

    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "fsync", fill)
    with pytest.raises(FilesError) as refused:
        archive(written, tmp_path / "x.tar.xz")
    assert f"'{tmp_path}/x.tar.xz': the file system '" in refused.value.message
    assert refused.value.hint == "Make room there, or name a file elsewhere: --output FILE."


def test_an_archive_of_an_archive_has_no_hint_on_how_to_end_it(written: WrittenRun) -> None:
    result = archive(written)
    with pytest.raises(SubmissionRefusedError, match="it is an archive") as refused:
        archive_run(open_run(str(result.path)), None, remove=False, progress=ProgressNotes())
    assert "end it" not in refused.value.hint
