"""Formats requests and amounts of resources as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from longshore.engine.policy.retry import RetryRules
from longshore.model.run.states import Cause
from longshore.model.text_format import format_duration, format_size
from longshore.model.workflow.request import Request


def request_text(request: Request) -> str:
    """Format a request."""
    parts = [f"{request.cpus} cpu" + ("" if request.cpus == 1 else "s")]
    if request.memory_b is not None:
        parts.append(f"{format_size(request.memory_b)} of memory")
    if request.disk_b is not None:
        parts.append(f"{format_size(request.disk_b)} of disk")
    if request.walltime_s is not None:
        parts.append(f"{format_duration(request.walltime_s)} of wall time")
    return ", ".join([*parts, *(f"{amount} of {name}" for name, amount in request.resources.items())])


class RetryBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Retries after one kind of end, which do not count among the others.

    `key` of the configuration gives their number `retries`; `used` of them are spent.
    """

    key: str
    retries: int
    used: int = 0


_BUDGET_ENDS: Final = {
    "retryOnMemory": "lack of memory",
    "retryOnTime": "lack of time",
    "retryOn": "an end that it names",
    "retryOnPreempted": "preemption",
    "retryOnTransfer": "a failed transfer of files",
}
"""What a budget is for, by its key."""


def budget_texts(number: int, budgets: Iterable[RetryBudget]) -> Iterator[str]:
    """Yield a line per budget, which follows the `number` of other retries."""
    for budget in budgets:
        spent = f", {budget.used} used so far" if budget.used else ""
        yield f"{'and' if number else 'but'} {budget.retries} after {_BUDGET_ENDS[budget.key]} ({budget.key}){spent}"


def retry_budgets(rules: RetryRules, used: Mapping[str, int]) -> tuple[RetryBudget, ...]:
    """Return the budgets of memory, time and ``retryOn``, and what is spent of others; `used` is counted by key."""
    own = rules.own_causes
    budgets = {
        "retryOnMemory": rules.retries_on_memory if Cause.OOM in own else None,
        "retryOnTime": rules.retries_on_time if Cause.WALLTIME in own else None,
        "retryOn": rules.retries_on_match,
        "retryOnPreempted": rules.retries_on_preempted if used.get("retryOnPreempted") else None,
        "retryOnTransfer": rules.retries_on_transfer if used.get("retryOnTransfer") else None,
    }
    return tuple(
        RetryBudget(key=key, retries=retries, used=min(used.get(key, 0), retries))
        for key, retries in budgets.items()
        if retries
    )


def retries_text(number: int, unless: Sequence[int]) -> str:
    """Format a number of retries, and the exit codes after which there is none."""
    text = {0: "none", 1: "1 after the first attempt"}.get(number, f"{number} after the first attempt")
    return f"{text}, but not after exit code {', '.join(map(str, unless))}" if unless and number else text


def amount_text(name: str, amount: int) -> str:
    """Format an amount of a resource: memory and disk are in bytes, all others are counts."""
    return format_size(amount) if name in {"memory", "disk"} else str(amount)
