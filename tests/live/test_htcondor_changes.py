"""Restarts with a changed workflow, and runs that begin with results of another, on a real pool."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.live.condor_runs import SITE, CondorSite

pytestmark = pytest.mark.live

PIPELINE = """\
pipeline:
  dimensions: {{sample: {{range: [1, {last}]}}}}
  tasks:
    one:
      dimensions: [sample]
      command: "echo one {{sample}} >> {folder}/notes; echo {{sample}} > {{out}}"
      outputs: {{out: "{{submitPath}}/out/{{sample}}.one"}}
    two:
      dimensions: [sample]
      command: "echo two {{sample}} >> {folder}/notes; {program} {{out}} > {{res}}"
      inputs: [out]
      outputs: {{res: "{folder}/{{sample}}.two"}}
finalJob: {{whenRun: ALWAYS, command1: 'echo final >> {folder}/notes'}}
numberOfRetries: 0
requestMemory: 50
"""
WriteConfig = Callable[..., Path]


@pytest.fixture
def write_config(condor_site: CondorSite) -> WriteConfig:
    def write(program: str = "cta", last: int = 2) -> Path:
        path = condor_site.folder / "run.yaml"
        path.write_text(SITE + PIPELINE.format(program=program, last=last, folder=condor_site.folder), "utf-8")
        return path

    return write


@pytest.fixture
def failed(condor_site: CondorSite, write_config: WriteConfig) -> Path:
    """A run in which jobs ``two`` failed."""
    ran = condor_site.cli("submit", write_config(), "--wait", "--json", timeout=300)
    assert ran.returncode == 19, ran.stderr
    return Path(ran.json["submit_dir"])


def notes(site: CondorSite) -> list[str]:
    return sorted((site.folder / "notes").read_text("utf-8").splitlines())


def states(site: CondorSite, run: Path) -> dict[str, tuple[str, int]]:
    return {job["name"]: (job["state"], job["attempts"]) for job in site.report(run)["jobs"]}


def restart(site: CondorSite, run: Path, *words: str) -> dict[str, Any]:
    """Restart a run, and wait for its end."""
    ran = site.cli("restart", run, *words)
    assert ran.returncode == 0, ran.stderr
    return site.ended(run)


def test_a_mended_run_goes_on_with_a_dag_of_its_own(
    condor_site: CondorSite, write_config: WriteConfig, failed: Path
) -> None:
    explained = condor_site.attempts(failed, "one_1")
    write_config(program="cat", last=3)
    refused = condor_site.cli("restart", failed)
    assert refused.returncode == 6
    assert "--with-changes" in refused.stderr
    looked = condor_site.cli("restart", failed, "--dry-run")
    assert "one_1: kept because it succeeded" in looked.stdout
    assert "two_1: runs because its command" in looked.stdout
    report = restart(condor_site, failed, "--with-changes")
    assert report["state"] == "SUCCEEDED"
    assert notes(condor_site) == [
        "final", "final", "one 1", "one 2", "one 3", "two 1", "two 1", "two 2", "two 2", "two 3",
    ]  # fmt: skip
    attempts = {"one_1": 1, "one_2": 1, "one_3": 1, "two_1": 2, "two_2": 2, "two_3": 1, "finalJob": 2}
    assert states(condor_site, failed) == {name: ("SUCCEEDED", number) for name, number in attempts.items()}
    assert condor_site.counts(failed) == {"SUCCEEDED": 7}
    # The first workflow's request is told from now on, beside that of the newest.
    assert [{**each, "request": None} for each in condor_site.attempts(failed, "one_1")] == explained
    assert condor_site.attempts(failed, "one_1")[0]["request"]["memory_b"] == 50 << 20
    assert "cta: not found" in condor_site.cli("logs", failed, "two_1", "--attempt", "1").stdout
    assert condor_site.cli("logs", failed, "two_1", "--attempt", "2").returncode == 0
    assert condor_site.cli("verify", failed).returncode == 0
    dags = sorted(path.relative_to(failed).as_posix() for path in failed.rglob("run.dag"))
    assert dags == ["submissions/0002/wms/run.dag", "wms/run.dag"]
    assert "nothing to run again" in condor_site.cli("restart", failed).stderr
    # The run is found by the id of each DAG.
    ids = [each["id"] for each in condor_site.card(failed)["submissions"]]
    assert len(ids) == 2
    assert [condor_site.cli("status", each).returncode for each in ids] == [0, 0]


def test_a_changed_run_is_restarted_as_it_was(condor_site: CondorSite, write_config: WriteConfig, failed: Path) -> None:
    write_config(program="tca", last=1)
    assert restart(condor_site, failed, "--with-changes")["state"] == "FAILED"
    assert states(condor_site, failed) == {
        "one_1": ("SUCCEEDED", 1), "two_1": ("FAILED", 2), "finalJob": ("SUCCEEDED", 2),
    }  # fmt: skip
    write_config(program="cat", last=1)
    assert restart(condor_site, failed, "--as-it-was", "--set", "requestMemory=60")["state"] == "FAILED"
    assert states(condor_site, failed)["two_1"] == ("FAILED", 3)
    assert "tca: not found" in condor_site.cli("logs", failed, "two_1").stdout
    assert restart(condor_site, failed, "--with-changes")["state"] == "SUCCEEDED"
    assert states(condor_site, failed)["two_1"] == ("SUCCEEDED", 4)
    assert notes(condor_site).count("one 1") == 1
    given = [int(each["extra"]["MemoryProvisioned"]) for each in condor_site.attempts(failed, "two_1")]
    assert given == [50, 50, 60, 60], "what the user set stays set"
    assert condor_site.cli("verify", failed).returncode == 0


def test_a_new_run_begins_with_results_of_another(
    condor_site: CondorSite, write_config: WriteConfig, failed: Path
) -> None:
    path, place = write_config(program="cat", last=3), f"submitPath={condor_site.folder}/second"
    looked = condor_site.cli("submit", path, "--set", place, "--reuse", failed, "--dry-run", "--json").json
    assert {job["name"]: job["reason"] for job in looked["jobs"] if job["reason"] == "kept"} == {
        "one_1": "kept", "one_2": "kept",
    }  # fmt: skip
    ran = condor_site.cli("submit", path, "--set", place, "--reuse", failed, "--wait", "--json", timeout=300)
    assert ran.returncode == 0, ran.stderr
    second = Path(ran.json["submit_dir"])
    assert condor_site.counts(second) == {"SUCCEEDED": 7}
    assert (notes(condor_site).count("one 1"), notes(condor_site).count("two 1")) == (1, 2)
    assert (second / "out" / "1.one").samefile(failed / "out" / "1.one")
    reused = condor_site.attempts(second, "one_1")
    assert [each["extra"]["reused_from"] for each in reused] == [condor_site.card(failed)["id"]]
    assert condor_site.cli("logs", second, "one_1").returncode != 0
    # All results are kept: only the final job runs.
    third = f"submitPath={condor_site.folder}/third"
    ran = condor_site.cli("submit", path, "--set", third, "--reuse", second, "--wait", "--json", timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert notes(condor_site).count("two 3") == 1
    assert restart(condor_site, Path(ran.json["submit_dir"]), "--from", "two")["state"] == "SUCCEEDED"
    assert states(condor_site, Path(ran.json["submit_dir"]))["two_1"] == ("SUCCEEDED", 2)
