"""Writes ClassAd expressions for retries: memory growth, walltime growth, and the release or removal of held jobs.

They read only attributes that change when a job ends or is held: numbers of completions, and of holds by reason.
Attributes that change while a job starts, such as its status or its slot's memory, would make a slot reject the job it
was created for. DAGMan does not retry: a job keeps its cluster and so its history.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from longshore.engine.policy.retry import UNSTARTABLE, RetryRules
from longshore.model.workflow.request import MIB
from longshore.services.htcondor.event_codes import BY_HAND

OOM_SUBCODE: Final = 34
"""Hold subcode for a job killed by a signal, perhaps for lack of memory (as in BPS)."""
SIGNALLED: Final = "(ExitBySignal =?= true || ExitCode > 128)"
_HELD_FOR_MEMORY: Final = (
    f"(HoldReasonCode =?= 34 || HoldReasonCode =?= 3 && HoldReasonSubCode =?= {OOM_SUBCODE}"
    " || HoldReasonCode =?= 21 && HoldReasonSubCode =?= 102)"
)
"""A hold by the cgroup's limit, by the job's own policy, or by a startd that checks memory itself."""
_OUT_OF_MEMORY: Final = (
    "((NumHoldsByReason.JobOutOfResources ?: 0) + (NumHoldsByReason.StartdHeldJob ?: 0)"
    " + (NumHoldsByReason.JobPolicy ?: 0))"
)
"""Number of ends by lack of memory, according to holds."""
_SPENT: Final = (
    "((NumJobCompletions ?: 0) + (NumHolds ?: 0) - (NumHoldsByReason.UserRequest ?: 0)"
    " - (NumHoldsByReason.JobPolicy ?: 0))"
)
"""Number of spent attempts: completions, including those with a hold by policy, and holds by the system."""
MACROS: Final = (("ooms", _OUT_OF_MEMORY), ("spent", _SPENT), ("oom_hold", _HELD_FOR_MEMORY))
"""Macros of submit descriptions for these expressions."""
OUT_OF_MEMORY: Final = "$(ooms)"
SPENT: Final = "$(spent)"
HELD_FOR_MEMORY: Final = "$(oom_hold)"
_SIGNAL_REASON: Final = (
    'strcat("Job raised a signal ", string(ifThenElse(ExitBySignal =?= true, ExitSignal, ExitCode - 128)),'
    ' ", perhaps for want of memory")'
)
OVERTIME: Final = 47
"""Hold code of a job that exceeded its walltime."""
_NO_PROGRAM: Final = "(HoldReasonCode =?= 6 && HoldReasonSubCode =?= 8)"
"""A hold because the machine cannot execute the program ("exec format error")."""
_BY_HAND: Final = f"{{{', '.join(map(str, BY_HAND))}}}"


class RetryInputs(msgspec.Struct, frozen=True, kw_only=True):
    """Retry rules and memory of a job, from which its expressions are written."""

    rules: RetryRules
    memory: str | None
    """First memory request in MiB, a number or a macro; ``None`` without a request."""
    max_mib: int | None = None
    """Maximum of MiB to request; ``None`` without a limit."""
    release: str = ""
    """Additional expression that releases a held job at once (``releaseExpr``)."""

    @property
    def grows_memory(self) -> bool:
        """Whether the memory request grows after an end by lack of memory."""
        return self.rules.memory_factor is not None and self.memory is not None


def max_mib(rules: RetryRules) -> int | None:
    """Maximum of MiB that a job may request; ``None`` without a limit."""
    return None if rules.memory_most_b is None else rules.memory_most_b // MIB


def memory_request(inputs: RetryInputs) -> str:
    """Expression of an attempt's memory request; the series is that of BPS."""
    assert inputs.memory is not None
    if not inputs.grows_memory:
        return inputs.memory
    return _grown_memory(inputs, OUT_OF_MEMORY, "(MemoryUsage ?: 0)")


def _grown_memory(inputs: RetryInputs, ends: str, usage: str) -> str:
    factor = _number(inputs.rules.memory_factor or 1.0)
    if inputs.rules.memory_of_usage:
        grown = (
            f"int(ifThenElse({ends} > 0 && {usage} > 0, {usage} * {factor}, {inputs.memory} * pow({factor}, {ends})))"
        )
    else:
        grown = f"int({inputs.memory} * pow({factor}, {ends}))"
    wanted = f"max({{{grown}, {usage}}})"
    return wanted if inputs.max_mib is None else f"min({{{wanted}, {inputs.max_mib}}})"


def had_max_memory(inputs: RetryInputs, ended: int) -> str:
    """Expression: whether the attempt that ended had the maximum of memory; empty without a maximum.

    `ended` is the number of ends by lack of memory since that attempt was requested: 1 if its own end is counted.
    """
    if inputs.max_mib is None or not inputs.grows_memory:
        return ""
    ends = f"({OUT_OF_MEMORY} - {ended})" if ended else OUT_OF_MEMORY
    factor = _number(inputs.rules.memory_factor or 1.0)
    asked = f"int({inputs.memory} * pow({factor}, {ends})) >= {inputs.max_mib}"
    return f"((MemoryProvisioned ?: 0) >= {inputs.max_mib} || {asked})"


