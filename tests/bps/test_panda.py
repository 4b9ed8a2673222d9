"""The PanDA plug-in of the real BPS under Longshore, against a stand-in of PanDA's server."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.bps.panda_server import panda_server
from tests.bps.real_tasks import END_S, BpsShell, bps_shell
from tests.bps_environment import BpsEnvironment

pytestmark = pytest.mark.bps

RUN = """\
pipeline:
  dimensions: {visit: [1, 2]}
  tasks:
    isr:
      dimensions: [visit]
      outputs: {raw: "raw_{visit}.txt"}
      command: echo {visit} > {raw}
    sum:
      inputs: [raw]
      outputs: {total: total.txt}
      command: [sh, -c, 'cat "$@" > "$0"', "{total}", "{raw}"]
requestMemory: 100
finalJob: {whenRun: ALWAYS, command1: echo last}
wmsServiceClass: lsst.ctrl.bps.panda.PanDAService
computeSite: far
computeCloud: CLOUD
fileDistributionEndPoint: FOLDER/shared/
site: {far: {description: a site of PanDA}}
cloud: {CLOUD: {}}
queue: QUEUE
"""


@pytest.mark.timeout(END_S)
def test_submit_report_cancel_and_restart_reach_panda(tmp_path: Path, bps: BpsEnvironment) -> None:
    with panda_server() as panda:
        urls = {"PANDA_URL": panda.url, "PANDA_URL_SSL": panda.url, "PANDACACHE_URL": panda.url}
        shell = BpsShell(folder=tmp_path, env={**bps_shell(tmp_path, bps).env, **urls})
        (tmp_path / "run.yaml").write_text(RUN.replace("FOLDER", str(tmp_path)), "utf-8")
        done = shell("longshore", "submit", "run.yaml")
        assert "Run Id: 4711" in done.stdout
        assert panda.names()[-1] == "submit"

        panda.tasks = {
            "isr": {"output_processed_files": 1, "output_processing_files": 1},
            "sum": {"output_missing_files": 0, "input_new_files": 1},
        }
        report = shell("longshore", "report", "--id", "4711", "--bps").stdout
        assert "RUNNING" in report
        assert shell("longshore", "status", "4711", check=False).returncode == 15
        shell("longshore", "cancel", "4711")
        assert ("abort", {"request_id": "4711"}) in panda.commands
        shell("longshore", "restart", "4711")
        assert ("retry", {"request_id": "4711"}) in panda.commands
