"""Grid Engine is held to what every service and executor has to do, by real daemons."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.live.sge_pools import PROGRAMS, SgePool

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import Executor
from longshore.contract.service import Context, RunPaths, Site, WmsService
from longshore.engine.job_wrapper import WRAPPER
from longshore.model.values import YamlValue
from longshore.services.batch.client import BatchClient
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.service import SgeService
from longshore.testing.conformance.service import (
    BackendOptionsConformance,
    BatchExecutorConformance,
    BatchServiceConformance,
    LoadReporterConformance,
    SiteAccessConformance,
)

pytestmark = pytest.mark.live


def own_map(pool: SgePool) -> dict[str, YamlValue]:
    """Return the site's map for Grid Engine."""
    return {"bin": str(PROGRAMS), "root": str(pool.root), "mem_resource": "h_vmem", "pollInterval": 0.5}


class TestSgeExecutor(BatchExecutorConformance):
    timeout_s = 120.0
    grace_s = 3.0
    small_jobs = 20
    # qdel kills at once.
    sends_term = False

    @pytest.fixture
    def make_executor(self, sge_pool: SgePool) -> Callable[[], Executor]:
        own = own_map(sge_pool)
        return lambda: BatchExecutor({"sge": own}, BatchClient(SgeDialect(own)))

    @pytest.fixture
    def run(self, tmp_path: Path) -> RunPaths:
        root = tmp_path / "a 'run'"
        (root / "wms").mkdir(parents=True)
        (root / BATCH_TEMPLATE).write_text(template_texts(SgeService)["batch.sh"], "utf-8")
        shutil.copy(shipped_path("bin", "longshore-job"), root / WRAPPER)
        return RunPaths(root)


class TestSgeService(
    BatchServiceConformance, BackendOptionsConformance, LoadReporterConformance, SiteAccessConformance
):
    service_name = "sge"
    timeout_s = 120.0
    known_options = "-100"

    @pytest.fixture
    def service(self, sge_pool: SgePool, monkeypatch: pytest.MonkeyPatch) -> SgeService:
        self.own = own_map(sge_pool)
        # For the question to the cluster that needs no site.
        monkeypatch.setenv("SGE_ROOT", str(sge_pool.root))
        monkeypatch.setenv("SGE_CELL", "default")
        return SgeService()

    @pytest.fixture
    def scratch(self, tmp_path: Path, sge_pool: SgePool) -> Path:
        return tmp_path

    def context(self, service: WmsService, root: Path) -> Context:
        ctx = super().context(service, root)
        settings = {**ctx.settings, "executor": {**ctx.settings.get("executor", {}), "sge": self.own}}
        return msgspec.structs.replace(
            ctx, settings=settings, site=Site(name="conformance", settings={"sge": self.own})
        )
