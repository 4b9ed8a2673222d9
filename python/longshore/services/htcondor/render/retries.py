"""Retries by HTCondor and DAGMan: growing requests, held jobs, and jobs that a person removes.

The expressions for growing requests, and for the release or removal of held jobs, read only attributes that change when
a job ends or is held: numbers of completions, and of holds by reason. Attributes that change while a job starts, such
as its status or its slot's memory, would make a slot reject the job it was created for. DAGMan does not retry: a job
keeps its cluster and so its history. The reason is in decision 0042.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from longshore.engine.policy.retry import UNSTARTABLE, RetryRules
from longshore.model.workflow import MIB, JobSettings
from longshore.services.htcondor.codes import BY_HAND

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
_OVERTIMES: Final = "(NumHoldsByReason.JobExecuteExceeded ?: 0)"
_SYSTEM_HOLDS: Final = (
    "((NumHolds ?: 0) - (NumHoldsByReason.UserRequest ?: 0) - (NumHoldsByReason.JobPolicy ?: 0)"
    " - (NumHoldsByReason.JobOutOfResources ?: 0) - (NumHoldsByReason.StartdHeldJob ?: 0)"
    " - (NumHoldsByReason.JobExecuteExceeded ?: 0))"
)
"""Number of holds that neither a person, nor the job's policy, nor its limits cause, such as failed transfers."""
MACROS: Final = (("ooms", _OUT_OF_MEMORY), ("spent", _SPENT), ("oom_hold", _HELD_FOR_MEMORY))
"""Macros of submit descriptions for these expressions."""
OUT_OF_MEMORY: Final = "$(ooms)"
SPENT: Final = "$(spent)"
_KILLED: Final = "(ExitBySignal =?= true && ExitSignal =?= 9 || ExitCode =?= 137)"
"""An end by the signal with which a kernel takes memory back."""
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

    @property
    def memory_retries(self) -> int | None:
        """Number of retries with more memory; ``None`` if these ends spend the number of retries."""
        return self.rules.retries_on_memory if self.grows_memory else None

    @property
    def time_retries(self) -> int | None:
        """Number of retries with more time; ``None`` if these ends spend the number of retries."""
        return self.rules.retries_on_time if self.rules.walltime_factor is not None else None

    @property
    def hold_retries(self) -> int | None:
        """Number of retries after holds by the system; ``None`` if these spend the number of retries, as in BPS."""
        return None if self.rules.retries_on_memory is None else self.rules.retries_on_transfer

    @property
    def spent(self) -> str:
        """Expression of the number of attempts that spent the number of retries."""
        own = (
            (self.memory_retries, OUT_OF_MEMORY),
            (self.time_retries, _OVERTIMES),
            (self.hold_retries, _SYSTEM_HOLDS),
        )
        less = [text for budget, text in own if budget is not None]
        return f"({' - '.join([SPENT, *less])})" if less else SPENT

    @property
    def signalled(self) -> str:
        """Expression: whether an end may be one by lack of memory."""
        # A crash of a deterministic program is not repeated where failures are not retried.
        return SIGNALLED if self.memory_retries is None else _KILLED


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
    rules, memory_retries = inputs.rules, inputs.memory_retries
    # All budgets together: which of them is spent, only `retry_until` knows.
    most = max(rules.retries, rules.retries_on_match or 0) + (memory_retries or 0)
    found = [("max_retries", str(most)), ("retry_until", " || ".join(_no_retry_conditions(inputs)))]
    if inputs.grows_memory and (rules.retries if memory_retries is None else memory_retries):
        # The hold is not counted yet, and the completion is.
        budget = f"{SPENT} <= {rules.retries}" if memory_retries is None else f"{OUT_OF_MEMORY} < {memory_retries}"
        hold = [inputs.signalled, budget]
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
    if inputs.rules.on is None or inputs.rules.retries_on_match is None:
        conditions.append(f"{inputs.spent} > {inputs.rules.retries}")
    else:
        exits = ",".join(map(str, (*inputs.rules.on.exit, *(128 + number for number in inputs.rules.on.signal))))
        signals = ",".join(map(str, inputs.rules.on.signal))
        matched = f"ifThenElse(ExitBySignal =?= true, member(ExitSignal, {{{signals}}}), member(ExitCode, {{{exits}}}))"
        budget = f"ifThenElse({matched}, {inputs.rules.retries_on_match}, {inputs.rules.retries})"
        conditions.append(f"{inputs.spent} > {budget}")
    if inputs.memory_retries is not None:
        conditions.append(f"({_KILLED} && {OUT_OF_MEMORY} >= {inputs.memory_retries})")
    if at_maximum := had_max_memory(inputs, 0):
        conditions.append(f"({inputs.signalled} && {at_maximum})")
    return conditions


