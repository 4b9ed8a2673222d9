"""Request growth: the memory or run time to request after an attempt ran out of it; pure arithmetic."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from longshore.model.workflow import MIB, Request

_LARGEST: Final = 2**62
"""Bytes or seconds beyond which nothing grows: a factor to a high power overflows."""


def compute_memory_b(
    first_b: int,
    factor: float,
    ends: int,
    *,
    peak_b: int | None = None,
    most_b: int | None = None,
    of_usage: bool = False,
) -> int:
    """Return the bytes to request after a number of ends for lack of memory.

    That is ``min(max(first * factor**ends, peak), most)``, in whole MiB.

    Parameters
    ----------
    first_b
        Bytes of the first request.
    factor
        Multiplier per end.
    ends
        Number of ends for lack of memory; other ends do not count.
    peak_b
        Most memory that the job was seen to use; ``None`` if unknown.
    most_b
        Most that it may request; ``None`` without a limit.
    of_usage
        Whether the factor multiplies the peak, where that is known.
    """
    if of_usage and peak_b is not None and ends:
        next_value = min(peak_b * factor, _LARGEST)
    else:
        next_value = max(_power(first_b, factor, ends), peak_b or 0)
    grown = math.ceil(next_value / MIB) * MIB
    return grown if most_b is None else min(grown, most_b)


def compute_walltime_s(first_s: float, factor: float, ends: int, *, most_s: float | None = None) -> float:
    """Return the seconds to request after a number of ends for lack of time."""
    next_value = _power(first_s, factor, ends)
    return next_value if most_s is None else min(next_value, most_s)


def _power(first: float, factor: float, ends: int) -> float:
    try:
        return float(min(first * factor**ends, _LARGEST))
    except OverflowError:
        return float(_LARGEST)


def grow_memory(
    request: Request,
    first_request: Request,
    *,
    factor: float,
    ends: int,
    peak_b: int | None,
    most_b: int | None,
    of_usage: bool,
) -> Request | None:
    """Return the next request of a job that ran out of memory; ``None`` if it already had the most allowed.

    `request` is the request of the attempt that ended, `first_request` that of the first attempt; the rest is as for
    `compute_memory_b`.
    """
    current_b = request.memory_b
    if current_b is not None and most_b is not None and current_b >= most_b:
        return None
    start = first_request.memory_b or current_b or peak_b
    if start is None:
        # No memory was requested or measured, so that a factor has nothing to multiply.
        return request
    next_value = compute_memory_b(start, factor, ends, peak_b=peak_b, most_b=most_b, of_usage=of_usage)
    if current_b is not None and next_value <= current_b:
        # A person raised it beyond the series meanwhile, or the peak was missed: it grows from there.
        next_value = compute_memory_b(current_b, factor, 1, most_b=most_b)
    return msgspec.structs.replace(request, memory_b=next_value)


def grow_walltime(
    request: Request, first_request: Request, *, factor: float, ends: int, most_s: float | None
) -> Request | None:
    """Return the next request of a job that ran out of time; ``None`` if it already had the most allowed."""
    current_s = request.walltime_s
    if current_s is None:
        # The limit is the workload manager's own: a time that was never requested cannot be multiplied.
        return request
    if most_s is not None and current_s >= most_s:
        return None
    next_value = compute_walltime_s(first_request.walltime_s or current_s, factor, ends, most_s=most_s)
    if next_value <= current_s:
        next_value = compute_walltime_s(current_s, factor, 1, most_s=most_s)
    return msgspec.structs.replace(request, walltime_s=next_value)
