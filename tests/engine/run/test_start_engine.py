"""An engine that cannot be started is an error with the way out."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from longshore.contract.service import RunPaths, Unreachable
from longshore.engine.run.processes import refuse_if_alive, wait_for_life
from longshore.errors import SubmissionRefusedError
from longshore.model.event import FORMAT, Life
from longshore.rundir.journal import Journal
from longshore.rundir.liveness import has_local_engine, lock_run, read_holder
from longshore.services.local.service import LocalService
from longshore.system.folder import make_folders
from longshore.testing.runs import write_run


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    return write_run(tmp_path / "my run", {"a_1": ()})


def test_an_engine_without_a_log_is_told_with_the_way_out(run: RunPaths) -> None:
    run.engine_log.mkdir(parents=True)
    with pytest.raises(SubmissionRefusedError) as caught:
        LocalService().start_engine(run, "resume")
    assert caught.value.message.startswith(f"the engine of '{run.root}' cannot be started: '{run.engine_log}'")
    assert caught.value.hint == f"Remove the cause, then: longshore resume '{run.root}'"


def test_a_lock_names_its_holder_while_it_is_held(run: RunPaths) -> None:
    with lock_run(run):
        holder = read_holder(run)
        assert holder is not None
        assert (holder.pid, holder.host, holder.uid) == (os.getpid(), os.uname().nodename, os.getuid())
    assert read_holder(run) is None


def test_a_holder_of_fewer_letters_replaces_a_longer_one(run: RunPaths) -> None:
    run.engine_lock.write_text(json.dumps({"pid": 10**9, "host": "x" * 200, "uid": 1}))
    with lock_run(run):
        assert json.loads(run.engine_lock.read_text())["pid"] == os.getpid()


def test_an_engine_that_has_not_begun_its_life_is_named_by_its_process(run: RunPaths) -> None:
    """Between lock and life an engine reads its jobs; the newest life is that of a dead one meanwhile."""
    with lock_run(run):
        with pytest.raises(SubmissionRefusedError, match=rf"a new engine \(process {os.getpid()} of '"):
            refuse_if_alive(run, has_local_engine)
        late = subprocess.Popen(["true"])
        late.wait()
        with pytest.raises(SubmissionRefusedError) as caught:
            wait_for_life(run, late, 0, 0)
    assert re.match(rf"a new engine \(process {os.getpid()} of '.*' on '.*'\) has just taken", str(caught.value))
    assert "There is nothing to do" in caught.value.hint


def test_a_lock_without_a_holder_names_the_newest_life(run: RunPaths) -> None:
    make_folders(run.journal, below=run.root)
    life = Life(v=FORMAT, life=1, t=0.0, host="elsewhere", pid=7, boot="", by="submit")
    Journal(run.journal, life).close()
    with lock_run(run):
        run.engine_lock.write_text("")
        with pytest.raises(
            SubmissionRefusedError, match=r"its engine is alive: engine 1 \(process 7 of '.*' on 'elsewhere'\)"
        ):
            refuse_if_alive(run, has_local_engine)


def test_without_another_engine_none_began(run: RunPaths) -> None:
    late = subprocess.Popen(["true"])
    late.wait()
    with pytest.raises(SubmissionRefusedError, match="did not begin: it wrote nothing"):
        wait_for_life(run, late, 0, 0)


def test_an_engine_of_which_nothing_is_known_is_not_called_alive(run: RunPaths) -> None:
    with pytest.raises(
        SubmissionRefusedError, match=r"nothing tells whether an engine .* is alive: no answer"
    ) as caught:
        refuse_if_alive(run, lambda _: Unreachable(why="no answer"))
    assert "--take-over" in caught.value.hint
