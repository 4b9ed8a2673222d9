"""Slurm's job states, and the phase and cause each means for an attempt."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from longshore.batch.jobs import StateTable
from longshore.model.run.states import Cause


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
)
"""Phase per state, and cause of failure per final state (squeue(1), sacct(1): job state codes)."""


def base_state(state: str) -> str:
    """Strip the suffix of a state, such as the user in ``CANCELLED by 1000``, or the ``+`` of sacct."""
    return state.split(" ", 1)[0].rstrip("+")
