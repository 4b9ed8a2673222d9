"""The temporary directory of a job lies where the site says, and its disk is reserved."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from tests.services.scripts import member
from tests.services.slurm.scripts import directives, script

from longshore.config.plugins import shipped_path
from longshore.contract.service import RunPaths
from longshore.engine.job_wrapper import WRAPPER, BatchFiles, scratch_line
from longshore.model.workflow import MIB, Request

GIB = 1024 * MIB


def written(tmp_path: Path, command: str) -> RunPaths:
    run = RunPaths(tmp_path / "run")
    (run.root / "wms").mkdir(parents=True)
    (run.root / WRAPPER).write_text(shipped_path("bin", "longshore-job").read_text("utf-8"), "utf-8")
    BatchFiles(run, "k7f3a-1-1").write_table([msgspec.structs.replace(member(0, command), working_directory="/")])
    return run


def execute(run: RunPaths, scratch: str, **variables: str) -> subprocess.CompletedProcess[str]:
    text = script(site={"scratch": scratch}, run=run)
    environment = {"PATH": os.environ["PATH"], "TMPDIR": "/nonexistent", **variables}
    return subprocess.run(
        ["/bin/sh"], input=text, text=True, env=environment, capture_output=True, check=False, timeout=30
    )


def log_of(run: RunPaths) -> str:
    return (run.root / "logs" / "a" / "00" / "job0.1.log").read_text("utf-8")


def test_a_job_has_an_empty_directory_below_the_scratch_of_its_node(tmp_path: Path) -> None:
    run = written(tmp_path, 'echo "$TMPDIR"; ls -A "$TMPDIR"; touch "$TMPDIR/x"')
    place = tmp_path / "it's $5 `here`" / "node 7"
    place.mkdir(parents=True)
    done = execute(run, str(place.parent).replace("$5", "$FIVE") + "/$NODE", FIVE="$5", NODE="node 7")
    assert done.returncode == 0, done.stderr
    assert Path(log_of(run).removesuffix("\n")).parent == place
    assert list(place.iterdir()) == [], "the directory is removed"


def test_a_scratch_that_the_node_lacks_is_named_in_the_log(tmp_path: Path) -> None:
    run = written(tmp_path, "true")
    assert execute(run, str(tmp_path / "none")).returncode == 126
    assert f"no temporary directory can be made in '{tmp_path / 'none'}'" in log_of(run)


def test_a_variable_that_the_node_lacks_ends_the_job(tmp_path: Path) -> None:
    run = written(tmp_path, "true")
    done = execute(run, "$NOWHERE/x")
    assert done.returncode != 0
    assert "NOWHERE" in done.stderr


def test_no_scratch_changes_nothing() -> None:
    assert scratch_line("") == ""
    assert "TMPDIR" not in script()


@pytest.mark.parametrize(
    ("own", "options"),
    [({}, {"--tmp=10240M"}), ({"diskGres": "tmpspace"}, {"--gres=tmpspace:10240M"}), ({"tmp": "5G"}, {"--tmp=5G"})],
)
def test_disk_is_asked_of_the_node_or_reserved(own: dict[str, str], options: set[str]) -> None:
    text = script(own, request=Request(disk_b=10 * GIB))
    assert {line for line in directives(text) if line.startswith(("--tmp", "--gres"))} == options


def test_reserved_disk_counts_for_the_rows_of_a_site() -> None:
    rows = [{"name": "small", "disk": "5 GiB"}, {"name": "large", "disk": "50 GiB"}]
    site = {"partitions": rows, "slurm": {"diskGres": "tmpspace"}}
    assert "--partition=large" in directives(script(site=site, request=Request(disk_b=10 * GIB)))
