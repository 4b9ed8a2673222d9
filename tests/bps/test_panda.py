"""The PanDA plug-in of the real BPS under Longshore, against a stand-in of PanDA's server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.bps.panda_server import PandaServer, panda_server
from tests.bps.plugin_runs import COMMANDS
from tests.bps.real_tasks import END_S, BpsShell, bps_shell
from tests.bps_environment import BpsEnvironment

pytestmark = pytest.mark.bps

RUN = f"""\
{COMMANDS}\
wmsServiceClass: lsst.ctrl.bps.panda.PanDAService
computeSite: far
computeCloud: CLOUD
fileDistributionEndPoint: FOLDER/shared/
site: {{far: {{description: a site of PanDA}}}}
cloud: {{CLOUD: {{}}}}
queue: QUEUE
"""

TASKS = {
    "isr": {"output_processed_files": 1, "output_processing_files": 1},
    "sum": {"output_missing_files": 0, "input_new_files": 1},
}
"""Counts of files per label, as PanDA has them while the run is in the middle."""


@pytest.fixture
def panda() -> Iterator[PandaServer]:
    """A stand-in of PanDA's server."""
    with panda_server() as server:
        yield server


@pytest.fixture
def shell(panda: PandaServer, tmp_path: Path, bps: BpsEnvironment) -> BpsShell:
    """A shell whose programs find the server."""
    urls = {"PANDA_URL": panda.url, "PANDA_URL_SSL": panda.url, "PANDACACHE_URL": panda.url}
    (tmp_path / "run.yaml").write_text(RUN.replace("FOLDER", str(tmp_path)), "utf-8")
    return BpsShell(folder=tmp_path, env={**bps_shell(tmp_path, bps).env, **urls})


@pytest.mark.timeout(END_S)
def test_submit_report_and_cancel_reach_panda(shell: BpsShell, panda: PandaServer) -> None:
    assert "Run Id: 4711" in shell("longshore", "submit", "run.yaml").stdout
    assert panda.names()[-1] == "submit"
    panda.tasks = TASKS
    assert "RUNNING" in shell("longshore", "report", "--id", "4711", "--bps").stdout
    shell("longshore", "cancel", "4711")
    assert ("abort", {"request_id": "4711"}) in panda.commands


@pytest.mark.bulk
@pytest.mark.timeout(END_S)
def test_restart_reaches_panda(shell: BpsShell, panda: PandaServer) -> None:
    shell("longshore", "submit", "run.yaml")
    panda.tasks = TASKS
    shell("longshore", "cancel", "4711")
    shell("longshore", "restart", "4711")
    assert ("retry", {"request_id": "4711"}) in panda.commands
