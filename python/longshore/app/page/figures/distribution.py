"""Histograms of run times and of peak memory against the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from longshore.app.page.figures.scale import Tick, count_in_bins, linear_bins, log_bins, tick_duration
from longshore.app.page.figures.svg import element, figure, join, number
from longshore.model.text_format import format_duration, format_size
from longshore.model.wording import count_noun

_BINS: Final = 48
_WIDTH: Final = 960.0
_HEIGHT: Final = 40.0
_ROUND_S: Final = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400, 864_000)


def run_time_limits(labels: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the bins that the run times of all labels share, so that their histograms can be compared."""
    ends = [seconds for times in labels if times for seconds in (times[0], times[-1])]
    return log_bins(min(ends), max(ends), _BINS) if ends else ()


def run_time_ticks(limits: Sequence[float]) -> tuple[Tick, ...]:
    """Return ticks of the logarithmic axis of run times; the ends alone where no round value lies between."""
    # Imported late: pages alone need it.
    from math import log

    if not limits:
        return ()
    low, high = limits[0], limits[-1]
    inside = [each for each in _ROUND_S if low <= each <= high]
    if len(inside) < 2:
        return (Tick(0.0, format_duration(low)), Tick(1.0, format_duration(high)))
    return tuple(Tick(log(each / low) / log(high / low), tick_duration(each)) for each in inside)


def draw_run_times(name: str, label: str, times: Sequence[float], limits: Sequence[float]) -> Markup:
    """Return the histogram of a label's run times, which are ascending."""
    if not times:
        return Markup("")
    title = (
        f"Run times of {label}: {count_noun(len(times), 'attempt')}, "
        f"from {format_duration(times[0])} to {format_duration(times[-1])}"
    )
    return figure(name, title, (_WIDTH, _HEIGHT), _bars(count_in_bins(times, limits)), stretch=True)


def draw_memory(name: str, label: str, peaks: Sequence[float], requested: int | None) -> Markup:
    """Return the histogram of a label's peak memory, which is ascending, with a line at the request."""
    if not peaks:
        return Markup("")
    high = max(peaks[-1], requested or 0.0) * 1.04
    parts = [_bars(count_in_bins(peaks, linear_bins(high, _BINS)))] if high > 0.0 else []
    title = f"Peak memory of {label}: up to {format_size(round(peaks[-1]))}"
    if requested and high > 0.0:
        title += f", requested {format_size(requested)}"
        at = _WIDTH * requested / high
        unused = {"x": at, "y": 0, "width": 4, "height": _HEIGHT, "class": "request"}
        parts.append(element("rect", unused, element("title", {}, f"requested {format_size(requested)}")))
    return figure(name, title, (_WIDTH, _HEIGHT), *parts, stretch=True)


def draw_share(name: str, what: str, part: float, whole: float) -> Markup:
    """Return a bar whose filled part is the share of a part in a whole."""
    if not whole > 0.0:
        return Markup("")
    share = min(max(part / whole, 0.0), 1.0)
    bar = {"x": 0, "y": 0, "width": max(_WIDTH * share, 3.0 if share else 0.0), "height": 10, "class": "s-FAILED"}
    rest = {"x": 0, "y": 0, "width": _WIDTH, "height": 10, "class": "rest"}
    return figure(name, f"{what}: {share:.1%}", (_WIDTH, 10), element("rect", rest), element("rect", bar), stretch=True)


def _bars(counts: Sequence[int]) -> Markup:
    """Return bars as one path, the highest as high as the figure; a bin with one value can be seen."""
    most = max(counts, default=0)
    width = _WIDTH / max(len(counts), 1)
    steps = []
    for place, count in enumerate(counts):
        if count:
            height = max(3.0, _HEIGHT * count / most)
            x, top = number(place * width), number(_HEIGHT - height)
            steps.append(f"M{x} {top}h{number(width - 2)}v{number(height)}h-{number(width - 2)}z")
    return join([element("path", {"d": "".join(steps), "class": "bar"})]) if steps else Markup("")
