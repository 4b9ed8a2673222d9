"""Large runs on a real pool: every job is counted, during the run and at its end."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import ENDS
from tests.workflows import Tasks

pytestmark = pytest.mark.live

BAD = 10


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("pairs", [200, pytest.param(1000, marks=pytest.mark.bulk)])
def test_many_jobs(condor_site: CondorSite, pairs: int) -> None:
    """Each job is followed by another; some of the first ones fail."""
    firsts: Tasks = {f"a{pair}": ("A", []) for pair in range(pairs)}
    seconds: Tasks = {f"b{pair}": ("B", [f"a{pair}"]) for pair in range(pairs)}
    run = condor_site.begin(
        "numberOfRetries: 0\nrunQuantumCommand: 'true'\n"
        "pipetask: {A: {runQuantumCommand: 'case {jobName} in a?) exit 3;; esac'}}\n",
        {**firsts, **seconds},
    )
    while (report := condor_site.report(run))["state"] not in ENDS:
        assert sum(report["counts"].values()) == 2 * pairs
        # Whoever looks all the time takes from the jobs what they could run with.
        time.sleep(5)
    assert condor_site.counts(run) == {"SUCCEEDED": 2 * (pairs - BAD), "FAILED": BAD, "PRUNED": BAD}
    labels = report["labels"]
    assert (labels["A"]["FAILED"], labels["B"]["PRUNED"]) == (BAD, BAD)
    assert not condor_site.pool.queue("ClusterId")


@pytest.mark.bulk
@pytest.mark.timeout(600)
def test_a_hundred_thousand_nodes_that_do_nothing(condor_site: CondorSite) -> None:
    """DAGMan has a whole DAG of ours to order and to log, of nodes that no machine has to run."""
    size, wide = 100_000, 20_000
    tasks: Tasks = {
        f"t{job:05}": (f"L{job // wide}", [f"t{job - wide:05}"] if job >= wide else []) for job in range(size)
    }
    # Of a large DAG, DAGMan by itself hands over few nodes at a time, and writes many lines on each.
    settings = "{DAGMAN_MAX_JOBS_IDLE: 0, DAGMAN_MAX_SUBMITS_PER_INTERVAL: 100000, DAGMAN_VERBOSITY: 1, "
    settings += "DAGMAN_AGGRESSIVE_SUBMIT: true}"
    path = condor_site.write(f"runQuantumCommand: 'true'\nsubmitPath: large\nwmsConfig: {settings}\n", tasks)
    prepared = condor_site.cli("prepare", path)
    assert prepared.returncode == 0, prepared.stderr
    run = condor_site.folder / "large"
    _do_nothing(run / "wms" / "run.dag")
    # The DAG was changed by hand since.
    ran = condor_site.cli("submit", run, "--force", "--wait", "--json", timeout=500)
    assert ran.returncode == 0, ran.stderr
    report = condor_site.report(run)
    assert (report["state"], report["expected"]) == ("SUCCEEDED", size)
    assert condor_site.counts(run) == {"SUCCEEDED": size}
    assert {label: counts["SUCCEEDED"] for label, counts in report["labels"].items()} == {
        f"L{level}": wide for level in range(size // wide)
    }
    events = sum(1 for _ in (run / "cache" / "htcondor").glob("*.jsonl"))
    assert events == 1


def _do_nothing(dag: Path) -> None:
    """Have DAGMan take each job for done as soon as it would be submitted."""
    lines = dag.read_text("utf-8").splitlines(keepends=True)
    dag.write_text("".join(f"{line[:-1]} NOOP\n" if line.startswith("JOB j") else line for line in lines), "utf-8")
