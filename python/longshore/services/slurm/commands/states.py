"""The words Slurm has for the state of a job, and what each means for an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from longshore.model.run.state import Cause


class Phase(StrEnum):
    """Where an attempt is in its life, as far as Slurm says."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"
    UNKNOWN = "unknown"
    """A word we do not know: shown, warned of, and asked about again."""


_WAITING = "PENDING CONFIGURING REQUEUED REQUEUE_FED REQUEUE_HOLD RESV_DEL_HOLD SPECIAL_EXIT SUSPENDED STOPPED"
_RUNNING = "RUNNING COMPLETING STAGE_OUT SIGNALING RESIZING"
_OVER = (
    "COMPLETED FAILED OUT_OF_MEMORY TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE CANCELLED REVOKED LAUNCH_FAILED"
    " RECONFIG_FAIL"
)
PHASES: Mapping[str, Phase] = MappingProxyType(
    {
        **dict.fromkeys(_WAITING.split(), Phase.WAITING),
        **dict.fromkeys(_RUNNING.split(), Phase.RUNNING),
        **dict.fromkeys(_OVER.split(), Phase.OVER),
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
"""Why an attempt ended badly, per state that ends one; ``None`` for a success."""

HELD_REASONS = frozenset({"JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue", "launch_failed_requeued_held"})
"""Reasons to wait that only a person takes away."""


def first_word(state: str) -> str:
    """A state without what stands behind it, such as who cancelled (``CANCELLED by 1000``), or the ``+`` of sacct."""
    return state.split(" ", 1)[0].rstrip("+")


def phase_of(state: str) -> Phase:
    """The phase that a state means."""
    return PHASES.get(first_word(state), Phase.UNKNOWN)
