"""The pilot executor is held to what every executor has to do, with real pilots on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.services.batch.pilots.local_allocations import LocalAllocations

from longshore.contract.executor import Executor
from longshore.contract.service import RunPaths
from longshore.services.batch.pilots.allocations import PilotSettings
from longshore.services.batch.pilots.executor import PilotExecutor
from longshore.testing.conformance.executor import ExecutorConformance, NewsWaitConformance

_SETTINGS = PilotSettings(cpus=4, memory_b=1 << 32, count=2, settle_s=0.2)


class TestPilotExecutor(ExecutorConformance, NewsWaitConformance):
    timeout_s = 120.0
    grace_s = 0.3

    @pytest.fixture
    def run(self, tmp_path: Path) -> RunPaths:
        root = tmp_path / "a 'run'"
        root.mkdir()
        return RunPaths(root)

    @pytest.fixture
    def make_executor(self, run: RunPaths) -> Iterator[Callable[[], Executor]]:
        allocations = LocalAllocations(run.root, _SETTINGS)
        yield lambda: PilotExecutor(allocations, _SETTINGS)
        allocations.cancel(list(allocations.processes))
