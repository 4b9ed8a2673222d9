"""The conformance of a service that has only reports: the shell of these tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.shell_service import ShellService

from longshore.testing.conformance.service import LogDirectoriesConformance, ServiceConformance


class TestShellService(ServiceConformance, LogDirectoriesConformance):
    service_name = "tests.shell_service.ShellService"

    @pytest.fixture
    def service(self) -> ShellService:
        return ShellService()

    @pytest.fixture
    def scratch(self, tmp_path: Path) -> Path:
        return tmp_path
