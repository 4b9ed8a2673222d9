"""What a job asks for when it ran out of memory or of time: pure arithmetic."""

from __future__ import annotations

import math
from typing import Final

import msgspec

from longshore.model.workflow.request import MIB, Request

_LARGEST: Final = 2**62
"""Bytes or seconds beyond which nothing grows: a factor to a high power is no number any more."""


def grown_memory(
    first_b: int,
    factor: float,
    ends: int,
    *,
    peak_b: int | None = None,
    most_b: int | None = None,
    of_usage: bool = False,
) -> int:
    """Bytes to ask for after a number of ends for want of memory.

    That is ``min(max(first * factor**ends, peak), most)``, in whole MiB.

    Parameters
    ----------
    first_b
        What was asked for at first.
    factor
        What that is multiplied by each time.
    ends
        How often the job ended for want of memory; other ends do not count.
    peak_b
        The most it was seen to use.
    most_b
        What it may ask for at most.
    of_usage
        Whether the factor is of the peak, where that is known.
    """
    if of_usage and peak_b is not None and ends:
        wanted = min(peak_b * factor, _LARGEST)
    else:
        wanted = max(_power(first_b, factor, ends), peak_b or 0)
    whole = math.ceil(wanted / MIB) * MIB
    return whole if most_b is None else min(whole, most_b)


def grown_walltime(first_s: float, factor: float, ends: int, *, most_s: float | None = None) -> float:
    """Seconds to ask for after a number of ends for want of time."""
    wanted = _power(first_s, factor, ends)
    return wanted if most_s is None else min(wanted, most_s)


def _power(first: float, factor: float, ends: int) -> float:
    try:
        return float(min(first * factor**ends, _LARGEST))
    except OverflowError:
        return float(_LARGEST)


def more_memory(
    asked: Request,
    first: Request,
    *,
    factor: float,
    ends: int,
    peak_b: int | None,
    most_b: int | None,
    of_usage: bool,
) -> Request | None:
    """The next request of a job that ran out of memory; ``None`` when it had the most it may have already.

    Parameters
    ----------
    asked
        What the attempt that ended had asked for.
    first
        What the first attempt asks for.
    factor, ends, peak_b, most_b, of_usage
        As for `grown_memory`.
    """
    had = asked.memory_b
    if had is not None and most_b is not None and had >= most_b:
        return None
    start = first.memory_b or had or peak_b
    if start is None:
        # Nothing was asked and nothing was seen: there is nothing to multiply.
        return asked
    wanted = grown_memory(start, factor, ends, peak_b=peak_b, most_b=most_b, of_usage=of_usage)
    if had is not None and wanted <= had:
        # Somebody gave it more meanwhile than the series has come to, or the peak was missed: it grows from there.
        wanted = grown_memory(had, factor, 1, most_b=most_b)
    return msgspec.structs.replace(asked, memory_b=wanted)


def more_walltime(asked: Request, first: Request, *, factor: float, ends: int, most_s: float | None) -> Request | None:
    """The next request of a job that ran out of time; ``None`` when it had the most it may have already."""
    had = asked.walltime_s
    if had is None:
        # A limit of the workload manager's own: what was never asked for cannot be multiplied.
        return asked
    if most_s is not None and had >= most_s:
        return None
    wanted = grown_walltime(first.walltime_s or had, factor, ends, most_s=most_s)
    if wanted <= had:
        wanted = grown_walltime(had, factor, 1, most_s=most_s)
    return msgspec.structs.replace(asked, walltime_s=wanted)
