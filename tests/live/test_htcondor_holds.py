"""Jobs held by a real pool: the reason is reported, and they are released or given up."""

from __future__ import annotations

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import until

pytestmark = pytest.mark.live

WHY = "Cannot access initial working directory"
DELAY = "retryDelay: 1\nretryDelayMax: 2\n"


def test_jobs_that_cannot_start_are_held_and_released_or_given_up(condor_site: CondorSite) -> None:
    text = f"{DELAY}profile: {{condor: {{requirements: 'Machine == \"nowhere\"'}}}}\nrunQuantumCommand: 'pwd'\n"
    for name in ("cured", "lost"):
        (condor_site.folder / name).mkdir()
    cured = condor_site.begin(f"{text}workingDirectory: ${{PWD}}/cured\nnumberOfRetries: 30\n", name="cured")
    lost = condor_site.begin(f"{text}workingDirectory: ${{PWD}}/lost\nnumberOfRetries: 2\n", name="lost")
    until(lambda: condor_site.job(cured, "a") and condor_site.job(lost, "a"), "both jobs wait in the queue")
    for run in (cured, lost):
        # What was there when the run was submitted is no longer there when the job can start.
        (condor_site.folder / run.parent.name).rmdir()
        condor_site.pool.run("condor_qedit", condor_site.job(run, "a"), "Requirements", "true")
    until(lambda: WHY in condor_site.cli("report", "--id", cured).stdout, "why the job of one run is held is told")
    (condor_site.folder / "cured").mkdir()
    assert condor_site.ended(cured)["state"] == "SUCCEEDED"
    assert condor_site.cli("logs", cured, "a").stdout.strip().endswith("/cured")
    assert condor_site.ended(lost)["state"] == "FAILED"
    assert condor_site.counts(lost) == {"FAILED": 1}
    assert WHY in condor_site.cli("report", "--id", lost).stdout
    assert condor_site.queue_of(lost) == []


def test_jobs_out_of_memory_are_released_with_more(condor_site: CondorSite) -> None:
    """No kernel here keeps limits (cgroups), so its words are written into the queue by hand: code 34, subcode 0."""
    run = condor_site.begin(
        f"{DELAY}memoryMultiplier: 3\nnumberOfRetries: 5\n"
        "runQuantumCommand: 'test $LONGSHORE_JOB_MEMORY_MB -gt 50 || sleep 600'\n"
    )
    until(lambda: condor_site.counts(run) == {"RUNNING": 1}, "the job runs")
    job = condor_site.job(run, "a")
    condor_site.pool.run("condor_hold", job)
    until(lambda: condor_site.counts(run) == {"HELD": 1}, "it is held")
    condor_site.pool.run("condor_qedit", job, "HoldReasonSubCode", "0", "HoldReasonCode", "34")
    assert condor_site.ended(run)["state"] == "SUCCEEDED"
    first, second = condor_site.attempts(run, "a")
    assert (condor_site.memory_mb(first), condor_site.memory_mb(second)) == (50, 150)


def test_jobs_ended_by_a_signal_are_retried_with_more_memory(condor_site: CondorSite) -> None:
    run = condor_site.begin(
        f"{DELAY}memoryMultiplier: 2\nnumberOfRetries: 5\n"
        "runQuantumCommand: 'test $LONGSHORE_JOB_MEMORY_MB -ge 200 || kill -KILL $$'\n"
    )
    assert condor_site.ended(run)["state"] == "SUCCEEDED"
    attempts = condor_site.attempts(run, "a")
    assert [condor_site.memory_mb(attempt) for attempt in attempts] == [50, 100, 200]
    assert [attempt["cause"] for attempt in attempts] == ["OOM", "OOM", None]
