"""Moments are spelled as the calendar has them, and what it does not have is left out."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from longshore.model.wording import format_moment, format_timestamp


@given(st.integers(-4_000_000_000_000, 4_000_000_000_000))
def test_every_millisecond_of_the_calendar(milliseconds: int) -> None:
    """From 1843 to 2096, where a float tells them apart."""
    second, rest = divmod(milliseconds, 1000)
    day = datetime.fromtimestamp(second, UTC).replace(tzinfo=None).isoformat()
    assert format_timestamp(milliseconds / 1000, exact=True) == f"{day}.{rest:03}Z"
    assert format_timestamp(milliseconds / 1000) == f"{day}Z" == format_moment(milliseconds / 1000)


@given(st.floats())
def test_any_number(at: float) -> None:
    text = format_timestamp(at, exact=True)
    assert text is None or datetime.fromisoformat(text).tzinfo is UTC


def test_what_no_calendar_has() -> None:
    for at in (None, 1e20, -1e20, float("inf"), float("nan")):
        assert format_timestamp(at) is None
        assert format_moment(at) == "an unknown time"
