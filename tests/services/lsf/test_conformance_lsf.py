"""LSF is held to what every service and executor has to do, by its stand-ins."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import Executor
from longshore.contract.service import Context, RunPaths, Site, WmsService
from longshore.engine.job_wrapper import WRAPPER
from longshore.model.values import YamlValue
from longshore.services.batch.client import BatchClient
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.lsf.dialect import LsfDialect
from longshore.services.lsf.service import LsfService
from longshore.testing.conformance.service import (
    BackendOptionsConformance,
    BatchExecutorConformance,
    BatchServiceConformance,
)


class TestLsfExecutor(BatchExecutorConformance):
    timeout_s = 120.0
    grace_s = 3.0
    small_jobs = 16

    @pytest.fixture
    def make_executor(self, lsf_programs: Path) -> Callable[[], Executor]:
        own: dict[str, YamlValue] = {"envdir": str(lsf_programs.parent / "conf"), "pollInterval": 0.5}
        return lambda: BatchExecutor({"lsf": own}, BatchClient(LsfDialect(own)))

    @pytest.fixture
    def run(self, tmp_path: Path) -> RunPaths:
        root = tmp_path / "a 'run'"
        (root / "wms").mkdir(parents=True)
        (root / BATCH_TEMPLATE).write_text(template_texts(LsfService)["batch.sh"], "utf-8")
        shutil.copy(shipped_path("bin", "longshore-job"), root / WRAPPER)
        return RunPaths(root)


@pytest.mark.full
class TestLsfService(BatchServiceConformance, BackendOptionsConformance):
    service_name = "lsf"
    known_options = "-q normal -x"
    timeout_s = 120.0

    @pytest.fixture
    def service(self, lsf_programs: Path) -> LsfService:
        return LsfService()

    @pytest.fixture
    def scratch(self, tmp_path: Path, lsf_programs: Path) -> Path:
        return tmp_path

    def context(self, service: WmsService, root: Path) -> Context:
        return _at_site(super().context(service, root), {"pollInterval": 0.5})


@pytest.mark.full
class TestNativeLsf(TestLsfService):
    """The same service where LSF itself runs the graph; of its runs, only the whole can be cancelled."""

    cancels_single_jobs = False
    pauses = False

    def context(self, service: WmsService, root: Path) -> Context:
        return _at_site(super().context(service, root), {"mode": "native"})


def _at_site(ctx: Context, lsf: Mapping[str, object]) -> Context:
    """The context at a site with a map for LSF, which the executor gets, too."""
    settings = {**ctx.settings, "executor": {**ctx.settings.get("executor", {}), "lsf": lsf}}
    return msgspec.structs.replace(ctx, settings=settings, site=Site(name="conformance", settings={"lsf": lsf}))
