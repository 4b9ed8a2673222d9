"""A damaged file of a run is named, and never blocks, crashes a command or hides another run."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import WriteRun, in_place

from longshore.control.resume import resume, resume_all
from longshore.errors import LongshoreError
from longshore.model.states import JobState
from longshore.reports.explain import explain_job
from longshore.reports.logs import find_logs
from longshore.reports.report import report_run
from longshore.reports.run_list import RunQuery, list_runs
from longshore.reports.show_job import show_job
from longshore.reports.status import status_run
from longshore.runstate.events import RunEvents
from longshore.runstate.open_run import open_run

LONGEST_S = 10.0
"""Time that a look at one damaged run may take on a busy machine; a command that blocks takes for ever."""


def put_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + b"\xff" + content[len(content) // 2 + 1 :])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def nest(path: Path) -> None:
    path.write_bytes(b'{"a":' * 100_000)


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def replace_by_circle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def forbid(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read anything")
    path.chmod(0)


DAMAGES = [put_byte, replace_by_pipe]
MORE_DAMAGES = [empty, cut, nest, replace_by_folder, replace_by_circle, forbid]


def submitted(cli: Cli, path: Path, number: int, *, returncode: int = 0) -> Path:
    done = cli("submit", path, "--wait", "--json", *in_place(number))
    assert done.returncode == returncode, done.stderr
    return Path(done.json["submit_dir"])


def files_of(run: Path) -> list[Path]:
    """The files of a run that Longshore reads, relative to its directory."""
    found = [path.relative_to(run) for path in sorted(run.rglob("*")) if path.is_file() and path.stat().st_size]
    return [path for path in found if path.parts[0] not in {"inputs", "logs"}]


def look(run: Path) -> list[str]:
    """Look at a run in every way; return the errors that are not Longshore's own."""
    looks: list[Callable[[], object]] = [
        lambda: status_run(open_run(str(run)), check=True),
        lambda: report_run(open_run(str(run)), details=True),
        lambda: list(RunEvents(open_run(str(run)))),
        lambda: explain_job(open_run(str(run)), "a"),
        lambda: show_job(open_run(str(run)), "a"),
        lambda: find_logs(open_run(str(run))),
        lambda: resume(open_run(str(run))),
    ]
    problems = []
    for number, each in enumerate(looks):
        began = time.monotonic()
        try:
            each()
        except LongshoreError as error:
            if "unexpected" in error.message:
                problems.append(f"look {number}: {error.message}")
        except Exception as error:  # noqa: BLE001 - which one it is, is the result
            problems.append(f"look {number}: {type(error).__name__}: {error}")
        if time.monotonic() - began > LONGEST_S:
            problems.append(f"look {number}: it took {time.monotonic() - began:.0f} s")
    return problems


