"""Filters and fields of the list of runs."""

from __future__ import annotations

import pytest

from longshore.errors import UsageError
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.reports.run_list import FIELDS, parse_fields, parse_filters


def run(**more: object) -> RunReport:
    counts = {JobState.SUCCEEDED: 3, JobState.FAILED: 1}
    plain: dict[str, object] = {
        "id": "k7f3aa",
        "name": "u_ada_survey",
        "path": "/data/run",
        "service": "local",
        "state": JobState.FAILED,
        "expected": 4,
        "counts": counts,
        "labels": {"isr": counts, "calibrate": {}},
        "payload": "survey",
        "operator": "12345",
    }
    return RunReport(**{**plain, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("state=FAILED", True),
        ("state=failed,deleted", True),
        ("STATE = succeeded", False),
        ("state!=FAILED", False),
        ("state!=SUCCEEDED", True),
        ("payload~^sur", True),
        ("payload~^vey", False),
        ("label=isr", True),
        ("label!=isr", False),
        ("label!=warp", True),
        ("label~cal.*", True),
        ("failed>0", True),
        ("failed<1", False),
        ("jobs>3", True),
        ("%S=75", True),
        ("operator=12345", True),
        ("finished=", True),
        ("run=u_ada_survey", True),
        ("x=", True),
    ],
)
def test_filters(text: str, kept: bool) -> None:
    assert parse_filters([text])(run()) is kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("state=paused", True),
        ("state=RUNNING", True),
        ("state!=PAUSED", False),
        ("state~PAU", True),
        ("x=PAUSED", False),
    ],
)
def test_a_paused_run_is_found_by_that_word(text: str, kept: bool) -> None:
    assert parse_filters([text])(run(state=JobState.RUNNING, paused=True)) is kept
    assert not parse_filters(["state=PAUSED"])(run(state=JobState.FAILED, paused=True))


def test_a_run_must_meet_all_filters() -> None:
    assert parse_filters(["state=FAILED", "payload=survey"])(run())
    assert not parse_filters(["state=FAILED", "payload=other"])(run())


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("stat=FAILED", "no field 'stat'", "Did you mean 'state'?"),
        ("labels=x", "no field 'labels'", "Did you mean 'label'?"),
        ("state", "'state' is no filter", "FIELD=VALUE"),
        ("", "'' is no filter", "FIELD=VALUE"),
        ("payload~(", "no regular expression", ""),
        ("failed>many", "'many' in 'failed>many' is no number", ""),
    ],
)
def test_malformed_filters_are_errors(text: str, words: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_filters([text])
    assert words in raised.value.message
    assert hint in raised.value.hint


def test_fields() -> None:
    assert parse_fields("ID, state,%S") == ("id", "state", "%s")
    with pytest.raises(UsageError, match="no field 'stat'") as raised:
        parse_fields("id,stat")
    assert "Did you mean 'state'?" in raised.value.hint
    with pytest.raises(UsageError, match="names no field"):
        parse_fields(" , ")


def test_every_field_has_a_value_for_every_run() -> None:
    for report in (run(), run(finished_at=1e20, expected=0, counts={}, labels={})):
        assert all(isinstance(value(report), str | int | None) for value in FIELDS.values())
