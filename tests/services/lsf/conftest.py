"""A cluster of LSF's stand-ins for a test."""

from __future__ import annotations

from tests.services.lsf.lsf_fixtures import lsf_programs, lsf_site

__all__ = ["lsf_programs", "lsf_site"]