@pytest.mark.timeout(280)
@pytest.mark.parametrize("damage", [*DAMAGES, *(pytest.param(each, marks=pytest.mark.full) for each in MORE_DAMAGES)])
def test_a_damaged_file_of_one_run_neither_crashes_nor_hides_another(
    cli: Cli, write_run: WriteRun, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = write_run()
    bad, whole = submitted(cli, path, 1), submitted(cli, path, 2)
    assert cli("report", "--id", bad).returncode == 0
    kept = tmp_path / "kept"
    shutil.copytree(bad, kept, symlinks=True)
    problems = []
    for name in files_of(kept):
        damage(bad / name)
        problems += [f"{name}: {problem}" for problem in look(bad)]
        shown = {report.path: report.state for report in list_runs(RunQuery(days=1.0), now=time.time()).reports}
        if shown.get(str(whole)) != JobState.SUCCEEDED:
            problems.append(f"{name}: the other run is not listed")
        resume_all()
        shutil.rmtree(bad)
        shutil.copytree(kept, bad, symlinks=True)
    assert not problems


def test_an_unreadable_run_is_named_by_commands_for_all_runs(cli: Cli, write_run: WriteRun) -> None:
    path = write_run()
    whole, bad = submitted(cli, path, 1), submitted(cli, path, 2)
    (bad / "run.json").write_bytes(b"\xff")
    (bad / "status.json").write_bytes(b"\xff")
    listed = cli("report", "--hist", "1")
    assert listed.returncode == 0
    assert "run.json' cannot be read" in listed.stderr
    assert "SUCCEEDED" in listed.stdout
    assert status_run(open_run(str(whole)), check=True).state is JobState.SUCCEEDED
    resumed = cli("resume", "--all")
    assert resumed.returncode == 0
    assert "run.json' cannot be read" in resumed.stderr


@pytest.mark.parametrize("content", [b"\xff", b"", b"{", b'{"a":' * 100_000])
def test_a_damaged_snapshot_is_as_if_absent(cli: Cli, write_run: WriteRun, content: bytes) -> None:
    run = submitted(cli, write_run(), 1)
    (run / "status.json").write_bytes(content)
    assert cli("status", run).stdout == "SUCCEEDED\n"
    assert cli("report", "--id", run).returncode == 0
    assert cli("resume", "--all").returncode == 0


@pytest.mark.parametrize("damage", [put_byte, empty, replace_by_folder, replace_by_pipe, replace_by_circle])
def test_damaged_files_of_the_state_directory_hide_no_run(
    cli: Cli, write_run: WriteRun, own_environment: Path, damage: Callable[[Path], None]
) -> None:
    path = write_run()
    runs = [submitted(cli, path, number) for number in (1, 2)]
    state = own_environment / ".local" / "state" / "longshore"
    bad = open_run(str(runs[0])).card.id
    for file in sorted(state.rglob("*")):
        if file.is_file() and file.stat().st_size and (file.parent.name != "runs" or file.stem == bad):
            damage(file)
    assert str(runs[1]) in {report.path for report in list_runs(RunQuery(days=1.0), now=time.time()).reports}
    assert cli("report", "--hist", "1").returncode == 0
    assert cli("resume", "--all").returncode == 0
    submitted(cli, path, 3)


def lose_all_but_the_cards(run: Path) -> None:
    """Leave only the record that the run was submitted."""
    for name in ("journal", "keeper"):
        shutil.rmtree(run / name)
    (run / "status.json").unlink()


def lose_journal(run: Path) -> None:
    for path in (run / "journal").iterdir():
        path.unlink()


def lose_journal_and_snapshot(run: Path) -> None:
    lose_journal(run)
    (run / "status.json").unlink()


@pytest.mark.parametrize("lose", [lose_journal, lose_journal_and_snapshot, lose_all_but_the_cards])
def test_a_finished_run_without_its_journal_is_never_run_again_unasked(
    cli: Cli, write_run: WriteRun, tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    run = submitted(cli, write_run(f"runQuantumCommand: sh -c 'echo x >> {tmp_path}/notes'\n"), 1)
    lose(run)
    for command, *options in [("resume",), ("resume", "--take-over"), ("resume", "--force"), ("restart",)]:
        refused = cli(command, run, *options)
        assert refused.returncode == 6, (command, options)
        assert "journal" in refused.stderr, (command, options)
        assert "back" in refused.stderr, (command, options)
        assert (tmp_path / "notes").read_text("utf-8") == "x\n", (command, options)


def test_resume_names_the_life_that_a_journal_lacks(cli: Cli, write_run: WriteRun) -> None:
    run = submitted(cli, write_run("runQuantumCommand: 'false'\n", name="bad.yaml"), 1, returncode=19)
    assert cli("restart", run).returncode == 0
    assert cli("report", "--id", run, "--watch").returncode == 19
    (run / "journal" / "0001.jsonl").unlink()
    refused = cli("resume", run)
    assert refused.returncode == 6
    assert "0001.jsonl" in refused.stderr
