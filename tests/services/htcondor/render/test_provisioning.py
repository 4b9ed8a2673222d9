"""Rendering of the provisioning job."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.htcondor.rendering import context, job, rendered

from longshore.model.tasks import Dag
from longshore.model.workflow import Workflow
from longshore.services.htcondor.check import check
from longshore.services.htcondor.submission.validate import parse_dag

SCRIPT = "#!/bin/bash\nset -e\nwhile true; do allocate 10; sleep 600; done\n"


def _files(**run: Any) -> dict[str, str]:
    return rendered(Workflow("w", Dag.by_name([job("a")])), context(run=run))


def test_no_provisioning_by_default() -> None:
    files = _files(provisionResources=False, provisioning={"provisioningScript": SCRIPT})
    assert not [name for name in files if "provision" in name]
    assert "SERVICE" not in files["wms/run.dag"]


def test_machines_are_started_for_as_long_as_the_run_lasts() -> None:
    given = {
        "provisioningScript": SCRIPT,
        "provisioningMaxWallTime": "1:00",
        "provisioningScriptConfig": "config.x=1\n",
        "provisioningScriptConfigPath": "/home/me/.lsst/condor info.py",
    }
    files = _files(provisionResources=True, provisioning=given)
    assert files["wms/provisioningConfig"] == "config.x=1\n"
    first, second, third, *_ = files["wms/provisioningJob.bash"].splitlines()
    assert (first, third) == ("#!/bin/bash", "set -e")
    assert second == (
        "[ -e '/home/me/.lsst/condor info.py' ] || { mkdir -p \"$(dirname '/home/me/.lsst/condor info.py')\" "
        "&& cp /data/runs/one/wms/provisioningConfig '/home/me/.lsst/condor info.py'; }"
    )
    found = parse_dag(files["wms/run.dag"].splitlines(keepends=True))
    assert found.faults == []
    assert found.nodes["provision"] == "d_provision"
    assert "universe = local\n" in found.descriptions["d_provision"].text


def test_a_program_without_a_first_line_gets_one() -> None:
    given = {
        "provisioningScript": "allocate 1\n",
        "provisioningScriptConfig": "x",
        "provisioningScriptConfigPath": "/p",
    }
    files = _files(provisionResources="true", provisioningMaxWallTime="1:00", provisioning=given)
    assert files["wms/provisioningJob.bash"].startswith("#!/bin/bash\n[ -e /p ]")
    assert files["wms/provisioningJob.bash"].endswith("\nallocate 1\n")
    plain = {"provisioningScript": "allocate 1\n", "provisioningMaxWallTime": "1:00"}
    assert _files(provisionResources=True, provisioning=plain)["wms/provisioningJob.bash"] == "allocate 1\n"


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"provisionResources": "maybe"}, "'provisionResources' must be true or false"),
        ({"provisionResources": True}, "there is no 'provisioning.provisioningScript'"),
        ({"provisionResources": True, "provisioning": {"provisioningScript": "x"}}, "'provisioningMaxWallTime'"),
    ],
)
def test_missing_settings_are_reported(run: dict[str, Any], words: str) -> None:
    (problem,) = check(Workflow("w", Dag.by_name([job("a")])), context(run=run))
    assert problem.fatal
    assert words in problem.message
