"""HTCondor is held to what every service has to do, by a real pool."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.condor_pools import CondorPool

from longshore.services.htcondor.service import HTCondorService
from longshore.testing.conformance import ServiceConformance

pytestmark = pytest.mark.live


class TestHTCondorService(ServiceConformance):
    service_name = "htcondor"
    patience_s = 120.0

    @pytest.fixture
    def service(self, condor_pool: CondorPool) -> HTCondorService:
        return HTCondorService()

    @pytest.fixture
    def scratch(self, tmp_path: Path, condor_pool: CondorPool) -> Path:
        return tmp_path
