"""Tests of this folder need a C compiler."""

from __future__ import annotations

import pytest
from tests.faults.shim import require_compiler


@pytest.fixture(scope="session")
def compiler() -> None:
    """Skip the test where no C compiler is installed; fail where everything is required."""
    require_compiler()
