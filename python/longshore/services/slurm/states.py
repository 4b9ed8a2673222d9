"""Slurm's job states and reasons of waiting, and what each means for an attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from longshore.model.states import Cause
from longshore.services.batch.jobs import StateTable

# Reasons of waiting that do not pass by themselves, and the change that mends each. The list of all reasons is
# https://slurm.schedmd.com/job_reason_codes.html. A reason is in the table if waiting cannot clear it: the
# request exceeds a limit on one job, or names what does not exist or is not allowed. Limits on sums (``AssocGrp*``,
# ``QOSGrp*``, ``*PerUser``, ``*PerAccount``) pass when other jobs end. Nodes and partitions that are away
# (``ReqNodeNotAvail``, ``NodeDown``, ``PartitionDown``, ``PartitionInactive``, ``Reservation``) come back.


_AMOUNTS: Final = {
    "Cpu": "processors",
    "Node": "nodes",
    "Mem": "memory",
    "Memory": "memory",
    "GRES": "generic resources",
    "License": "licences",
    "BB": "space in the burst buffer",
    "Billing": "billed resources",
    "Energy": "energy",
    "Unknown": "resources",
}
"""What each word of a reason limits; the association and the QOS spell memory differently."""

_LIMITED_BY: Final = {"Assoc": "the account allows", "QOS": "the QOS allows"}
_ACCOUNT: Final = "set 'account' to one that exists and that the partition allows, or choose another partition"
_QOS: Final = "set 'qos' to one that exists and that the account and the partition allow"


def _limits_per_job() -> Iterator[tuple[str, str]]:
    for owner, allows in _LIMITED_BY.items():
        for word, amount in _AMOUNTS.items():
            less = f"request less than that: {allows} fewer {amount} for one job"
            for suffix in ("PerJob", "PerJobLimit"):
                yield f"{owner}Max{word}{suffix}", less
                yield f"{owner}Max{word}Minutes{suffix}", f"{less}, or request less time"
            yield f"{owner}Max{word}PerNode", f"spread the job over more nodes: {allows} fewer {amount} on one node"
        yield f"{owner}MaxWallDurationPerJobLimit", f"lower 'requestWalltime': {allows} less time for one job"
    for word, amount in _AMOUNTS.items():
        yield f"QOSMin{word}", f"request more, or choose another 'qos': this one wants more {amount}"
    yield "QOSMinCpuNotSatisfied", "raise 'requestCpus', or choose another 'qos': this one wants more processors"


HOPELESS_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict(_limits_per_job()),
        "PartitionNodeLimit": "request fewer nodes, or choose a partition that allows as many",
        "PartitionTimeLimit": "lower 'requestWalltime', or choose a partition with a longer limit",
        "PartitionConfig": "request fewer nodes, processors or memory, or choose a partition that has as many",
        "BadConstraints": "change 'features', 'nodes' or 'gres': no node has what is requested",
        "MaxMemPerLimit": "lower 'requestMemory', or request more processors: memory per processor is limited",
        "InvalidAccount": _ACCOUNT,
        "AccountNotAllowed": _ACCOUNT,
        "InvalidQOS": _QOS,
        "QOSNotAllowed": _QOS,
        "ReservationDeleted": "remove 'reserv', or name a reservation that exists",
        "DependencyNeverSatisfied": "remove the option for a dependency: the other job has failed",
        "DeadLine": "remove the option for a deadline, or set a later one",
        "BurstBufferOperation": "correct the request for the burst buffer; 'scontrol show job' shows the error",
    }
)
"""The change that mends each such reason, in words that follow a colon."""


def _either(reason: str) -> tuple[str, str]:
    return reason, reason.replace(" ", "_")


STATES: Final = StateTable(
    waiting=(
        *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"),
        *("SUSPENDED", "STOPPED"),
    ),
    running=("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "RESIZING"),
    causes=MappingProxyType(
        {
            "COMPLETED": None,
            "FAILED": Cause.EXIT,
            "OUT_OF_MEMORY": Cause.OOM,
            **dict.fromkeys(("TIMEOUT", "DEADLINE"), Cause.WALLTIME),
            "PREEMPTED": Cause.PREEMPTED,
            **dict.fromkeys(("NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL", "REVOKED"), Cause.LOST),
            "CANCELLED": Cause.CANCELLED,
        }
    ),
    ordinary=frozenset({"COMPLETED", "FAILED"}),
    suspended=frozenset({"SUSPENDED", "STOPPED"}),
    held_reasons=frozenset(
        {
            *("JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue"),
            # What squeue says of requeued jobs is a sentence; other versions write underscores.
            *_either("launch failed requeued held"),
            *_either("job requeued in held state"),
            *_either("job requeued in special exit state"),
        }
    ),
    hopeless_reasons=HOPELESS_REASONS,
)
"""Phase per state, and cause of failure per final state (squeue(1), sacct(1): job state codes)."""


def base_state(state: str) -> str:
    """Strip the suffix of a state, such as the user in ``CANCELLED by 1000``, or the ``+`` of sacct."""
    return state.split(" ", 1)[0].rstrip("+")
