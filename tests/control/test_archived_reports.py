"""What a report of an archived run names is there when others read the report: no file in a cache of the reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.progress_notes import ProgressNotes
from tests.written_run import WrittenRun, finished_run

from longshore.control.archive import archive_run
from longshore.errors import RunNotFoundError, SubmissionRefusedError
from longshore.model.report import RunReport
from longshore.reports.report import report_run
from longshore.reports.rerun_commands import rerun_commands
from longshore.rundir.registry import RegistryEntry, state_folder, write_entry
from longshore.rundir.run_directory import Access, read_card, require_access
from longshore.runstate.open_run import OpenRun, open_run


@pytest.fixture
def archived(tmp_path: Path) -> OpenRun:
    """A run with a failed job, in an archive of another name in a folder with a space."""
    written = finished_run(tmp_path / "my runs" / "run")
    write_log(written)
    write_entry(RegistryEntry.of(read_card(written.run), str(written.run.root)))
    output = tmp_path / "my runs" / "other.tar.gz"
    archive_run(open_run(str(written.run.root)), output, remove=True, progress=ProgressNotes())
    return open_run("k7f3aa")


def write_log(written: WrittenRun) -> None:
    """Write the log of the failed job, and the script that runs a job by hand."""
    folder = written.run.logs / "a" / "00"
    folder.mkdir(parents=True)
    (folder / "j2.1.log").write_text("ValueError: boom\n", "utf-8")
    written.run.wms.mkdir()
    (written.run.wms / "run-job").write_text("#!/bin/sh\n", "utf-8")


def commands_of(opened: OpenRun, report: RunReport) -> list[str]:
    return [each.command for each in rerun_commands(opened, report)]


def test_a_failure_names_the_archive_and_the_path_of_the_log_in_the_run(archived: OpenRun) -> None:
    report = report_run(archived, details=False)
    assert report.summary is not None
    (failure,) = report.summary.failures
    assert failure.tail == ("ValueError: boom",)
    assert failure.log == f"{archived.directory}/logs/a/00/j2.1.log"
    assert failure.by_hand is None


def test_an_archived_run_is_run_again_from_its_unpacked_directory(archived: OpenRun, tmp_path: Path) -> None:
    folder = tmp_path / "my runs"
    commands = commands_of(archived, report_run(archived, details=False))
    assert commands == [
        f"longshore logs '{folder}/other.tar.gz' --failed",
        f"tar -xkf '{folder}/other.tar.gz' -C '{folder}'",
        f"longshore adopt '{folder}/run'",
        f"longshore restart '{folder}/run' --dry-run",
        f"longshore restart '{folder}/run'",
        f"longshore restart '{folder}/run' --with-changes",
    ]
    assert str(state_folder()) not in "".join(commands)
    with pytest.raises(SubmissionRefusedError) as refused:
        require_access(archived.run, Access.ACT)
    assert refused.value.hint == f"Unpack it first: {commands[1]} && {commands[2]}"


def test_a_run_directory_has_its_own_commands(tmp_path: Path) -> None:
    written = finished_run(tmp_path / "run")
    write_log(written)
    opened = open_run(str(written.run.root))
    report = report_run(opened, details=False)
    assert report.summary is not None
    assert report.summary.failures[0].by_hand == f"{written.run.wms}/run-job j2"
    assert f"longshore restart {opened.reference}" in commands_of(opened, report)
    assert not any(command.startswith("tar") for command in commands_of(opened, report))


def test_an_archive_that_was_removed_is_not_called_a_directory(archived: OpenRun) -> None:
    archived.directory.unlink()
    with pytest.raises(RunNotFoundError, match=rf"there is no archive '{archived.directory}'"):
        open_run("k7f3aa")
