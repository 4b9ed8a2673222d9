"""Slurm is held to what every service and executor has to do, by real daemons."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from tests.live.pools import SlurmPool

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import Executor
from longshore.contract.service import Context, RunPaths, Site, WmsService
from longshore.engine.job_wrapper import WRAPPER
from longshore.model.values import YamlValue
from longshore.services.batch.client import BatchClient
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.service import SlurmService
from longshore.testing.conformance.service import (
    BackendOptionsConformance,
    BatchExecutorConformance,
    BatchServiceConformance,
    LauncherLineConformance,
    LoadReporterConformance,
)

pytestmark = pytest.mark.live


class TestSlurmExecutor(BatchExecutorConformance):
    timeout_s = 120.0
    grace_s = 3.0
    small_jobs = 60

    @pytest.fixture
    def make_executor(self, slurm_pool: SlurmPool) -> Callable[[], Executor]:
        own: dict[str, YamlValue] = {"config": str(slurm_pool.conf), "pollInterval": 0.5}
        return lambda: BatchExecutor({"slurm": own}, BatchClient(SlurmDialect(own)))

    @pytest.fixture
    def run(self, tmp_path: Path) -> RunPaths:
        root = tmp_path / "a 'run'"
        (root / "wms").mkdir(parents=True)
        (root / BATCH_TEMPLATE).write_text(template_texts(SlurmService)["batch.sh"], "utf-8")
        shutil.copy(shipped_path("bin", "longshore-job"), root / WRAPPER)
        return RunPaths(root)


class TestSlurmService(
    BatchServiceConformance,
    LauncherLineConformance,
    BackendOptionsConformance,
    LoadReporterConformance,
):
    service_name = "slurm"
    timeout_s = 120.0
    launcher_settings: ClassVar[Mapping[str, object]] = {"launcher": "srun"}
    known_options = "--qos=debug"

    @pytest.fixture
    def service(self, slurm_pool: SlurmPool) -> SlurmService:
        return SlurmService()

    @pytest.fixture
    def scratch(self, tmp_path: Path, slurm_pool: SlurmPool) -> Path:
        return tmp_path

    def context(self, service: WmsService, root: Path) -> Context:
        return _at_site(super().context(service, root), {"pollInterval": 0.5})


class TestNativeSlurm(TestSlurmService):
    """The same service where Slurm itself runs the graph; of its runs, only the whole can be cancelled."""

    cancels_single_jobs = False
    pauses = False

    @pytest.fixture
    def slurm_pool(self, slurm_without_accounting: SlurmPool, monkeypatch: pytest.MonkeyPatch) -> SlurmPool:
        monkeypatch.setenv("SLURM_CONF", str(slurm_without_accounting.conf))
        return slurm_without_accounting

    def context(self, service: WmsService, root: Path) -> Context:
        return _at_site(super().context(service, root), {"mode": "native", "engineJob": {"mem": "300M"}})


def _at_site(ctx: Context, slurm: Mapping[str, object]) -> Context:
    """The context at a site with a map for Slurm, which the executor gets, too."""
    settings = {**ctx.settings, "executor": {**ctx.settings.get("executor", {}), "slurm": slurm}}
    return msgspec.structs.replace(ctx, settings=settings, site=Site(name="conformance", settings={"slurm": slurm}))
