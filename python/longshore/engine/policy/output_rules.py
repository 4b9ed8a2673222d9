"""Output rules: judge from the findings on an attempt's declared outputs whether it succeeded (``checkOutputs``).

The reason is in decision 0078.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from longshore.model.event import Ended, FileStamp, OutputFinding, OutputState
from longshore.model.states import Cause
from longshore.model.workflow import OutputCheck

_WORDS: Final = {
    OutputState.MISSING: "the output '{path}' is missing",
    OutputState.STALE: "the output '{path}' is as it was before the attempt",
    OutputState.EMPTY: "the output '{path}' is empty",
}
_MAX_NAMED: Final = 3
"""Outputs that a reason names."""


def parse_findings(text: str) -> tuple[OutputFinding, ...]:
    """Parse the findings of a wrapper, such as ``0 missing 2 stale``.

    Raises
    ------
    ValueError
        The text has another format.
    """
    words = text.split()
    pairs = zip(words[::2], words[1::2], strict=True)
    return tuple(OutputFinding(int(number), OutputState(state)) for number, state in pairs)


def parse_stamps(text: str) -> tuple[FileStamp, ...]:
    """Parse the stamps of a wrapper: size, and seconds with nine decimals, per output.

    Raises
    ------
    ValueError
        The text has another format.
    """
    words = text.split()
    return tuple(FileStamp(int(size), _nanoseconds(time)) for size, time in zip(words[::2], words[1::2], strict=True))


def _nanoseconds(time: str) -> int:
    seconds, _, fraction = time.partition(".")
    return int(seconds) * 10**9 + int(fraction[:9].ljust(9, "0"))


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
