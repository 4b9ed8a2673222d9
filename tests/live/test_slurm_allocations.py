"""What Longshore reads as a job's request is what a real cluster gives; what a user chooses for sbatch holds."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest
from tests.live.runs import SlurmSite, until
from tests.workflows import ONE

from longshore.contract.executor import Batch
from longshore.model.workflow import MIB, NodeSize, Request, total_request
from longshore.services.batch.script_writer import job_spec
from longshore.services.slurm.dialect import SlurmDialect

pytestmark = pytest.mark.live

LINES = (
    "-c 3",
    "-n 3",
    "-N 2 -n 4",
    "-N 2-3",
    "-N 2 --mincpus=3",
    "-N 2 --ntasks-per-node=2",
    "-n 4 --ntasks-per-node=2",
    "-n 1 -N 3",
    "-w n[1-2]",
    "-B 2:1 -c 2",
    "--mincpus=4",
    "--exclusive",
    "--exclusive=user",
    "--exclusive --oversubscribe",
    "-s --exclusive",
    "--mem-per-cpu=150 -c 2",
    "--exclusive --mem-per-cpu=150",
    "--mem=300 -N 2",
    "--mem-per-gpu=200 --gpus=2",
    "--gpus-per-node=1 --cpus-per-gpu=3",
)


def test_a_job_gets_what_its_options_are_read_as(bare_site: SlurmSite) -> None:
    run, dialect = bare_site.pool.run, SlurmDialect({})
    node = NodeSize(cpus=bare_site.node_processors, threads=1)
    for line in LINES:
        number = run("sbatch", "--parsable", "--output=/dev/null", *line.split(), "--wrap=true").strip()
        until(partial(_is_over, bare_site, number), f"'{line}' ends")
        shown = run("scontrol", "-o", "show", "job", number)
        batch = Batch(id="1", tag="t", request=Request(), members=(), settings={"omit": ["mem"], "directives": [line]})
        total = total_request(dialect.allocations(job_spec(dialect, batch, {})), node)
        cpus, memory = re.search(r"\bNumCPUs=(\d+)", shown), re.search(r"\bTRES=\S*mem=(\d+)M", shown)
        assert cpus is not None, shown
        assert int(cpus[1]) == total.cpus, f"{line}: {shown}"
        if total.memory_b is not None:
            assert memory is not None, shown
            assert int(memory[1]) * MIB == total.memory_b, f"{line}: {shown}"


def _is_over(site: SlurmSite, number: str) -> bool:
    return "JobState=COMPLETED" in site.pool.run("scontrol", "-o", "show", "job", number)


def test_a_raw_memory_per_processor_replaces_that_of_the_request(bare_site: SlurmSite) -> None:
    ran = bare_site.submit("runQuantumCommand: echo $SLURM_MEM_PER_CPU\ndirectives: [--mem-per-cpu=150]\n")
    assert ran.returncode == 0, ran.stderr
    assert bare_site.cli("logs", ran.json["submit_dir"], "a").stdout == "150\n"
    said = bare_site.cli("explain", ran.json["submit_dir"], "a").stdout
    assert "150 MiB of memory for each cpu" in said


def test_what_a_user_chooses_for_sbatch_holds_for_a_run(bare_site: SlurmSite) -> None:
    text = "runQuantumCommand: echo $SLURM_JOB_ACCOUNT $SLURM_JOB_PARTITION\n"
    chosen = {"SBATCH_ACCOUNT": "root", "SBATCH_PARTITION": "short"}
    ran = bare_site.submit(text, env=chosen)
    assert ran.returncode == 0, ran.stderr
    assert bare_site.cli("logs", ran.json["submit_dir"], "a").stdout == "root short\n"
    (kept,) = Path(ran.json["submit_dir"]).glob("*_config.yaml")
    assert "accountingGroup: root\n" in kept.read_text("utf-8")


def test_no_whole_node_passes_the_ceiling_that_the_cluster_knows(bare_site: SlurmSite) -> None:
    path = bare_site.write("runQuantumCommand: 'true'\ndirectives: [--exclusive]\n", ONE)
    bare_site.describe("limits: {cpus: 2}\n")
    ran = bare_site.cli("submit", path, "--wait", timeout=300)
    assert "asks for a whole node of 4 processors by '--exclusive' in 'directives'" in ran.stderr
    assert not bare_site.queue()
    bare_site.describe("limits: {cpus: 4}\n")
    ran = bare_site.cli("submit", path, "--wait", timeout=300)
    assert ran.returncode == 0, ran.stderr
