"""An engine that cannot be started is an error with the way out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Timer

import msgspec
import pytest
from tests.journal_lines import lines_of

from longshore.contract.context import RunPaths
from longshore.engine.journal.chain import life_path
from longshore.engine.launch import new_life
from longshore.engine.launch.new_life import refuse_if_alive, start_life
from longshore.engine.rundir.engine_lock import lock_run
from longshore.engine.rundir.liveness import is_engine_alive
from longshore.errors import SubmissionRefusedError
from longshore.model.run.event import FORMAT, Life
from longshore.services.local.service import LocalService
from longshore.testing.runs import write_run
from longshore.world.host import boot_id, host_name


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return write_run(tmp_path / "my run", {"a_1": ()})


def test_an_engine_without_a_log_is_told_with_the_way_out(run: RunPaths) -> None:
    run.engine_log.mkdir(parents=True)
    with pytest.raises(SubmissionRefusedError) as caught:
        LocalService().start_engine(run, "resume")
    assert caught.value.message.startswith(f"the engine of '{run.root}' cannot be started: '{run.engine_log}'")
    assert caught.value.hint == f"Remove the cause, then: longshore resume '{run.root}'"


REFUSED = [sys.executable, "-c", "raise SystemExit('it already has an engine')"]
"""Command of an engine that finds another one."""


def test_an_engine_that_gives_way_to_one_about_to_begin_is_not_told_as_a_failure(run: RunPaths) -> None:
    path = life_path(run.journal, 1)
    other = Life(v=FORMAT, life=1, t=9.0, host="here", pid=7, boot="b", by="resume")
    later = Timer(0.5, lambda: path.write_bytes(lines_of([other])))
    later.start()
    with lock_run(run), pytest.raises(SubmissionRefusedError) as caught:
        start_life(run, REFUSED)
    assert caught.value.message.startswith("engine 1 (process 7 of '")
    assert caught.value.message.endswith(f"has just taken '{run.root}' over, and this command did not")


def of_dead_engine() -> Life:
    """The life of an engine of this host and boot that is no process any more."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return Life(v=FORMAT, life=1, t=9.0, host=host_name(), pid=process.pid, boot=boot_id(), by="submit")


def write_life(run: RunPaths, life: Life) -> None:
    life_path(run.journal, life.life).write_bytes(lines_of([life]))


@pytest.mark.parametrize("pid", [None, 2**70])
@pytest.mark.parametrize("boot", [None, "an earlier one"])
def test_an_engine_about_to_begin_is_the_one_that_is_told(run: RunPaths, pid: int | None, boot: str | None) -> None:
    gone = of_dead_engine()
    write_life(run, msgspec.structs.replace(gone, pid=pid or gone.pid, boot=boot or gone.boot))
    here = msgspec.structs.replace(gone, life=2, pid=os.getpid(), by="resume")
    Timer(0.5, lambda: write_life(run, here)).start()
    with lock_run(run), pytest.raises(SubmissionRefusedError) as caught:
        refuse_if_alive(run, is_engine_alive)
    assert f"its engine is alive: engine 2 (process {os.getpid()} of '" in caught.value.message


def test_an_engine_that_had_begun_before_is_told_at_once(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    write_life(run, msgspec.structs.replace(of_dead_engine(), pid=os.getpid()))
    with lock_run(run):
        with pytest.raises(SubmissionRefusedError, match=rf"^engine 1 \(process {os.getpid()} of .*taken"):
            start_life(run, REFUSED)

        def refuse(_pid: int, _number: int) -> None:
            raise PermissionError

        # As for the process of another user.
        monkeypatch.setattr(os, "kill", refuse)
        with pytest.raises(SubmissionRefusedError, match=rf"^engine 1 \(process {os.getpid()} of .*taken"):
            start_life(run, REFUSED)


def test_an_engine_that_never_begins_is_not_named(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_life, "_START_TIMEOUT_S", 0.3)
    monkeypatch.setattr(new_life, "_END_TIMEOUT_S", 0.1)
    write_life(run, of_dead_engine())
    with lock_run(run):
        with pytest.raises(SubmissionRefusedError, match="did not begin: it already has an engine"):
            start_life(run, REFUSED)
        with pytest.raises(SubmissionRefusedError, match=r"is RUNNING: its engine is alive\n"):
            refuse_if_alive(run, is_engine_alive)
        life_path(run.journal, 1).write_bytes(b"no life\n")
        with pytest.raises(SubmissionRefusedError, match="did not begin: it already has an engine"):
            start_life(run, REFUSED)


def test_an_engine_that_ends_at_once_did_not_begin(run: RunPaths) -> None:
    with pytest.raises(SubmissionRefusedError) as caught:
        start_life(run, REFUSED)
    assert caught.value.message == f"the engine of '{run.root}' did not begin: it already has an engine"
