"""Describes how a figure grows with the size: the exponent, which is the slope of a log-log plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import linear_regression
from typing import Final

from tests.bench.figures import note_figure

SIZES: Final = (1_000, 10_000, 100_000, 1_000_000)
"""Sizes at which growth is measured."""


def exponent(sizes: Sequence[float], figures: Sequence[float]) -> float:
    """Return the exponent of growth by least squares: 1.0 where it is linear."""
    return linear_regression([math.log(size) for size in sizes], [math.log(figure) for figure in figures]).slope


def describe_growth(what: str, sizes: Sequence[float], figures: Sequence[float]) -> str:
    """Return a line with the exponent over all sizes, and over the last step, where fixed costs count least."""
    if len(sizes) < 2 or min(figures) <= 0:
        return f"growth of {what}: unknown, because there is one size"
    whole, last = exponent(sizes, figures), exponent(sizes[-2:], figures[-2:])
    return f"growth of {what}: exponent {whole:.2f} from {sizes[0]:,} to {sizes[-1]:,}, {last:.2f} in the last step"


def note_growth(work: str, sizes: Sequence[int], seconds: Sequence[float], memory_mb: Sequence[float]) -> None:
    """Note a row of the table per size; the last has the exponents of time and memory."""
    for number, (size, taken, memory) in enumerate(zip(sizes, seconds, memory_mb, strict=True), 1):
        is_last = number == len(sizes) > 1
        grown = (
            f"grows by exponents {exponent(sizes, seconds):.2f}, {exponent(sizes, memory_mb):.2f}" if is_last else ""
        )
        note_figure(f"{work}: {size:,}", f"{taken:.2f} s of a processor, {memory:.0f} MB", grown)
