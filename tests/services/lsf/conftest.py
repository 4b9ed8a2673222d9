"""A cluster of LSF's stand-ins for a test."""

from __future__ import annotations

import pytest
from tests.services.lsf.lsf_fixtures import lsf_programs, lsf_site

__all__ = ["lsf_programs", "lsf_site"]


@pytest.fixture(autouse=True)
def _retries(retries_of_bps: None) -> None:
    """Most tests say how often they retry by ``numberOfRetries`` alone."""
