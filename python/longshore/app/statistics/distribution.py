"""Distribution of measured values: their number, minimum, median, 95th percentile and maximum (pure)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


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
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)] if ascending else None


def distribution_of(values: Sequence[float], *, unknown: int = 0) -> Distribution:
    """Return the distribution of some values, in any order; `unknown` attempts have none."""
    if not values:
        return Distribution(unknown=unknown)
    ascending = sorted(values)
    return Distribution(
        known=len(ascending),
        unknown=unknown,
        least=ascending[0],
        p50=quantile(ascending, 0.5),
        p95=quantile(ascending, 0.95),
        most=ascending[-1],
        total=sum(ascending),
    )
