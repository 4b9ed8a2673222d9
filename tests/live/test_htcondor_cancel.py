"""Cancellation on a real pool in every phase of a run: the queue is empty, and all jobs are accounted for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import many, until

pytestmark = pytest.mark.live

NOWHERE = "profile: {condor: {requirements: 'Machine == \"nowhere\"'}}\nrunQuantumCommand: 'true'\n"
DEAF = "runQuantumCommand: 'trap \"\" TERM INT; echo $$ >> ${PWD}/deaf; while :; do sleep 0.5; done'\n"
NEVER = "finalJob: {command1: 'sleep 600', whenRun: ALWAYS, requestMemory: 50}\n"
FINAL = "finalJob: {command1: 'while ! test -e ${PWD}/go; do sleep 0.2; done', whenRun: ALWAYS, requestMemory: 50}\n"


def _cancelled(site: CondorSite, reference: str | Path, run: Path, *words: str, jobs: int) -> None:
    """Cancel a run of so many jobs, of which none has ended, and see that nothing of it is left."""
    done = site.cli("cancel", reference, "--json", *words)
    assert done.returncode == 0, done.stderr
    assert [found["state"] for found in done.json["runs"]] == ["DELETED"]
    assert site.counts(run) == {"DELETED": jobs}
    assert site.queue_of(run) == []


def test_cancel_before_dagman_starts_and_of_waiting_running_and_held_jobs(condor_site: CondorSite) -> None:
    idle = condor_site.begin(NOWHERE, many(3), name="idle")
    deaf = condor_site.begin(DEAF, many(2), name="deaf")
    held = condor_site.begin(NOWHERE, many(2), name="held")
    until(lambda: condor_site.counts(held) == {"PENDING": 2}, "the jobs of one run wait")
    condor_site.pool.run("condor_hold", condor_site.job(held, "t0"), condor_site.job(held, "t1"))
    until(lambda: condor_site.counts(held) == {"HELD": 2}, "they are held")
    until(lambda: condor_site.counts(deaf) == {"RUNNING": 2}, "the jobs of another run")
    # What is submitted now is cancelled before DAGMan itself runs, or as it starts.
    fresh = condor_site.begin(NOWHERE, many(2), name="fresh")
    _cancelled(condor_site, "@last", fresh, jobs=2)
    _cancelled(condor_site, condor_site.report(idle)["id"].partition(".")[0], idle, jobs=3)
    _cancelled(condor_site, condor_site.report(held)["global_id"], held, "--pass-thru", "-forcex", jobs=2)
    _cancelled(condor_site, condor_site.report(deaf)["id"], deaf, jobs=2)
    deaf_ones = [int(word) for word in (condor_site.folder / "deaf").read_text("utf-8").split()]
    assert len(deaf_ones) == 2
    until(lambda: not any(Path(f"/proc/{number}").exists() for number in deaf_ones), "those who ignore TERM are gone")
    again = condor_site.cli("cancel", deaf, "--json")
    assert again.returncode == 0, again.stderr
    assert condor_site.counts(deaf) == {"DELETED": 2}


def test_cancel_during_the_final_job_and_after_the_end(condor_site: CondorSite) -> None:
    run = condor_site.begin(f"runQuantumCommand: 'true'\n{FINAL}", many(2))
    until(lambda: condor_site.counts(run) == {"SUCCEEDED": 2, "RUNNING": 1}, "only the final job runs")
    done = condor_site.cli("cancel", condor_site.card(run)["id"])
    assert done.returncode == 0, done.stderr
    assert "the final job runs in any case" in done.stderr
    assert condor_site.counts(run) == {"SUCCEEDED": 2, "RUNNING": 1}
    (condor_site.folder / "go").touch()
    # As everywhere, what was cancelled is told as such, whatever its jobs had come to.
    assert condor_site.ended(run)["state"] == "DELETED"
    assert condor_site.counts(run) == {"SUCCEEDED": 3}
    assert condor_site.queue_of(run) == []
    again = condor_site.cli("cancel", run)
    assert again.returncode == 0, again.stderr
    assert "nothing to cancel" in again.stderr
    skipped = condor_site.begin(f"runQuantumCommand: 'true'\n{NEVER}", many(2), name="skipped")
    until(lambda: condor_site.counts(skipped) == {"SUCCEEDED": 2, "RUNNING": 1}, "only the final job of another runs")
    assert condor_site.cli("cancel", skipped, "--no-final").returncode == 0
    assert condor_site.counts(skipped) == {"SUCCEEDED": 2, "DELETED": 1}
    assert condor_site.queue_of(skipped) == []
