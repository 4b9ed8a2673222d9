"""Output rules: judge from the findings on an attempt's declared outputs whether it succeeded (``checkOutputs``).

The reason is in decision 0078.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from longshore.model.event import Ended, OutputFinding, OutputState
from longshore.model.states import Cause
from longshore.model.workflow import OutputCheck

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
