"""Whether an attempt succeeded: by its end, log and files (``successIf``) and its outputs (``checkOutputs``); pure.

Decision 0078 has the reason of the rules for outputs.

"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from longshore.model.event import Ended, OutputFinding, OutputState
from longshore.model.states import Cause, JobState
from longshore.model.workflow import LogValue, OutputCheck, RetryOn, SuccessIf

# Outputs: the findings on those that a job declared.


_WORDS: Final = {
    OutputState.MISSING: "the output '{path}' is missing",
    OutputState.STALE: "the output '{path}' is as it was before the attempt",
    OutputState.EMPTY: "the output '{path}' is empty",
}
_MAX_NAMED: Final = 3
"""Outputs that a reason names."""


def judge_outputs(end: Ended, check: OutputCheck, paths: Sequence[str]) -> Ended:
    """Return an end with the verdict on its outputs; `paths` are those that were checked."""
    if check is OutputCheck.NONE or end.cause is not None:
        return drop_look(end)
    findings = tuple(
        msgspec.structs.replace(finding, path=paths[finding.output])
        for finding in end.outputs or ()
        if 0 <= finding.output < len(paths)
    )
    if not findings:
        return msgspec.structs.replace(end, outputs=None)
    fails = [finding for finding in findings if finding.state is OutputState.MISSING or check is OutputCheck.FRESH]
    # What makes the attempt fail is named first.
    reason = describe_findings(fails or findings)
    if fails:
        end = drop_look(end)
    return msgspec.structs.replace(end, outputs=findings, cause=Cause.OUTPUT_MISSING if fails else None, reason=reason)


def drop_look(end: Ended) -> Ended:
    """Return an end without what was seen of its outputs, which counts for successes alone."""
    if end.outputs is None and not end.stamps:
        return end
    return msgspec.structs.replace(end, outputs=None, stamps=())


def describe_findings(findings: Sequence[OutputFinding]) -> str:
    """Describe findings in a line."""
    named = [_WORDS[finding.state].format(path=finding.path) for finding in findings[:_MAX_NAMED]]
    more = len(findings) - len(named)
    return "; ".join([*named, *([f"and {more} more outputs"] if more else [])])


# Ends, logs and files: predicates of users.


SUCCESS_STATE = JobState.SUCCEEDED.value
"""Value of ``successIf.state`` for an end without a cause."""


class SlowSearchError(Exception):
    """A regular expression takes too long on a log."""


Which: TypeAlias = Literal["first", "last"]
LogSearch: TypeAlias = Callable[[str, str, Which], re.Match[str] | None]
"""Finds the first or last match of a regular expression in a log.

