"""Attempt limits: the memory, time and log that an attempt may use before it is ended; pure."""

from __future__ import annotations

from longshore.contract.executor import AttemptLimits
from longshore.model.workflow import KeepPolicy, LimitRules, Request


def make_attempt_limits(bounds: LimitRules, request: Request) -> AttemptLimits | None:
    """Return the limits of an attempt, from its request and its profile; ``None`` without any, as is usual."""
    memory = None
    if bounds.memory and request.memory_b is not None:
        memory = int(request.memory_b * (1.0 + bounds.grace_share)) + bounds.grace_b
    if memory is None and request.walltime_s is None and bounds.log_b is None and bounds.tmp is KeepPolicy.NONE:
        return None
    return AttemptLimits(
        memory_b=memory,
        asked_b=request.memory_b,
        walltime_s=request.walltime_s,
        log_b=bounds.log_b,
        keep_tmp=bounds.tmp,
    )
