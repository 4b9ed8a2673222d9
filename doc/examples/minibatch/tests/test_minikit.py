"""Conformance of minibatch's dialect, and of the kit with it, to Longshore's contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from longshore_minibatch.kit.dialect import MinibatchDialect
from longshore_minibatch.kit.service import MinikitService

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.executor import Executor
from longshore.contract.service import RunPaths, WmsService
from longshore.engine.job_wrapper import WRAPPER
from longshore.services.batch.client import BatchClient
from longshore.services.batch.executor.executor import BatchExecutor
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.system.programs import ProgramResult
from longshore.testing.conformance.service import BatchExecutorConformance, BatchServiceConformance


@pytest.fixture(autouse=True)
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test its own queue."""
    monkeypatch.setenv("MINIBATCH_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("MINIBATCH_CPUS", "8")
    # All runs of a user on a host share the answers of a cluster. These queues have one name and different jobs.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("status", "out", "err", "outcome"),
    [
        (0, "17\n", "", "accepted"),
        (1, "", "mb-submit: a job can have 1 to 8 processors, not 9", "hopeless"),
        (1, "", "mb-submit: the job cannot be queued", "refused"),
        (None, "", "", "unsure"),
    ],
)
def test_replies_have_one_meaning(status: int | None, out: str, err: str, outcome: str) -> None:
    """What mb-submit prints decides what the kit does next."""
    answer = ProgramResult(argv=("mb-submit",), status=status, out=out, err=err)
    assert MinibatchDialect({}).submit_reply(answer).outcome == outcome


def test_a_row_of_the_queue() -> None:
    """Each line of mb-queue is a job."""
    (row,) = MinibatchDialect({}).parse_queue("4 k7f3a-1-1 running\n")
    assert (str(row.id), row.name, row.state) == ("4", "k7f3a-1-1", "running")


class TestMinikitExecutor(BatchExecutorConformance):
    small_jobs = 20
    grace_s = 5.0

    @pytest.fixture
    def make_executor(self) -> Callable[[], Executor]:
        own = {"pollInterval": 0.2}
        return lambda: BatchExecutor({"minikit": own}, BatchClient(MinibatchDialect(own)))

    @pytest.fixture
    def run(self, tmp_path: Path) -> RunPaths:
        run = RunPaths(tmp_path / "a 'run'")
        run.wms.mkdir(parents=True)
        (run.root / BATCH_TEMPLATE).write_text(template_texts(MinikitService)["batch.sh"], "utf-8")
        (run.root / WRAPPER).write_text(shipped_path("bin", WRAPPER.name).read_text("utf-8"), "utf-8")
        return run


class TestMinikitService(BatchServiceConformance):
    service_name = "minikit"

    @pytest.fixture
    def service(self) -> WmsService:
        return MinikitService()

    @pytest.fixture
    def scratch(self, tmp_path: Path) -> Path:
        return tmp_path