Raises `SlowSearchError` if that takes too long.
"""


class AttemptOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """Log and file that an attempt left behind.

    Attributes
    ----------
    log
        The end of its log; empty without one.
    file
        The path that must exist, its variables filled in; ``None`` where no file is required.
    file_exists
        Whether that file exists.
    search
        How a log is searched; an engine bounds the time.
    """

    log: str = ""
    file: str | None = None
    file_exists: bool = False
    search: LogSearch


def needs_log(end: Ended, rules: SuccessIf | None, on: RetryOn | None) -> bool:
    """Return whether judging this end requires the log."""
    is_log_matched = on is not None and on.log is not None
    if may_succeed(end, rules):
        # An unmet predicate makes it a failure, which the text in the log may want retried.
        return rules is not None and (is_log_matched or rules.log is not None or rules.value is not None)
    return is_log_matched


def may_succeed(end: Ended, rules: SuccessIf | None) -> bool:
    """Return whether the exit code or the kind of end is one of a success."""
    if end.cause is None:
        return True
    if rules is None:
        return False
    if rules.any_of:
        # A job may fail and do its work; one that others ended, or that is lost, did not.
        return end.cause in _JOB_CAUSES
    by_exit = end.cause is Cause.EXIT and rules.exit is not None and end.exit in rules.exit
    return by_exit or (rules.state is not None and end.cause.value in rules.state)


_JOB_CAUSES: Final = frozenset({Cause.EXIT, Cause.SIGNAL, Cause.OOM, Cause.WALLTIME, Cause.OUTPUT})


def apply_success_rules(end: Ended, rules: SuccessIf | None, on: RetryOn | None, outputs: AttemptOutputs) -> Ended:
    """Return an end with its outcome: a success, an unmet predicate, or its original failure.

    Parameters
    ----------
    end
        The end as the workload manager reports it.
    rules
        The predicates of a success.
    on
        The failures after which the job is retried.
    outputs
        The attempt's log and file.
    """
    if rules is not None and may_succeed(end, rules):
        if rules.any_of:
            return mark_retry_match(_apply_any_predicate(end, rules, outputs), on, outputs)
        unmet = "; ".join(_unmet_predicates(end, rules, outputs))
        end = msgspec.structs.replace(end, cause=Cause.PREDICATE if unmet else None, reason=unmet or None)
    return mark_retry_match(end, on, outputs)


def mark_retry_match(end: Ended, on: RetryOn | None, outputs: AttemptOutputs) -> Ended:
    """Return the end, marked where its log matches a text of the retry rules."""
    if end.cause is None or on is None or on.log is None:
        return end
    try:
        if outputs.search(on.log, outputs.log, "first") is None:
            return end
    except SlowSearchError as error:
        note = f"retryOn.log '{on.log}' counts as not matched: {error}"
        return msgspec.structs.replace(end, reason=f"{end.reason}; {note}" if end.reason else note)
    return msgspec.structs.replace(end, matched=True)


def _apply_any_predicate(end: Ended, rules: SuccessIf, outputs: AttemptOutputs) -> Ended:
    """Judge an end for which any one predicate suffices; a failure that meets none keeps its cause."""
    singles = [
        msgspec.structs.replace(rules, **{name: None for name in _ALL_FIELDS if name not in fields}, any_of=False)
        for fields in _PREDICATE_FIELDS
        if any(getattr(rules, name) is not None for name in fields)
    ]
    unmet = ["; ".join(_unmet_predicates(end, single, outputs)) or _describe_missing(end, single) for single in singles]
    if not all(unmet):
        return msgspec.structs.replace(end, cause=None, reason=None)
    why = "; ".join(unmet)
    return msgspec.structs.replace(
        end, cause=end.cause or Cause.PREDICATE, reason=f"{end.reason}; {why}" if end.reason else why
    )


_PREDICATE_FIELDS: Final = (("exit",), ("log",), ("file",), ("least_s", "most_s"), ("value",), ("state",))
"""Predicates, each with the fields that state it."""
_ALL_FIELDS: Final = tuple(name for names in _PREDICATE_FIELDS for name in names)


def _describe_missing(end: Ended, single: SuccessIf) -> str:
    """Explain why a predicate is unmet although nothing contradicts it: the thing that it tests is missing."""
    if single.exit is not None and end.exit is None:
        return "it has no exit code, which 'returncode' asks for"
    if (single.least_s is not None or single.most_s is not None) and end.run_s is None:
        return "its run time is not known, which 'runtime' asks for"
    return ""


def _unmet_predicates(end: Ended, rules: SuccessIf, outputs: AttemptOutputs) -> Iterator[str]:
    """Yield a description of each requirement that is not met."""
    ended = end.cause.value if end.cause else SUCCESS_STATE
    if rules.state is not None and ended not in rules.state and not (rules.exit and end.exit in rules.exit):
        yield f"it ended as {ended}, and successIf.state is {', '.join(rules.state)}"
    if rules.exit is not None and end.exit is not None and end.exit not in rules.exit:
        yield f"exit code {end.exit} is not in successIf.exit {list(rules.exit)}"
    if rules.log is not None:
        yield from _check_log(rules.log, outputs)
    if rules.file is not None and not outputs.file_exists:
        yield f"there is no file '{outputs.file or rules.file}' (successIf.file)"
    if end.run_s is not None:
        if rules.least_s is not None and end.run_s < rules.least_s:
            yield f"it ran for {end.run_s:.1f} s, and successIf.walltime is at least {rules.least_s:g} s"
        if rules.most_s is not None and end.run_s > rules.most_s:
            yield f"it ran for {end.run_s:.1f} s, and successIf.walltime is at most {rules.most_s:g} s"
    if rules.value is not None:
        yield from _check_value(rules.value, outputs)


def _check_log(regex: str, outputs: AttemptOutputs) -> Iterator[str]:
    try:
        if outputs.search(regex, outputs.log, "first") is None:
            yield f"its log has nothing that matches successIf.log '{regex}'"
    except SlowSearchError as error:
        yield f"successIf.log '{regex}' counts as not matched: {error}"


def _check_value(value: LogValue, outputs: AttemptOutputs) -> Iterator[str]:
    try:
        last = outputs.search(value.regex, outputs.log, "last")
    except SlowSearchError as error:
        yield f"successIf.value '{value.regex}' counts as not matched: {error}"
        return
    if last is None:
        yield f"its log has nothing that matches successIf.value '{value.regex}'"
        return
    text = last[1] if last.re.groups else last[0]
    try:
        number = float(text or "")
    except ValueError:
        yield f"successIf.value found '{(text or '')[:40]}', which is no number"
        return
    # Written so that `nan`, which is neither less nor more than anything, is out of bounds.
    if value.least is not None and not number >= value.least:
        yield f"successIf.value found {number:g}, less than {value.least:g}"
    elif value.most is not None and not number <= value.most:
        yield f"successIf.value found {number:g}, more than {value.most:g}"
