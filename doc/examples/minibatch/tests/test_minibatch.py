"""Conformance of minibatch to Longshore's contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from longshore_minibatch.executor import TEMPLATE, MinibatchExecutor
from longshore_minibatch.service import MinibatchService

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import Executor
from longshore.contract.service import RunPaths, WmsService
from longshore.engine.job_wrapper import WRAPPER
from longshore.testing.conformance.executor import EndRetentionConformance, ExecutorConformance
from longshore.testing.conformance.service import EngineServiceConformance


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own queue."""
    monkeypatch.setenv("MINIBATCH_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("MINIBATCH_CPUS", "8")


class TestMinibatchExecutor(ExecutorConformance, EndRetentionConformance):
    small_jobs = 20

    @pytest.fixture
    def make_executor(self) -> Callable[[], Executor]:
        return lambda: MinibatchExecutor({"minibatch": {"pollInterval": 0.1}})

    @pytest.fixture
    def run(self, tmp_path: Path) -> RunPaths:
        run = RunPaths(tmp_path / "a 'run'")
        run.wms.mkdir(parents=True)
        (run.root / TEMPLATE).write_text(template_texts(MinibatchService)["batch.sh"], "utf-8")
        (run.root / WRAPPER).write_text(shipped_path("bin", WRAPPER.name).read_text("utf-8"), "utf-8")
        return run


class TestMinibatchService(EngineServiceConformance):
    service_name = "minibatch"

    @pytest.fixture
    def service(self) -> WmsService:
        return MinibatchService()

    @pytest.fixture
    def scratch(self, tmp_path: Path) -> Path:
        return tmp_path
