"""Distribution of measured values: their number, minimum, median, 95th percentile and maximum (pure)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import chain
from typing import Final

import msgspec

_FEW_LISTS: Final = 16
"""More sorted lists take less time to merge than to search for their quantiles."""


class Distribution(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Distribution of the known values of one measure; all but the counts are ``None`` where no value is known.

    Attributes
    ----------
    known, unknown
        Number of attempts with and without a value.
    least, p50, p95, most
        Minimum, median, 95th percentile and maximum; the percentiles are values that were measured.
    total
        Sum of the known values.
    """

    known: int = 0
    unknown: int = 0
    least: float | None = None
    p50: float | None = None
    p95: float | None = None
    most: float | None = None
    total: float | None = None


def quantile(ascending: Sequence[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed; ``None`` of no values."""
    return ascending[_place(len(ascending), share)] if ascending else None


def distribution_of(values: Sequence[float], *, unknown: int = 0) -> Distribution:
    """Return the distribution of some values, in any order; `unknown` attempts have none."""
    return distribution_of_lists([sorted(values)], unknown=unknown)


def distribution_of_lists(ascending: Sequence[Sequence[float]], *, unknown: int = 0) -> Distribution:
    """Return the distribution of the values of several lists in ascending order; `unknown` attempts have none."""
    lists = [each for each in ascending if each]
    if len(lists) > _FEW_LISTS:
        lists = [sorted(chain.from_iterable(lists))]
    known = sum(map(len, lists))
    if not known:
        return Distribution(unknown=unknown)
    return Distribution(
        known=known,
        unknown=unknown,
        least=min(each[0] for each in lists),
        p50=_quantile_of_lists(lists, 0.5),
        p95=_quantile_of_lists(lists, 0.95),
        most=max(each[-1] for each in lists),
        total=sum(map(sum, lists)),
    )


def _quantile_of_lists(lists: Sequence[Sequence[float]], share: float) -> float:
    """Return what `quantile` returns of the merged lists, without merging them."""
    if len(lists) == 1:
        return lists[0][_place(len(lists[0]), share)]
    place = _place(sum(map(len, lists)), share)
    begins, ends = [0] * len(lists), list(map(len, lists))
    while True:
        # At each step, half of the longest part that is left goes.
        longest = max(range(len(lists)), key=lambda number: ends[number] - begins[number])
        middle = lists[longest][(begins[longest] + ends[longest]) // 2]
        below = [bisect_left(*part) for part in zip(lists, [middle] * len(lists), begins, ends, strict=True)]
        upto = [bisect_right(*part) for part in zip(lists, [middle] * len(lists), begins, ends, strict=True)]
        if place < sum(below):
            ends = below
        elif place >= sum(upto):
            begins = upto
        else:
            return middle


def _place(number: int, share: float) -> int:
    return max(0, math.ceil(share * number) - 1)