def _number(value: float) -> str:
    return repr(float(value))


# ---------------------------------------------------------------------------------------------- retry, hold and release


def retry_commands(inputs: RetryInputs) -> list[tuple[str, str]]:
    """Commands of a submit description that decide on retry, hold, release and removal."""
    found = [
        ("max_retries", str(inputs.rules.retries)),
        ("retry_until", " || ".join(_no_retry_conditions(inputs))),
    ]
    if inputs.grows_memory and inputs.rules.retries:
        hold = [SIGNALLED, f"{SPENT} <= {inputs.rules.retries}"]
        hold += [f"!{never}" for never in (had_max_memory(inputs, 0), _no_retry_codes(inputs)) if never]
        found += [
            ("on_exit_hold", " && ".join(hold)),
            (
                "on_exit_hold_reason",
                _SIGNAL_REASON,
            ),
            ("on_exit_hold_subcode", str(OOM_SUBCODE)),
        ]
    found += [("periodic_release", _release(inputs)), ("periodic_remove", _remove(inputs))]
    return found


def _no_retry_codes(inputs: RetryInputs) -> str:
    retried_codes = set(inputs.rules.on.exit) if inputs.rules.on else set()
    excluded = [*inputs.rules.unless_exit, *(() if inputs.rules.unstartable else UNSTARTABLE)]
    codes = [code for code in dict.fromkeys(excluded) if code not in retried_codes]
    return f"(ExitBySignal =!= true && member(ExitCode, {{{','.join(map(str, codes))}}}))" if codes else ""


def _no_retry_conditions(inputs: RetryInputs) -> list[str]:
    """Ends after which a job is not retried, beside success."""
    conditions = []
    if inputs.rules.on and inputs.rules.on.only:
        exits, signals = (",".join(map(str, each)) for each in (inputs.rules.on.exit, inputs.rules.on.signal))
        codes = ",".join(filter(None, (exits, ",".join(str(128 + number) for number in inputs.rules.on.signal))))
        conditions.append(
            f"ifThenElse(ExitBySignal =?= true, !member(ExitSignal, {{{signals}}}), !member(ExitCode, {{{codes}}}))"
        )
    elif codes := _no_retry_codes(inputs):
        conditions.append(codes)
    conditions.append(f"{SPENT} > {inputs.rules.retries}")
    if at_maximum := had_max_memory(inputs, 0):
        conditions.append(f"({SIGNALLED} && {at_maximum})")
    return conditions


def _release(inputs: RetryInputs) -> str:
    """When a held job is released: at once with more memory or time, else after a doubling delay."""
    spent = f"{SPENT} <= {inputs.rules.retries}"
    by_hand = f"!member(HoldReasonCode, {_BY_HAND})"
    reasons = []
    if inputs.grows_memory:
        at_maximum = had_max_memory(inputs, 1)
        reasons.append(f"({HELD_FOR_MEMORY} && !{at_maximum})" if at_maximum else HELD_FOR_MEMORY)
        by_hand += f" && !{HELD_FOR_MEMORY}"
    if inputs.rules.walltime_factor is not None:
        reasons.append(f"HoldReasonCode =?= {OVERTIME}")
    by_hand += f" && HoldReasonCode =!= {OVERTIME}"
    if not inputs.rules.unstartable:
        by_hand += f" && !{_NO_PROGRAM}"
    if inputs.release:
        reasons.append(f"(HoldReasonCode =!= 1 && ({inputs.release}))")
    initial = inputs.rules.backoff.first_s if inputs.rules.backoff else 0.0
    maximum = inputs.rules.backoff.most_s if inputs.rules.backoff else 0.0
    wait = f"min({{{_number(initial)} * pow(2.0, (NumHolds ?: 1) - 1), {_number(maximum)}}})"
    reasons.append(f"({by_hand} && time() - EnteredCurrentStatus >= {wait})")
    return f"JobStatus == 5 && {spent} && ({' || '.join(reasons)})"


def _remove(inputs: RetryInputs) -> str:
    """When a held job is removed: no retry is left, and the hold was not by hand."""
    reasons = [f"{SPENT} > {inputs.rules.retries}"]
    if at_maximum := had_max_memory(inputs, 1):
        reasons.append(f"({HELD_FOR_MEMORY} && {at_maximum})")
    if inputs.rules.walltime_factor is None:
        reasons.append(f"HoldReasonCode =?= {OVERTIME}")
    if not inputs.rules.unstartable:
        reasons.append(_NO_PROGRAM)
    return f"JobStatus == 5 && !member(HoldReasonCode, {_BY_HAND}) && ({' || '.join(reasons)})"


def walltime_limit(initial: str, rules: RetryRules) -> str:
    """Expression of the seconds that an attempt may run."""
    if rules.walltime_factor is None:
        return initial
    grown = f"int({initial} * pow({_number(rules.walltime_factor)}, NumHoldsByReason.JobExecuteExceeded ?: 0))"
    if rules.walltime_most_s is None:
        return grown
    return f"min({{{grown}, {math.ceil(rules.walltime_most_s)}}})"
