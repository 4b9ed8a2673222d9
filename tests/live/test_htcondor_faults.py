"""Failures of a pool during runs: no job that succeeded runs twice."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.command import Cli
from tests.live.condor_pools import condor
from tests.live.condor_runs import CondorSite
from tests.live.runs import many, until

pytestmark = [pytest.mark.live, pytest.mark.full]

TEXT = "runQuantumCommand: echo {jobName} >> ${PWD}/notes; while ! test -e ${PWD}/go; do sleep 0.2; done\n"


def test_a_schedd_that_is_killed_comes_back_with_its_jobs(condor_site: CondorSite) -> None:
    run = condor_site.begin(TEXT, many(4))
    until(lambda: condor_site.counts(run) == {"RUNNING": 4}, "all four run")
    os.kill(condor_site.pool.pid("schedd"), signal.SIGKILL)
    report = condor_site.report(run)
    # No answer says nothing of any job.
    assert not report["counts"]["FAILED"]
    (condor_site.folder / "go").touch()
    assert condor_site.ended(run)["state"] == "SUCCEEDED"
    assert sorted((condor_site.folder / "notes").read_text("utf-8").split()) == ["t0", "t1", "t2", "t3"]


def test_a_pool_that_is_stopped_and_started_finishes_the_run(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with condor(tmp_path / "pool") as pool:
        monkeypatch.setenv("CONDOR_CONFIG", str(pool.config))
        site = CondorSite(cli=cli, pool=pool, folder=tmp_path)
        run = site.begin(TEXT, {"a": ("A", []), "b": ("B", ["a"])})
        until(lambda: site.counts(run).get("RUNNING"), "the first job runs")
        pool.stop()
        ran = site.cli("report", run, "--json")
        assert ran.returncode == 0, ran.stderr
        shown = ran.json["runs"][0]
        assert shown["state"] in {"UNKNOWN", "RUNNING"}
        assert not shown["counts"]["FAILED"]
        refused = site.cli("submit", site.write("runQuantumCommand: 'true'\n", name="other"), "--json")
        assert refused.returncode == 4
        assert "does not answer" in refused.json["error"]["message"]
        refused = site.cli("cancel", run, "--json")
        assert refused.returncode == 4
        assert "cannot be cancelled" in refused.json["error"]["message"]
        assert "Nothing was cancelled" in refused.json["error"]["hint"]
        (tmp_path / "go").touch()
        pool.start()
        assert site.ended(run)["state"] == "SUCCEEDED"
        # Nobody knows of the first how far it had come: it ran again, and the second only once.
        assert (tmp_path / "notes").read_text("utf-8").split().count("b") == 1
