"""Turns what there is to know of a run beside its counts into members of its JSON document."""

from __future__ import annotations

from typing import Any

from longshore.cli.show_text import PAYLOAD_CODES
from longshore.model.moment import timestamp
from longshore.model.report import ExitCodes, Failure, RunSummary


def insight_members(insight: RunSummary) -> dict[str, Any]:
    """Return the members that a run has which was asked for by itself."""
    left = insight.left_s
    return {
        "elapsed_s": insight.elapsed_s,
        "left_s": {"low": left[0], "high": left[1]} if left else None,
        "longest_running": [
            {
                "name": job.name,
                "label": job.label,
                "host": job.host,
                "started_at": timestamp(job.started_at, exact=True),
            }
            for job in insight.running
        ],
        "waits": list(insight.waits),
        "digest": [_failure(failure) for failure in insight.failures],
        "badput": [
            {"cause": cause.value, "attempts": spent.attempts, "seconds": spent.seconds}
            for cause, spent in insight.badput.items()
        ],
        "exit_codes": {label: _codes(codes) for label, codes in insight.exit_codes.items()},
    }


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "label": failure.label,
        "cause": None if failure.cause is None else failure.cause.value,
        "exit_code": failure.exit_code,
        "signal": failure.signal,
        "message": failure.message,
        "count": failure.count,
        "unread": failure.unread,
        "example": {
            "job": failure.job,
            "host": failure.host,
            "attempt": failure.attempt,
            "reason": failure.reason,
            "log": failure.log,
            "tail": list(failure.tail),
            "by_hand": failure.by_hand,
        },
    }


def _codes(codes: ExitCodes) -> dict[str, Any]:
    known = {
        of: {str(code): codes.codes[code] for code in sorted(codes.codes) if (code in PAYLOAD_CODES) == of}
        for of in (True, False)
    }
    return {"payload": known[True], "infrastructure": known[False], "unknown": codes.unknown}
