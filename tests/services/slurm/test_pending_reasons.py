"""Which of Slurm's reasons to wait never pass, and what mends them."""

from __future__ import annotations

import pytest

from longshore.services.slurm.dialect import SlurmDialect

NEVER = (
    "AccountNotAllowed AssocMaxBBMinutesPerJob AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBillingMinutesPerJob"
    " AssocMaxBillingPerJob AssocMaxBillingPerNode AssocMaxCpuMinutesPerJobLimit AssocMaxCpuPerJobLimit"
    " AssocMaxCpuPerNode AssocMaxEnergyMinutesPerJob AssocMaxEnergyPerJob AssocMaxEnergyPerNode"
    " AssocMaxGRESMinutesPerJob AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxLicenseMinutesPerJob"
    " AssocMaxLicensePerJob AssocMaxMemMinutesPerJob AssocMaxMemPerJob AssocMaxMemPerNode AssocMaxNodeMinutesPerJob"
    " AssocMaxNodePerJobLimit AssocMaxWallDurationPerJobLimit BadConstraints BurstBufferOperation DeadLine"
    " DependencyNeverSatisfied InvalidAccount InvalidQOS MaxMemPerLimit PartitionConfig PartitionNodeLimit"
    " PartitionTimeLimit QOSMaxBBPerJob QOSMaxBillingPerJob QOSMaxCpuMinutesPerJobLimit QOSMaxCpuPerJobLimit"
    " QOSMaxCpuPerNode QOSMaxGRESPerJob QOSMaxGRESPerNode QOSMaxLicensePerJob QOSMaxMemoryMinutesPerJob"
    " QOSMaxMemoryPerJob QOSMaxMemoryPerNode QOSMaxNodeMinutesPerJob QOSMaxNodePerJobLimit"
    " QOSMaxWallDurationPerJobLimit QOSMinBB QOSMinBilling QOSMinCpuNotSatisfied QOSMinGRES QOSMinMemory QOSMinNode"
    " QOSNotAllowed ReservationDeleted"
)
PASSES = (
    "AccountingPolicy AssocGrpCpuLimit AssocGrpCPUMinutesLimit AssocGrpJobsLimit AssocMaxJobsLimit"
    " AssocMaxSubmitJobLimit BeginTime BurstBufferResources BurstBufferStageIn Cleaning Constraints Dependency"
    " JobArrayTaskLimit JobHeldAdmin JobHeldUser Licenses MaxCpuPerAccount NodeDown PartitionDown PartitionInactive"
    " Priority Prolog QOSGrpCpuLimit QOSMaxCpuPerUserLimit QOSMaxJobsPerUserLimit QOSMaxMemoryPerUser"
    " QOSMaxNodePerUserLimit QOSMaxSubmitJobPerUserLimit ReqNodeNotAvail Reservation Resources SchedDefer"
)


@pytest.mark.parametrize("reason", NEVER.split())
def test_a_limit_on_one_job_never_passes_and_has_a_mend(reason: str) -> None:
    mend = SlurmDialect.states.mend(reason)
    assert mend
    assert mend[0].islower()
    assert not mend.endswith("."), "it stands behind a colon, in a sentence of others"


@pytest.mark.parametrize("reason", [*PASSES.split(), "", "ReqNodeNotAvail, UnavailableNodes:n3"])
def test_what_others_use_or_operators_mend_passes(reason: str) -> None:
    assert SlurmDialect.states.mend(reason) == ""


def test_details_behind_a_reason_change_nothing() -> None:
    assert SlurmDialect.states.mend("BadConstraints, details") == SlurmDialect.states.mend("BadConstraints")
