"""How often tests repeat what can be repeated: seldom for a change, very often by night."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

_FACTORS: Final = {"change": 0.2, "all": 1.0, "night": 20.0}
_FEWEST: Final = 10

DEPTH: Final = os.environ.get("LONGSHORE_TEST_DEPTH", "change")
"""What ``bin/test`` was asked for: ``change``, ``all`` or ``night``."""


def examples(number: int = 100) -> int:
    """How many examples of a property to try where `number` are tried in all tests."""
    return max(_FEWEST, round(number * _FACTORS[DEPTH]))


def rounds(change: int, full: int, bulk: int) -> list[ParameterSet]:
    """Numbers of so many rounds of a test: the first few for a change, more in all tests, the rest by night."""
    return [
        pytest.param(number, marks=() if number < change else pytest.mark.full if number < full else pytest.mark.bulk)
        for number in range(bulk)
    ]
