"""Runs of other schedds, hosts and users, found by what HTCondor knows of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command import Cli, CommandResult
from tests.live.condor_pools import CondorPool, condor
from tests.live.condor_runs import CondorSite
from tests.live.runs import until

pytestmark = pytest.mark.live

SLEEPS = "runQuantumCommand: sleep 600\n"
TASKS = {"a": ("A", []), "b": ("B", ["a"])}


@pytest.fixture(scope="module")
def two_schedds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CondorPool]:
    """A pool with a second schedd ``far@``."""
    with condor(tmp_path_factory.mktemp("two"), POOL_SCHEDDS="far") as pool:
        until(lambda: pool.run("condor_status", "-schedd", "-af", "Name").count("\n") == 2, "both schedds are known")
        yield pool


@pytest.fixture
def site(two_schedds: CondorPool, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CondorSite]:
    """A user's command line there."""
    monkeypatch.setenv("CONDOR_CONFIG", str(two_schedds.config))
    monkeypatch.setenv("PATH", two_schedds.path)
    yield CondorSite(cli=cli, pool=two_schedds, folder=tmp_path)
    two_schedds.run("condor_rm", "-all", check=False)
    two_schedds.run("condor_rm", "-name", "far@", "-all", check=False)


class Elsewhere:
    """Somebody who has the same schedds, and neither a registry nor the directories of runs."""

    def __init__(self, site: CondorSite) -> None:
        self._site = site
        self._env = {"XDG_STATE_HOME": str(site.folder / "elsewhere")}

    def __call__(self, *words: str) -> CommandResult:
        return self._site.cli(*words, env=self._env)

    def hide(self, run: Path) -> None:
        """Have a directory be none of a run."""
        (run / "run.json").rename(run / "away.json")

    def show(self, run: Path) -> None:
        """Undo that."""
        (run / "away.json").rename(run / "run.json")


@pytest.fixture
def elsewhere(site: CondorSite) -> Elsewhere:
    return Elsewhere(site)


def far(site: CondorSite, text: str, name: str = "far") -> Path:
    """Submit a run to the schedd ``far@``."""
    path = site.write(text, TASKS, name=name)
    path.write_text(path.read_text("utf-8").replace("{here: {}}", "{here: {htcondor: {schedd: far@}}}"), "utf-8")
    ran = site.cli("submit", path, "--json")
    assert ran.returncode == 0, ran.stderr
    return Path(ran.json["submit_dir"])


def ids(ran: CommandResult) -> set[str]:
    """The global ids of the runs of a list."""
    assert ran.returncode == 0, ran.stderr
    return {run["global_id"] for run in ran.json["runs"]}


def test_runs_of_all_schedds(site: CondorSite, elsewhere: Elsewhere) -> None:
    there, here = far(site, SLEEPS), site.begin(SLEEPS, TASKS, name="near")
    far_id, near_id = (site.report(run)["global_id"] for run in (there, here))
    assert far_id.startswith("far@#")
    assert ids(elsewhere("report", "--json")) == set()
    assert ids(elsewhere("report", "--json", "--wms-service-class", "htcondor")) == {near_id}
    assert ids(elsewhere("report", "--json", "--global")) == {far_id, near_id}
    assert ids(elsewhere("report", "--json", "--global", "--pass-thru", 'bps_payload == "far"')) == {far_id}
    assert ids(elsewhere("report", "--json", "--global", "--user", "nobody")) == set()
    # Who knows a run by its directory and by its schedd knows it once.
    assert ids(site.cli("report", "--json", "--global")) == {far_id, near_id}
    until(lambda: site.counts(there).get("RUNNING"), "the first job runs")
    elsewhere.hide(there)
    until(lambda: site.pool.queue("DAG_NodesTotal", constraint="JobUniverse == 7") == [["2"]], "DAGMan tells")
    (run,) = elsewhere("report", far_id, "--json").json["runs"]
    assert (run["path"], run["state"]) == (str(there), "RUNNING")
    assert {state: count for state, count in run["counts"].items() if count} == {"RUNNING": 1, "UNREADY": 1}
    assert elsewhere("status", far_id).returncode == 15
    refused = elsewhere("restart", far_id)
    assert refused.returncode == 5
    assert f"'{there}' on the host that submitted it" in refused.stderr
    assert elsewhere("cancel", far_id, "--pass-thru", 'bps_payload == "other"').returncode == 6
    cancelled = elsewhere("cancel", far_id)
    assert cancelled.returncode == 0, cancelled.stderr
    assert f"Successfully canceled job with id '{run['id']}'" in cancelled.stdout
    # What has left the queue is found in the history.
    over = elsewhere("report", far_id, "--json").json["runs"][0]
    assert over["state"] == "DELETED"
    assert ids(elsewhere("report", "--json", "--global", "--hist", "1")) >= {far_id, near_id}
    elsewhere.show(there)
    assert site.ended(there)["state"] == "DELETED"
    assert elsewhere("cancel", near_id).returncode == 0


def test_unknown_references(elsewhere: Elsewhere) -> None:
    nobody = elsewhere("report", "99999", "--global")
    assert nobody.returncode == 5
    assert "larger --hist" in nobody.stderr


def test_a_schedd_that_does_not_answer_is_named_and_the_others_are_shown(
    site: CondorSite, elsewhere: Elsewhere
) -> None:
    here = site.begin(SLEEPS, TASKS, name="near")
    number = next(
        int(line.split()[0])
        for line in site.pool.run("pgrep", "-a", "-f", "condor_schedd.*-local-name far").splitlines()
        if f"CONDOR_CONFIG={site.pool.config}".encode() in Path(f"/proc/{line.split()[0]}/environ").read_bytes()
    )
    os.kill(number, signal.SIGSTOP)
    try:
        ran = elsewhere("report", "--json", "--global")
        assert ids(ran) == {site.report(here)["global_id"]}
        assert "the schedd 'far@' does not answer" in ran.stderr
        (note,) = ran.json["notes"]
        assert "far@" in note
    finally:
        os.kill(number, signal.SIGCONT)
    wrong = elsewhere("report", "--pass-thru", "bps_campaign ===")
    assert wrong.returncode == 2
    assert "HTCondor cannot read as a constraint" in wrong.stderr
