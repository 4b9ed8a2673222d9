"""Conformance of services with a dialect: the capabilities of the kit's executor and of its service."""

from __future__ import annotations

from longshore.contract.context import Context
from longshore.testing.conformance.engine_service import EngineServiceConformance
from longshore.testing.conformance.executor import ExecutorConformance
from longshore.testing.conformance.executor_capabilities import (
    BatchSizingConformance,
    EndRetentionConformance,
    LateFactSourceConformance,
    NewsWaitConformance,
    ReprioritisableConformance,
    ResourceProbeConformance,
    SubmitWindowConformance,
)
from longshore.testing.conformance.service_capabilities import (
    AllocationReaderConformance,
    PartialJournalConformance,
    RecoverableConformance,
)
from longshore.testing.conformance.site_capabilities import JobProbeConformance


class BatchExecutorConformance(
    ExecutorConformance,
    ResourceProbeConformance,
    SubmitWindowConformance,
    BatchSizingConformance,
    ReprioritisableConformance,
    EndRetentionConformance,
    LateFactSourceConformance,
    NewsWaitConformance,
):
    """The kit's executor, with the dialect of a test class."""


class BatchServiceConformance(
    EngineServiceConformance,
    RecoverableConformance,
    PartialJournalConformance,
    AllocationReaderConformance,
    JobProbeConformance,
):
    """A service derived from `longshore.batch.service.BatchService`."""

    def knows_names(self, ctx: Context) -> bool:
        """Whether the dialect lists the partitions of the cluster."""
        inventory = ctx.probe.inventory if ctx.probe else None
        return inventory is not None and inventory.partitions is not None
