"""A run that writes the files of a live run is noted, and refused by ``--strict``."""

from __future__ import annotations

import time
from pathlib import Path

from tests.command import Cli

from longshore.contract.context import RunPaths
from longshore.engine.rundir.job_table import output_paths

RUN = """\
numberOfRetries: 0
pipeline:
  dimensions: {sample: [A, B]}
  tasks:
    make: {dimensions: [sample], command: "sleep 300; touch {out}", outputs: {out: "results/{sample}.txt"}}
    read: {dimensions: [sample], command: "cat {out}", inputs: [out]}
"""


def test_a_live_run_that_writes_the_same_files(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(RUN, "utf-8")
    (tmp_path / "other.yaml").write_text(RUN.replace("results", "elsewhere"), "utf-8")
    first = cli("submit", "run.yaml", "--json").json
    path = str(tmp_path / "results" / "A.txt")
    note = f"run '{first['id']}' is live and writes the same files, such as '{path}'"
    strict = cli("submit", "run.yaml", "--strict")
    assert (strict.returncode, note in strict.stderr) == (6, True)
    other = cli("submit", "other.yaml")
    assert (other.returncode, "is live" in other.stderr) == (0, False)
    cli("cancel", "@last")
    second = cli("submit", "run.yaml")
    assert f"{note}; to cancel it: longshore cancel {first['id']}" in second.stderr
    assert second.returncode == 0
    run = RunPaths(Path(first["submit_dir"]))
    assert sorted(output_paths(run, most=100, deadline=time.monotonic() + 60)) == [path, path.replace("A", "B")]
    assert not list(output_paths(run, most=0, deadline=time.monotonic() + 60))
    assert not list(output_paths(run, most=100, deadline=time.monotonic() - 1))
    cli("cancel", "@last")
    cli("cancel", first["id"])
