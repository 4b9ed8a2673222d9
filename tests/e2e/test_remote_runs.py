"""Runs that only a workload manager knows: who is asked, what is shown, and what is said where that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Cli

AWAY = """
from longshore.contract.capabilities import Queryable
from longshore.contract.service import CancelOutcome
from longshore.contract.service import RemoteRuns
from longshore.errors import SubmissionRefusedError, UnreachableError
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.services.local.service import LocalService


def run(number, state=JobState.RUNNING, host="ap"):
    counts = {each: 0 for each in JobState} | {state: 2}
    return RunReport(
        id=f"{number}.0", name=f"run{number}", path=f"/nowhere/{host}/{number}", service="away.Away", state=state,
        expected=2, counts=counts, labels={"isr": counts}, global_id=f"{host}#{number}.0#5", submitted_at=float(number),
        user="ann",
    )


class Away(LocalService, Queryable):
    ended = False

    def find_run(self, reference, *, everywhere=False):
        return None

    def query_runs(self, search):
        if search.pass_thru == "silence":
            raise UnreachableError("the queue does not answer")
        found = [run(7, JobState.DELETED if Away.ended else JobState.RUNNING), run(8, host="ap"), run(8, host="far")]
        if search.reference:
            found = [each for each in found if search.reference in (each.id, each.id[:-2], each.global_id)]
        shown = found if search.everywhere or search.reference else found[:1]
        return RemoteRuns(reports=tuple(shown), notes=("one is mute",))

    def cancel_remote(self, search):
        if "unmet" in search.pass_thru:
            raise SubmissionRefusedError("nothing meets that")
        Away.ended = True
        return CancelOutcome(ended=2)
"""
NAMED = ("--wms-service-class", "away.Away")


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that knows runs of others."""
    (tmp_path / "away.py").write_text(AWAY, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


@pytest.mark.usefixtures("away")
def test_lists(cli: Cli) -> None:
    ran = cli("report", "--json")
    assert ran.json["runs"] == []
    ran = cli("report", "--json", *NAMED)
    assert [run["id"] for run in ran.json["runs"]] == ["7.0"]
    assert "longshore: one is mute" in ran.stderr
    ran = cli("report", "--global", *NAMED)
    assert [line.split()[2] for line in ran.stdout.splitlines()[2:]] == ["ap#7.0#5", "ap#8.0#5", "far#8.0#5"]
    silent = cli("report", "--pass-thru", "silence", *NAMED)
    assert silent.returncode == 0
    assert "longshore: the queue does not answer" in silent.stderr


@pytest.mark.usefixtures("away")
def test_a_run_that_is_named(cli: Cli) -> None:
    shown = cli("report", "7", *NAMED)
    assert shown.returncode == 0, shown.stderr
    assert "Path: /nowhere/ap/7" in shown.stdout
    assert cli("status", "7.0", "--hist", "3", *NAMED).returncode == 15
    several = cli("report", "--id", "8", *NAMED)
    assert several.returncode == 5
    assert "'8' is the id of several runs: ap#8.0#5, far#8.0#5" in several.stderr
    assert cli("report", "--id", "far#8.0#5", *NAMED).returncode == 0
    nobody = cli("report", "--id", "9", *NAMED)
    assert nobody.returncode == 5
    assert "no run '9' is known (one is mute)" in nobody.stderr
    watched = cli("report", "7", "--watch", *NAMED)
    assert watched.returncode == 2
    assert "--watch requires the run directory" in watched.stderr
    elsewhere = cli("restart", "7", *NAMED)
    assert elsewhere.returncode == 5
    assert "it is '/nowhere/ap/7' on the host that submitted it" in elsewhere.stderr


@pytest.mark.usefixtures("away")
def test_cancel(cli: Cli) -> None:
    ended = cli("cancel", "7", "--json", *NAMED)
    assert ended.returncode == 0, ended.stderr
    assert cli("cancel", "7", "--pass-thru", "unmet", *NAMED).returncode == 6
    some = cli("cancel", "7", "--label", "isr", *NAMED)
    assert some.returncode == 2
    assert "only the whole of '7.0' can be cancelled" in some.stderr
    all_of_them = cli("cancel", "--user", "ann", *NAMED)
    assert all_of_them.returncode == 2
    assert "7.0  run7" in all_of_them.stderr


def test_a_service_that_knows_nobody_elses_runs(cli: Cli) -> None:
    ran = cli("report", "--json", "--global", "--wms-service-class", "local")
    assert (ran.returncode, ran.json["runs"], ran.stderr) == (0, [], "")
    assert cli("report", "7", "--wms-service-class", "local").returncode == 5
