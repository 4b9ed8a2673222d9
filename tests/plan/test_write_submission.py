"""A restart with changes that is killed before any call on files leaves the old workflow, or the whole new one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from tests.doors import replace_calls
from tests.progress_notes import ProgressNotes

from longshore.plan import script_run
from longshore.plan.changes import compare_run
from longshore.plan.new_submission import write_submission
from longshore.plan.stages import Stage, run_stages
from longshore.rundir.job_table import JobTable
from longshore.rundir.submissions import newest_submission, read_job_maps, refuse_changed_files
from longshore.runstate.open_run import open_run
from longshore.system.files import files

PIPELINE = """\
pipeline:
  dimensions: {{sample: {{range: [1, {last}]}}}}
  tasks:
    one: {{dimensions: [sample], command: "echo {{sample}} > {{out}}", outputs: {{out: "{{sample}}.one"}}}}
    two: {{dimensions: [sample], command: "{program} {{out}}", inputs: [out]}}
finalJob: {{command: "{program} all"}}
"""
SCRIPT = "customJob: {executable: script.sh, arguments: '{in}', inputs: {in: in.txt}}\n"
CHANGING: Final = (
    "write", "pwrite", "rename", "replace", "link", "symlink", "unlink", "mkdir", "rmdir", "ftruncate", "truncate",
    "chmod", "fchmod", "chown", "utime", "fsync", "fdatasync", "syncfs",
)  # fmt: skip
"""Calls that change a file system, or make a change durable."""


class KilledError(BaseException):
    """The process is dead."""


class DyingFiles:
    """Calls on files of a process that is killed before the given one: neither that one nor a later one is made."""

    def __init__(self, at: int) -> None:
        self.calls = 0
        self._at = at
        for name in CHANGING:
            setattr(self, name, partial(self._call, getattr(files, name)))

    def _call(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls >= self._at:
            raise KilledError
        return call(*arguments, **named)


def write_pipeline(program: str, last: int) -> None:
    Path("run.yaml").write_text(PIPELINE.format(program=program, last=last), "utf-8")


def write_script(program: str, _last: int) -> None:
    Path("run.yaml").write_text(SCRIPT, "utf-8")
    Path("in.txt").write_text(f"for {program}\n", "utf-8")
    Path("script.sh").write_text(f"#!/bin/sh\n{program} $1\n", "utf-8")


def prepare_pipeline() -> Path:
    _, root = run_stages(Path("run.yaml"), Stage.PREPARE, progress=ProgressNotes())
    assert root
    return root


def prepare_script() -> Path:
    return script_run.prepare_script(Path("run.yaml"), progress=ProgressNotes()).run.root


@pytest.mark.parametrize(
    ("write", "prepare", "after", "own"),
    [
        (write_pipeline, prepare_pipeline, ["one_1", "two_1", "one_2", "two_2", "finalJob"], {"final_job.bash"}),
        (write_script, prepare_script, ["script.sh"], {"script.sh", "in.txt"}),
    ],
    ids=["pipeline", "script"],
)
def test_the_run_has_the_old_workflow_or_the_new_one(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    write: Callable[[str, int], None],
    prepare: Callable[[], Path],
    after: list[str],
    own: set[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write("cat", 1)
    root = prepare()
    before = JobTable(open_run(str(root)).run, "names").names
    write("tac", 2)
    comparison = compare_run(open_run(str(root)))
    plan, match = comparison.plan, comparison.match
    assert plan is not None
    assert match is not None
    kept = shutil.copytree(root, tmp_path / "kept")
    for moment in range(1, 1000):
        shutil.rmtree(root)
        shutil.copytree(kept, root)
        opened = open_run(str(root))
        disk = DyingFiles(moment)
        try:
            with replace_calls(files, disk):
                write_submission(opened, plan, match)
        except KilledError:
            pass
        number, _ = newest_submission(opened.run)
        assert refuse_changed_files(opened.run) is not None, "no file that the run relies on changed"
        if number == 1:
            assert list(JobTable(opened.run, "names").names) == list(before), moment
            # The user repeats the command.
            write_submission(open_run(str(root)), plan, match)
        assert sorted(JobTable(opened.run, "names").names) == sorted(after), moment
        assert set(read_job_maps(opened.run)) == {1}
        manifest = refuse_changed_files(opened.run)
        assert manifest is not None
        assert {f"submissions/0002/{name}" for name in own} <= {*manifest.files, *manifest.inputs}
        if disk.calls < moment:
            break
    assert moment > 30
    assert not compare_run(open_run(str(root))).differs, "the run has the changes now"
