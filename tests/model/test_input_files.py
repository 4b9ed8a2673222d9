"""How a file differs from its record is described, with what the record lacks."""

from __future__ import annotations

import pytest

from longshore.model.submission import InputFile, describe_input_change


@pytest.mark.parametrize(
    ("before", "now", "described"),
    [
        (InputFile(5, 1, "aa"), InputFile(5, 2, "aa"), ""),
        (InputFile(5, 1, "aa"), InputFile(5, 1, "bb"), "'x' has another content now"),
        (InputFile(5, 1), InputFile(5, 1, "aa"), ""),
        (InputFile(5, 1), InputFile(5, 2), "'x' was written since"),
        (
            InputFile(5, 1),
            InputFile(5, 2, "aa"),
            "'x' was written since, and the earlier run recorded no hash of its content",
        ),
        (InputFile(5, 1), InputFile(6, 1), "'x' has another size now: 6 bytes, and 5 then"),
        (None, InputFile(6, 1), "'x' was not recorded"),
        (InputFile(5, 1), None, "'x' is not there any more"),
    ],
)
def test_a_change_of_an_input_is_described(before: InputFile | None, now: InputFile | None, described: str) -> None:
    assert describe_input_change("x", before, now) == described
