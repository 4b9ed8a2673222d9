"""Notices of runs on a real HTCondor pool: a node of the DAG sends them, and the end is told after DAGMan's."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.live.condor_runs import CondorSite
from tests.live.runs import until
from tests.waiting import whole_lines

pytestmark = pytest.mark.live

RULES = """\
runQuantumCommand: "test -e {go}"
numberOfRetries: 0
notify:
  file:
    events: [start, firstFailure, hold, stopped, end]
    command: 'echo $LONGSHORE_EVENT $LONGSHORE_STATE >> {told}'
"""


def _told(path: Path, words: str) -> list[str] | None:
    lines = whole_lines(path) if path.exists() else []
    return lines if f"{words}\n" in lines else None


def test_each_event_is_told_once_also_after_a_restart(condor_site: CondorSite) -> None:
    told, go = condor_site.folder / "told", condor_site.folder / "go"
    run = condor_site.begin(RULES.format(go=go, told=told), name="told")
    assert condor_site.ended(run)["state"] == "FAILED"
    lines = until(partial(_told, told, "end FAILED"), "the notice of the end")
    assert [line.split()[0] for line in lines] == ["start", "firstFailure", "end"]
    go.touch()
    again = condor_site.cli("restart", run)
    assert again.returncode == 0, again.stderr
    assert condor_site.ended(run)["state"] == "SUCCEEDED"
    lines = until(partial(_told, told, "end SUCCEEDED"), "the notice of the end of the restart")
    assert [line.split()[0] for line in lines[3:]] == ["start", "end"]
    until(lambda: not condor_site.queue_of(run), "nothing left in the queue")


def test_a_variable_with_an_address_is_refused(condor_site: CondorSite) -> None:
    path = condor_site.write("runQuantumCommand: 'true'\nnotify: {chat: {webhook: {env: CHAT_ADDRESS}}}\n")
    ran = condor_site.cli("submit", path)
    assert ran.returncode != 0
    assert "the notifier of a run on HTCondor has no variable 'CHAT_ADDRESS'" in ran.stderr
    assert "webhook: {file: ~/.config/address}" in ran.stderr
