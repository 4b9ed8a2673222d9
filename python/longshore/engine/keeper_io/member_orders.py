"""Orders of attempts for a keeper: their limits, the variables that identify their processes, and their encoding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from longshore.contract.executor import AttemptLimits
from longshore.contract.service import RunPaths
from longshore.engine.keeper.protocol import LimitsOrder
from longshore.errors import RunNotFoundError
from longshore.rundir.run_directory import read_card

RUN_VARIABLE: Final = "LONGSHORE_JOB_RUN_MARK"
JOB_VARIABLE: Final = "LONGSHORE_JOB_INDEX"
"""Environment variables that identify every process of a run and of an attempt."""


def run_token(run: RunPaths) -> str:
    """Return the run token, which stays valid when its directory moves; without a card, its path."""
    try:
        return read_card(run).run_token
    except RunNotFoundError:
        return str(run.root)


def attempt_name(job: int, attempt: int) -> str:
    """Return the value of `JOB_VARIABLE` in the processes of an attempt."""
    return f"{job}.{attempt}"


def encode_order(order: Mapping[str, object]) -> bytes:
    """Encode an order as JSON without line feed."""
    try:
        return msgspec.json.encode(order)
    except UnicodeEncodeError:
        # Environment variables may hold bytes that are not text.
        return json.dumps(order, separators=(",", ":")).encode()


def limits_order(limits: AttemptLimits, *, signals: Sequence[int], grace_s: float) -> LimitsOrder:
    """Convert limits to the keeper's format; `signals` and `grace_s` are for jobs beyond them."""
    order: LimitsOrder = {"tmp": limits.keep_tmp.value, "sig": signals, "grace": grace_s}
    if limits.memory_b is not None:
        order["mem"] = limits.memory_b
    if limits.asked_b is not None:
        order["asked"] = limits.asked_b
    if limits.walltime_s is not None:
        order["wall"] = limits.walltime_s
    if limits.log_b is not None:
        order["log"] = limits.log_b
    return order
