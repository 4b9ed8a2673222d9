"""A job of a run prints as one line, whatever its program said."""

from __future__ import annotations

from longshore.client.tables import RunJob
from longshore.model.states import Cause, JobState

FAILED = {
    "name": "bad",
    "state": JobState.FAILED,
    "cause": Cause.EXIT,
    "reason": "x\x1b[2J\nline two",
    "attempts": 1,
    "host": "here",
    "run_s": 2.0,
}


def test_controls_in_a_reason_are_shown_escaped() -> None:
    fields = dict.fromkeys(RunJob.__struct_fields__, None) | {"label": "bad", "tags": {}} | FAILED
    text = str(RunJob(**fields))  # type: ignore[arg-type]
    assert text.isprintable()
    assert text.startswith("bad FAILED, x")
    assert text.endswith("attempt 1 on here, 2.0 s")
