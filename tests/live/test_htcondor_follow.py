"""Following a run on a real pool: its events, and the log of a job."""

from __future__ import annotations

import json

import pytest
from tests.live.condor_runs import CondorSite

pytestmark = pytest.mark.live


def test_events_and_logs_are_followed_to_the_end(condor_site: CondorSite) -> None:
    run = condor_site.begin('numberOfRetries: 0\nrunQuantumCommand: "echo one; sleep 3; echo two"\n')
    logs = condor_site.cli("logs", run, "a", "--follow")
    assert logs.returncode == 0, logs.stderr
    assert [line for line in logs.stdout.splitlines() if line in {"one", "two"}] == ["one", "two"]
    events = condor_site.cli("events", run, "--follow")
    assert events.returncode == 0, events.stderr
    told = [json.loads(line) for line in events.stdout.splitlines()]
    assert told[-1]["event"] == "finished"
    marks = [each["mark"] for each in told]
    assert len(set(marks)) == len(marks)
    assert condor_site.ended(run)["state"] == "SUCCEEDED"
