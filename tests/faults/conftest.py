"""Tests of this folder need a C compiler."""

from __future__ import annotations

import pytest
from tests.faults.shim import require_compiler


@pytest.fixture(autouse=True)
def _retries(retries_of_bps: None) -> None:
    """Most tests say how often they retry by ``numberOfRetries`` alone."""


@pytest.fixture(scope="session")
def compiler() -> None:
    """Skip the test where no C compiler is installed; fail where everything is required."""
    require_compiler()
