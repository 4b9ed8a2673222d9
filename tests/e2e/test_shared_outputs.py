"""A run that writes the files of a live run is refused at submit, restart and resume, unless the user insists."""

from __future__ import annotations

import os
import shutil
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.command import Cli
from tests.waiting import engine_of, eventually

from longshore.contract.service import RunPaths
from longshore.rundir.job_table import output_paths

RUN = """\
numberOfRetries: 0
requestMemory: 50
pipeline:
  dimensions: {sample: [A, B]}
  tasks:
    make: {dimensions: [sample], command: "sleep 300; touch {out}", outputs: {out: "results/{sample}.txt"}}
    read: {dimensions: [sample], command: "cat {out}", inputs: [out]}
"""


def test_a_live_run_that_writes_the_same_files(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "link").symlink_to("results")
    (tmp_path / "run.yaml").write_text(RUN, "utf-8")
    (tmp_path / "linked.yaml").write_text(RUN.replace("results", f"{tmp_path}/link"), "utf-8")
    (tmp_path / "other.yaml").write_text(RUN.replace("results", "elsewhere"), "utf-8")
    first = cli("submit", "run.yaml", "--json").json
    path = str(tmp_path / "results" / "A.txt")
    refusal = f"error: run '{first['id']}' is live and writes the same files, such as '"
    for file, *options in (["run.yaml"], ["linked.yaml"], ["run.yaml", "--strict"]):
        refused = cli("submit", file, *options)
        assert (refused.returncode, refusal in refused.stderr) == (6, True), refused.stderr
        assert f"longshore cancel {first['id']}" in refused.stderr
    other = cli("submit", "other.yaml", "--json")
    assert (other.returncode, "is live" in other.stderr) == (0, False)
    second = cli("submit", "run.yaml", "--share-outputs", "--json")
    assert second.returncode == 0, second.stderr
    run = RunPaths(Path(first["submit_dir"]))
    assert sorted(output_paths(run, most=100, deadline=time.monotonic() + 60)) == [path, path.replace("A", "B")]
    assert not list(output_paths(run, most=0, deadline=time.monotonic() + 60))
    assert not list(output_paths(run, most=100, deadline=time.monotonic() - 1))
    # The first one ends; its restart would write what the second one writes.
    cli("cancel", first["id"])
    eventually(lambda: cli("status", first["id"], "--json").json["state"] == "DELETED", pause_s=0.5)
    restarted = cli("restart", first["id"])
    assert (restarted.returncode, f"run '{second.json['id']}' is live" in restarted.stderr) == (6, True)
    insisted = cli("restart", first["id"], "--share-outputs")
    assert insisted.returncode == 0, insisted.stderr
    for each in (first["id"], second.json["id"], other.json["id"]):
        cli("cancel", each)


def test_an_engine_that_died_and_a_directory_that_vanished(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(RUN, "utf-8")
    first = cli("submit", "run.yaml", "--json").json
    kill_engine(first["submit_dir"])
    second = cli("submit", "run.yaml", "--json")
    assert second.returncode == 0, f"a dead engine stops nobody: {second.stderr}"
    resumed = cli("resume", first["id"])
    assert (resumed.returncode, f"run '{second.json['id']}' is live" in resumed.stderr) == (6, True), resumed.stderr
    cli("cancel", second.json["id"])
    shutil.rmtree(second.json["submit_dir"])
    insisted = cli("resume", first["id"])
    assert insisted.returncode == 0, insisted.stderr
    cli("cancel", first["id"])


def test_of_two_submits_at_once_one_goes_on(cli: Cli, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.yaml").write_text(RUN, "utf-8")
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda name: cli("submit", f"{name}.yaml", "--json"), ("a", "b", "c")))
    assert sorted(result.returncode for result in results) == [0, 6, 6], [result.stderr for result in results]
    cli("cancel", next(result.json["id"] for result in results if result.returncode == 0))


def test_a_run_inside_of_a_job_may_write_what_the_job_writes(cli: Cli, tmp_path: Path) -> None:
    inner = "requestMemory: 50\npipeline: {tasks: {inner: {command: 'echo done > {x}', outputs: {x: out/x}}}}\n"
    command = "longshore submit inner.yaml --set submitPath=inner --wait"
    outer = f"requestMemory: 50\npipeline: {{tasks: {{outer: {{command: '{command}', outputs: {{x: out/x}}}}}}}}\n"
    (tmp_path / "inner.yaml").write_text(inner, "utf-8")
    (tmp_path / "outer.yaml").write_text(outer, "utf-8")
    found = cli("submit", "outer.yaml", "--wait")
    assert (found.returncode, (tmp_path / "out" / "x").exists()) == (0, True), found.stderr


def kill_engine(run: str) -> None:
    """Kill the engine of a run, and wait until it is gone."""
    pid = engine_of(run)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not (file := Path(f"/proc/{pid}/cmdline")).exists() or not file.read_bytes())
