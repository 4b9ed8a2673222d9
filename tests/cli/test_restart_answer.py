"""The question of a restart takes any beginning of an answer that fits only one."""

from __future__ import annotations

import click
import pytest

from longshore.cli.restart import read_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("with-changes", "with-changes"),
        *((text, "with-changes") for text in ("w", "With", "y", "YES")),
        *((text, "as-it-was") for text in ("as", "as-it-was")),
        *((text, "abort") for text in ("ab", " abort ", "q", "n", "No")),
    ],
)
def test_a_short_answer(text: str, answer: str) -> None:
    assert read_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a", "'a' is not enough: 'as-it-was' or 'abort'?"),
        ("x", "'x' is no answer: 'with-changes' or 'as-it-was' or 'abort'?"),
        ("", "'' is no answer: "),
        ("abortt", "'abortt' is no answer: "),
    ],
)
def test_an_answer_that_may_mean_several(text: str, told: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        read_answer(text)
    assert refused.value.message.startswith(told)
