"""Conformance of services with Longshore's engine: the core and the capabilities of `EngineService`."""

from __future__ import annotations

from longshore.testing.conformance.service import ServiceConformance
from longshore.testing.conformance.service_capabilities import (
    AmendableConformance,
    CancellableConformance,
    LivenessProbeConformance,
    LogLocatingConformance,
    RestartableConformance,
    ResumableConformance,
    SteerableConformance,
)
from longshore.testing.conformance.site_capabilities import NoticeHostConformance


class EngineServiceConformance(
    ServiceConformance,
    LivenessProbeConformance,
    CancellableConformance,
    RestartableConformance,
    AmendableConformance,
    ResumableConformance,
    SteerableConformance,
    LogLocatingConformance,
    NoticeHostConformance,
):
    """A service derived from `longshore.engine.run.engine_service.EngineService`."""
