"""Slurm's job states, and the phase and cause each means for an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from longshore.batch.jobs import QueuePhase, StateTable
from longshore.model.run.states import Cause
from longshore.services.slurm.commands.pending_reasons import HOPELESS_REASONS

_WAITING = "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT SUSPENDED STOPPED"
_RUNNING = "RUNNING COMPLETING STAGE_OUT SIGNALING RESIZING"
_OVER = (
    "COMPLETED FAILED OUT_OF_MEMORY TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE CANCELLED REVOKED LAUNCH_FAILED"
    " RECONFIG_FAIL"
)
QUEUE_PHASES: Mapping[str, QueuePhase] = MappingProxyType(
    {
        **dict.fromkeys(_WAITING.split(), QueuePhase.WAITING),
        **dict.fromkeys(_RUNNING.split(), QueuePhase.RUNNING),
        **dict.fromkeys(_OVER.split(), QueuePhase.OVER),
    }
)
"""Phase per state (squeue(1), sacct(1): job state codes)."""

CAUSES: Mapping[str, Cause | None] = MappingProxyType(
    {
        "COMPLETED": None,
        "FAILED": Cause.EXIT,
        "OUT_OF_MEMORY": Cause.OOM,
        "TIMEOUT": Cause.WALLTIME,
        "DEADLINE": Cause.WALLTIME,
        "PREEMPTED": Cause.PREEMPTED,
        "NODE_FAIL": Cause.LOST,
        "BOOT_FAIL": Cause.LOST,
        "LAUNCH_FAILED": Cause.LOST,
        "RECONFIG_FAIL": Cause.LOST,
        "REVOKED": Cause.LOST,
        "CANCELLED": Cause.CANCELLED,
    }
)
"""Cause of failure per final state; ``None`` for a success."""


def _either(reason: str) -> tuple[str, str]:
    return reason, reason.replace(" ", "_")


STATES: Final = StateTable(
    phases=QUEUE_PHASES,
    causes=CAUSES,
    ordinary=frozenset({"COMPLETED", "FAILED"}),
    hopeless_reasons=HOPELESS_REASONS,
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


def base_state(state: str) -> str:
    """Strip the suffix of a state, such as the user in ``CANCELLED by 1000``, or the ``+`` of sacct."""
    return state.split(" ", 1)[0].rstrip("+")
