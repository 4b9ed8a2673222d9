"""Variables by which a user's own programs of the workload manager choose an account or a partition choose it here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from longshore.contract.capabilities import AllocationReader
from longshore.errors import LongshoreError
from longshore.plan.run_plan import RunPlan
from longshore.plan.site_choice import resolve_at_chosen_site
from longshore.plan.stages import advance_run
from longshore.progress import QuietProgress, RecordingProgress


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": [{"name": "A", "id": "a"}]}}}
    Path("graph.json").write_text(json.dumps(graph), "utf-8")
    Path("sites").mkdir()
    Path("sites/campus.yaml").write_text(
        "service: slurm\naccount: site\nqueue: site\nslurm: {qos: site}\nlimits: {cpus: 2}\n"
        "partitions: [{name: short, cpus: 4}, {name: site, cpus: 4}]\n",
        "utf-8",
    )
    for name in ("SLURM_JOB_ID", "SBATCH_ACCOUNT", "SBATCH_PARTITION"):
        monkeypatch.delenv(name, raising=False)


def script(more: str = "") -> tuple[str, list[str]]:
    """Prepare a run; return the account, partitions and QOS of its job, and the notes."""
    Path("run.yaml").write_text(
        f'computeSite: campus\nsitePath: sites\nwfformat: graph.json\nrunQuantumCommand: "true"\n{more}', "utf-8"
    )
    progress = RecordingProgress(QuietProgress())
    run = resolve_at_chosen_site(Path("run.yaml"), now=0.0, progress=progress, with_probe=False)
    plan = advance_run(run, RunPlan, progress)
    executor = plan.run.context.settings["executor"]
    service = plan.run.service
    assert isinstance(service, AllocationReader)
    asked = service.allocations(next(iter(plan.workflow)).settings, executor)[0]
    words = (asked.account or executor["account"], ",".join(asked.partitions), ",".join(asked.qos))
    return " ".join(words), list(progress.notes)


def test_the_variables_win_over_the_site_and_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "root")
    monkeypatch.setenv("SBATCH_PARTITION", "short")
    monkeypatch.setenv("SBATCH_QOS", "high")
    monkeypatch.setenv("SBATCH_TIMELIMIT", "5")
    asked, notes = script()
    assert asked == "root short high"
    text = "\n".join(notes)
    assert "'accountingGroup' is 'root', by the variable SBATCH_ACCOUNT" in text
    assert "SBATCH_TIMELIMIT has no effect: keys of the configuration say what they ask" in text


def test_the_run_wins_over_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "root")
    monkeypatch.setenv("SBATCH_QOS", "high")
    asked, _ = script("accountingGroup: mine\nslurm: {qos: low}\n")
    assert asked == "mine site low"


def test_a_variable_of_longshore_is_the_nearer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "short")
    monkeypatch.setenv("LONGSHORE_QUEUE", "site")
    assert script()[0].split() == ["site", "site", "site"]


def test_in_a_job_they_are_those_of_its_submitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_ACCOUNT", "root")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    asked, notes = script()
    assert asked == "site site site"
    assert "SBATCH_ACCOUNT has no effect: this is a job" in "\n".join(notes)


def test_the_ceilings_of_the_site_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "short")
    with pytest.raises(LongshoreError, match=r"limits\.cpus"):
        script("requestCpus: 3\n")
