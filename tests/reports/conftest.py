"""Jobs of a small run, for tests of what is made from its events."""

from __future__ import annotations

import pytest
from tests.written_run import WrittenRun

from longshore.rundir.job_table import JobTable


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> JobTable:
    """The jobs of a run of six jobs."""
    return JobTable(WrittenRun(tmp_path_factory.mktemp("run") / "run").run, "parents")