def _release(inputs: RetryInputs) -> str:
    """When a held job is released: at once with more memory or time, else after a doubling delay."""
    memory_retries, time_retries = inputs.memory_retries, inputs.time_retries
    others = inputs.hold_retries
    by_hand = f"!member(HoldReasonCode, {_BY_HAND})"
    reasons = []
    if inputs.grows_memory:
        at_maximum = had_max_memory(inputs, 1)
        ends = [HELD_FOR_MEMORY, *([f"!{at_maximum}"] if at_maximum else [])]
        ends += [] if memory_retries is None else [f"{OUT_OF_MEMORY} <= {memory_retries}"]
        reasons.append(f"({' && '.join(ends)})" if ends[1:] else HELD_FOR_MEMORY)
        by_hand += f" && !{HELD_FOR_MEMORY}"
    if inputs.rules.walltime_factor is not None:
        overtime = f"HoldReasonCode =?= {OVERTIME}"
        reasons.append(overtime if time_retries is None else f"({overtime} && {_OVERTIMES} <= {time_retries})")
    by_hand += f" && HoldReasonCode =!= {OVERTIME}"
    if not inputs.rules.unstartable:
        by_hand += f" && !{_NO_PROGRAM}"
    if inputs.release:
        budget = "" if others is None else f" && {_system_budget(inputs)}"
        reasons.append(f"(HoldReasonCode =!= 1 && ({inputs.release}){budget})")
    initial = inputs.rules.backoff.first_s if inputs.rules.backoff else 0.0
    maximum = inputs.rules.backoff.most_s if inputs.rules.backoff else 0.0
    wait = f"min({{{_number(initial)} * pow(2.0, (NumHolds ?: 1) - 1), {_number(maximum)}}})"
    if others is None:
        reasons.append(f"({by_hand} && time() - EnteredCurrentStatus >= {wait})")
        return f"JobStatus == 5 && {inputs.spent} <= {inputs.rules.retries} && ({' || '.join(reasons)})"
    reasons.append(f"({by_hand} && {_system_budget(inputs)} && time() - EnteredCurrentStatus >= {wait})")
    return f"JobStatus == 5 && ({' || '.join(reasons)})"


def _system_budget(inputs: RetryInputs) -> str:
    """Expression: whether a retry is left after a hold that is not for memory or time that can grow."""
    held = f"{_SYSTEM_HOLDS} <= {inputs.hold_retries}"
    if inputs.grows_memory:
        return held
    # Without growth, lack of memory is a failure like others.
    return f"ifThenElse({HELD_FOR_MEMORY}, {inputs.spent} <= {inputs.rules.retries}, {held})"


def _remove(inputs: RetryInputs) -> str:
    """When a held job is removed: no retry is left, and the hold was not by hand."""
    if inputs.hold_retries is None:
        reasons = [f"{inputs.spent} > {inputs.rules.retries}"]
    else:
        limits = [f"HoldReasonCode =!= {OVERTIME}", *([f"!{HELD_FOR_MEMORY}"] if inputs.grows_memory else [])]
        reasons = [f"({' && '.join(limits)} && !({_system_budget(inputs)}))"]
    if inputs.memory_retries is not None:
        reasons.append(f"({HELD_FOR_MEMORY} && {OUT_OF_MEMORY} > {inputs.memory_retries})")
    if inputs.time_retries is not None:
        reasons.append(f"(HoldReasonCode =?= {OVERTIME} && {_OVERTIMES} > {inputs.time_retries})")
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


# Retries of jobs that a person removes (``retryOn: {operator: true}``): lines of the DAG and their POST script. DAGMan
# retries a node for any failure, but a job has its other retries in its own cluster. The POST script tells them apart:
# it reads in DAGMan's log why the job was removed.


SCRIPT: Final = "removed-status"
NO_RETRY: Final = 201
"""Exit status of the script after any other bad end; DAGMan does not retry it."""
REMOVALS: Final = "$(removals:0)"
"""Number of removals so far, in submit descriptions."""
TEXT: Final = f"""\
#!/bin/sh
# Run by DAGMan when a job has ended that runs again if a person removed it. Arguments: exit code of the job, its number
# at the schedd, and the exit code that ends the whole run, if there is one. Only status 202 is a retry.
case $1 in
0 | "${{3-none}}") exit "$1" ;;
esac
awk -v "cluster=${{2%%.*}}" '
    found {{
        removed = !/evaluated to TRUE|longshore cancel|OtherJobRemoveRequirements|DAG Removed/
        found = 0
    }}
    /^009 \\(/ {{
        split(substr($2, 2), id, ".")
        found = id[1] + 0 == cluster + 0
    }}
    END {{ exit !removed }}
' run.dag.nodes.log && exit 202
exit {NO_RETRY}
"""


def removal_retries(settings: JobSettings) -> int:
    """Return how many removals by a person are retried; 0 where that is not wanted."""
    on, matched = settings.rules.retry_on, settings.rules.retries_on_match
    retries = settings.number_of_retries if matched is None else matched
    return retries if on is not None and on.operator else 0


def has_removal_retries(settings: Iterable[JobSettings]) -> bool:
    """Whether any job is retried after a removal by a person."""
    return any(map(removal_retries, settings))


def node_lines(settings: JobSettings) -> str:
    """Return the lines of a node, with ``{node}`` for its name; empty where removals are not retried."""
    if not (retries := removal_retries(settings)):
        return ""
    code = settings.attributes.get("abortOnValue")
    return (
        f"RETRY {{node}} {retries} UNLESS-EXIT {NO_RETRY}\n"
        f"SCRIPT POST {{node}} {SCRIPT} $RETURN $JOBID{'' if code is None else f' {code}'}\n"
        'VARS {node} removals="$(RETRY)"\n'
    )
