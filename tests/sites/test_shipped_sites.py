"""Each shipped profile is a site at which a run can be prepared, and renders its jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.config.layers import Overrides
from longshore.config.plugins import shipped_path
from longshore.plan.resolved_run import resolve_run
from longshore.plan.run_plan import RunPlan
from longshore.plan.stages import advance_run
from longshore.progress import HeldNotes, QuietProgress, RecordingProgress
from longshore.services.batch.check import batch_of
from longshore.services.batch.script_writer import ScriptWriter
from longshore.services.batch.service import BatchService
from longshore.services.batch.settings import own_map

NAMES = sorted(path.stem for path in shipped_path("config", "sites").glob("*.yaml"))
PUBLIC = {"archer2": "https://docs.archer2.ac.uk/", "lumi": "https://docs.lumi-supercomputer.eu/"}
LINES = {
    "archer2": ["#SBATCH --partition=standard", "#SBATCH --qos=standard", "#SBATCH --time=60"],
    "grid-engine": ["#$ -l h_vmem=1024M", "#$ -P general"],
    "lsf-cluster": ["#BSUB -q short", "#BSUB -P general", "#BSUB -W 60"],
    "lumi": ["#SBATCH --partition=small", "#SBATCH --time=60"],
    "slurm-cluster": ["#SBATCH --partition=short", "#SBATCH --account=general", "#SBATCH --qos=normal"],
    "slurm-debug": ["#SBATCH --partition=debug", "#SBATCH --time=15"],
}
"""Lines of a job's script at each site of a batch system."""


def plan_at(site: str, folder: Path) -> RunPlan:
    """Plan a run of one job at a site; no workload manager is asked."""
    path = folder / "run.yaml"
    text = "pipeline: {tasks: {one: {command: 'true'}}}\nrequestMemory: 1024\n"
    path.write_text(f"{text}submitPath: {folder}/run\n", "utf-8")
    overrides = Overrides({"computeSite": site})
    progress = RecordingProgress(HeldNotes(QuietProgress()))
    run = resolve_run(path, overrides, now=0, progress=progress, with_probe=False)
    return advance_run(run, RunPlan, progress)


@pytest.mark.parametrize("site", NAMES)
def test_a_job_is_rendered(site: str, tmp_path: Path) -> None:
    plan = plan_at(site, tmp_path)
    service, context = plan.run.service, plan.run.context
    texts = ["".join(file.chunks()) for file in service.render(plan.workflow, context)]
    if isinstance(service, BatchService):
        settings = context.settings["executor"]
        dialect = service.dialect(own_map(service.name, settings))
        writer = ScriptWriter(dialect, context.paths, settings, context.templates["batch.sh"])
        (job,) = plan.workflow
        script = writer.text(batch_of(job.settings)).splitlines()
        assert script[0].startswith("#!")
        assert [line for line in LINES[site] if line not in script] == []
    elif service.name == "htcondor":
        assert any("request_memory" in text for text in texts)
        assert any("allocate" in text or "sbatch" in text for text in texts) is (site == "htcondor-on-slurm")
    else:
        assert service.name == "local"


def test_the_sites_that_are_shipped() -> None:
    assert [
        *("archer2", "grid-engine", "htcondor-on-slurm", "htcondor-pool", "laptop", "lsf-cluster", "lumi"),
        *("slurm-cluster", "slurm-debug", "workstation"),
    ] == NAMES


@pytest.mark.parametrize("site", PUBLIC)
def test_a_profile_of_a_centre_cites_its_documentation(site: str) -> None:
    assert PUBLIC[site] in shipped_path("config", "sites", f"{site}.yaml").read_text("utf-8")
