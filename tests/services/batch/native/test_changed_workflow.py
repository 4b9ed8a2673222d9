"""A run whose jobs Slurm keeps by itself takes no changed workflow before its outcome is collected."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.command import Cli

from longshore.contract.capabilities import Amendable
from longshore.contract.service import RestartChanges
from longshore.control.restart import plan_restart
from longshore.errors import SubmissionRefusedError
from longshore.model.event import FORMAT, Life
from longshore.plan.changes import compare_run
from longshore.rundir.journal import Journal
from longshore.runstate.open_run import OpenRun, open_run
from longshore.services.batch.native.observe import NativeRecord
from longshore.services.batch.records import BatchRecord, BatchRecords

YAML = """\
wmsServiceClass: slurm
computeSite: here
site: {{here: {{slurm: {{mode: native}}}}}}
pipeline:
  tasks:
    one: {{command: "echo {word}"}}
"""


def write(folder: Path, word: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(YAML.format(word=word), "utf-8")
    return path


@pytest.fixture
def opened(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenRun:
    """A run without an engine, of which Slurm's stand-ins know no job any more, and which nobody collected."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("squeue", "sacct", "scontrol"):
        (programs / name).write_text("#!/bin/sh\nexit 0\n", "utf-8")
        (programs / name).chmod(0o755)
    root = tmp_path / "run"
    prepared = cli("prepare", write(tmp_path, "before"), "--set", f"submitPath={root}")
    assert prepared.returncode == 0, prepared.stderr
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    monkeypatch.chdir(tmp_path)
    found = open_run(str(root))
    record = NativeRecord(at=1.0, accounting=False, collector=7)
    found.run.wms.mkdir(exist_ok=True)
    (found.run.wms / "native.json").write_bytes(msgspec.json.encode(record))
    BatchRecords(found.run).write(BatchRecord(tag="t", name="t", members=((0, 1),), at=1.0, id=6))
    Journal(found.run.journal, Life(v=FORMAT, life=1, t=1.0, host="here", pid=1, boot="b", by="submit")).close()
    return found


def test_a_changed_workflow_is_refused_with_the_way_on(opened: OpenRun, tmp_path: Path) -> None:
    write(tmp_path, "after")
    comparison = compare_run(opened)
    assert comparison.differs
    with pytest.raises(SubmissionRefusedError) as refused:
        plan_restart(opened, RestartChanges(), comparison)
    assert refused.value.message == (
        f"run '{opened.card.id}' cannot have another workflow: Slurm keeps what became of its jobs until it is "
        f"collected: longshore resume {opened.run.root}"
    )
    assert "--as-it-was" in refused.value.hint
    assert "--reuse" in refused.value.hint


def test_a_collected_run_is_not_refused(opened: OpenRun) -> None:
    (opened.run.wms / "native.json").unlink()
    assert isinstance(opened.service, Amendable)
    assert opened.service.why_not_amended(opened.run) == ""
