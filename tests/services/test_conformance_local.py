"""The local service is held to what every service and executor has to do, in real processes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from longshore.contract.executor import Executor
from longshore.contract.service import RunPaths
from longshore.services.local.executor import LocalExecutor
from longshore.services.local.service import LocalService
from longshore.testing.conformance.executor import (
    ExecutorConformance,
    HostBoundConformance,
    NewsWaitConformance,
    ProcessCleanupConformance,
    ResourceProbeConformance,
    UnitHolderConformance,
)
from longshore.testing.conformance.service import EngineServiceConformance, LoadReporterConformance

_PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture(autouse=True)
def ordinary_process() -> Iterator[None]:
    """Undo what an executor makes of its process, and reap what it left to end by itself."""
    yield
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


class TestLocalExecutor(
    ExecutorConformance,
    ResourceProbeConformance,
    NewsWaitConformance,
    ProcessCleanupConformance,
    HostBoundConformance,
    UnitHolderConformance,
):
    timeout_s = 120.0
    grace_s = 0.3

    @pytest.fixture
    def make_executor(self) -> Callable[[], Executor]:
        return lambda: LocalExecutor({})

    @pytest.fixture
    def run(self, tmp_path: Path) -> RunPaths:
        root = tmp_path / "a 'run'"
        root.mkdir()
        return RunPaths(root)

    def test_the_log_has_the_output_alone(self, make_executor: Callable[[], Executor], run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            member = driver.member("echo out; echo err >&2")
            driver.run_members(member)
            assert driver.read_log(member) == "out\nerr\n"

    def test_signals_have_their_names(self, make_executor: Callable[[], Executor], run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            event = driver.run_members(driver.member("kill -9 $$"))[0]
            assert (event.exit, event.signal, event.reason) == (None, 9, "killed by SIGKILL")
            assert event.host == os.uname().nodename

    def test_it_must_be_opened(self) -> None:
        with pytest.raises(RuntimeError, match="open"):
            LocalExecutor({}).poll("")


class TestLocalService(EngineServiceConformance, LoadReporterConformance):
    service_name = "local"
    timeout_s = 120.0
    settings: ClassVar[Mapping[str, object]] = {"grace_s": 0.3, "executor": {"pool": {"cpus": 4}}}

    @pytest.fixture
    def service(self) -> LocalService:
        return LocalService()

    @pytest.fixture
    def scratch(self, tmp_path: Path) -> Path:
        return tmp_path
