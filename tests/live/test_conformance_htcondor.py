"""Conformance of the HTCondor service, on a real pool."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.condor_pools import CondorPool

from longshore.model.workflow import JobSettings
from longshore.services.htcondor.service import HTCondorService
from longshore.testing.conformance.service import (
    AllocationReaderConformance,
    AmendableConformance,
    BriefEventsConformance,
    CancellableConformance,
    HoldRulesConformance,
    JobProbeConformance,
    LivenessProbeConformance,
    LoadReporterConformance,
    LogDirectoriesConformance,
    LogLocatingConformance,
    NoticeHostConformance,
    QueryableConformance,
    RecoverableConformance,
    RestartableConformance,
    ResumableConformance,
    RunMirroringConformance,
    ServiceConformance,
    StatusLinesConformance,
    SteerableConformance,
)

pytestmark = pytest.mark.live


class TestHTCondorService(
    ServiceConformance,
    AllocationReaderConformance,
    AmendableConformance,
    BriefEventsConformance,
    CancellableConformance,
    HoldRulesConformance,
    JobProbeConformance,
    LivenessProbeConformance,
    LoadReporterConformance,
    LogDirectoriesConformance,
    LogLocatingConformance,
    NoticeHostConformance,
    QueryableConformance,
    RecoverableConformance,
    RestartableConformance,
    ResumableConformance,
    RunMirroringConformance,
    StatusLinesConformance,
    SteerableConformance,
):
    service_name = "htcondor"
    timeout_s = 120.0
    pause_s = 15.0
    unmet_settings = JobSettings(
        label="absent", service_settings={"profile.condor": {"requirements": 'Machine == "nowhere"'}}
    )

    @pytest.fixture
    def service(self, condor_pool: CondorPool) -> HTCondorService:
        return HTCondorService()

    @pytest.fixture
    def scratch(self, tmp_path: Path, condor_pool: CondorPool) -> Path:
        return tmp_path
