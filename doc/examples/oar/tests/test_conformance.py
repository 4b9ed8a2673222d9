"""Conformance of OAR's dialect, and of the kit with it, to Longshore's contract.

The programs are stand-ins, or those in ``PATH`` with ``LONGSHORE_TEST_OAR``: a cluster with 8 free cores.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from longshore_oar.dialect import OarDialect
from longshore_oar.service import OarService

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import Executor
from longshore.contract.service import RunPaths, WmsService
from longshore.engine.job_wrapper import WRAPPER
from longshore.services.batch.client import BatchClient
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.testing.conformance.service import BatchExecutorConformance, BatchServiceConformance

IS_LIVE = "LONGSHORE_TEST_OAR" in os.environ
OWN = {"pollInterval": 1} if IS_LIVE else {"pollInterval": 0.2, "killDelay": 1}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test stand-ins with a table of their own, unless there is an OAR."""
    if IS_LIVE:
        return
    folder = tmp_path / "stand-ins"
    folder.mkdir()
    for name in ("oarsub", "oarstat", "oardel", "oarnodes"):
        (folder / name).symlink_to(Path(__file__).with_name("stand_in.py"))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("STAND_IN_OF_OAR", str(folder))
    monkeypatch.setenv("LOGNAME", getpass.getuser())
    # All runs of a user on a host share the answers of a cluster. These clusters have one name and different jobs.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


class TestOarExecutor(BatchExecutorConformance):
    small_jobs = 16
    timeout_s = 90.0 if IS_LIVE else 30.0
    grace_s = 5.0 if IS_LIVE else 1.0

    @pytest.fixture
    def make_executor(self) -> Callable[[], Executor]:
        return lambda: BatchExecutor({"oar": OWN}, BatchClient(OarDialect(OWN)))

    @pytest.fixture
    def run(self, tmp_path: Path) -> RunPaths:
        run = RunPaths(tmp_path / "a 'run'")
        run.wms.mkdir(parents=True)
        (run.root / BATCH_TEMPLATE).write_text(template_texts(OarService)["batch.sh"], "utf-8")
        (run.root / WRAPPER).write_text(shipped_path("bin", WRAPPER.name).read_text("utf-8"), "utf-8")
        return run


class TestOarService(BatchServiceConformance):
    service_name = "oar"

    @pytest.fixture
    def service(self) -> WmsService:
        return OarService()

    @pytest.fixture
    def scratch(self, tmp_path: Path) -> Path:
        return tmp_path
