"""The environment with the real BPS has all its plug-ins, and this checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.bps_environment import BpsEnvironment

pytestmark = pytest.mark.bps

_PLUG_INS = """
import lsst.ctrl.bps.htcondor.htcondor_service
import lsst.ctrl.bps.panda.panda_service
import lsst.ctrl.bps.parsl.sites.local
import longshore
print(longshore.__file__)
"""


def test_plug_ins_and_this_checkout_can_be_imported(bps: BpsEnvironment) -> None:
    done = subprocess.run(
        [bps.python, "-c", _PLUG_INS], env=bps.variables(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    root = Path(__file__).resolve().parents[2]
    assert Path(done.stdout.strip()).resolve() == root / "python" / "longshore" / "__init__.py"


@pytest.mark.bulk
@pytest.mark.parametrize("program", ["bps", "pipetask", "butler", "longshore"])
def test_program_starts(bps: BpsEnvironment, program: str) -> None:
    done = subprocess.run(
        [bps.folder / "bin" / program, "--help"], env=bps.variables(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout
