"""Figures of the page as SVG: elements, axes, colours, bars of states and histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from markupsafe import Markup, escape

from longshore.model.report import escape_controls, format_duration, format_size
from longshore.model.states import JobState
from longshore.model.wording import count_noun

# Elements; every attribute and text is escaped.


def clean(text: str) -> str:
    """Return a text without characters that HTML forbids: controls and lone surrogates are shown as escapes."""
    return escape_controls(text, keep="\n\t").encode("utf-8", "backslashreplace").decode()


def element(tag: str, attributes: Mapping[str, object], *children: Markup | str) -> Markup:
    """Return an element; a child that is no `Markup` is text."""
    pairs = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items() if value is not None)
    if not children:
        return Markup(f"<{tag}{pairs}/>")  # noqa: S704 - the names are ours, the values escaped
    inside = "".join(child if isinstance(child, Markup) else escape(clean(child)) for child in children)
    return Markup(f"<{tag}{pairs}>{inside}</{tag}>")  # noqa: S704 - the same


def figure(name: str, title: str, size: tuple[float, float], *children: Markup, stretch: bool = False) -> Markup:
    """Return a whole figure with a title for screen readers.

    `name` is unique in its page. With `stretch`, the figure fills its place, whose proportions it takes.
    """
    width, height = size
    attributes: dict[str, object] = {
        "viewBox": f"0 0 {number(width)} {number(height)}",
        "role": "img",
        "aria-labelledby": f"{name}-title",
    }
    if stretch:
        attributes["preserveAspectRatio"] = "none"
    else:
        attributes |= {"width": number(width), "height": number(height)}
    return element("svg", attributes, element("title", {"id": f"{name}-title"}, title), *children)


def number(value: float) -> str:
    """Return a coordinate with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0")


def _attribute(value: object) -> str:
    if isinstance(value, float):
        return number(value)
    return str(escape(clean(value) if isinstance(value, str) else value))


_TIME_STEPS: Final = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600 * hours for hours in (1, 2, 3, 6, 12)),
    *(86_400 * days for days in (1, 2, 7, 14, 28)),
)
"""Seconds between two ticks."""


class Tick(NamedTuple):
    """A mark of an axis: its place from 0 to 1, and its text."""

    place: float
    text: str


def time_ticks(seconds: float, most: int = 8) -> tuple[Tick, ...]:
    """Return ticks of an axis from 0 to a number of seconds, at most `most` after the first."""
    if not seconds > 0.0 or not math.isfinite(seconds):
        return (Tick(0.0, "0 s"),)
    step = next((each for each in _TIME_STEPS if seconds / each <= most), 0.0) or _round_up(seconds / most / 86_400) * (
        86_400
    )
    marks = (number * step for number in range(1, int(seconds / step) + 1))
    return (Tick(0.0, "0"), *(Tick(at / seconds, tick_duration(at)) for at in marks))


def tick_duration(seconds: float) -> str:
    """Return a duration as an axis shows it, such as ``30 s`` or ``2 h``."""
    for unit, name in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return f"{seconds / unit:g} {name}" if seconds % unit == 0 else format_duration(seconds)
    return f"{seconds:g} s"


def count_ticks(most: float, ticks: int = 4) -> tuple[Tick, ...]:
    """Return ticks of an axis from 0 to a number of jobs."""
    if not most > 0.0:
        return (Tick(0.0, "0"),)
    step = _round_up(max(most / ticks, 1.0))
    return tuple(Tick(number * step / most, f"{number * step:,.0f}") for number in range(int(most / step) + 1))


def log_bins(low: float, high: float, number: int) -> tuple[float, ...]:
    """Return the limits of bins on a logarithmic axis, one more than bins."""
    low = max(low, 1e-3)
    high = max(high, low * 1.01)
    ratio = math.log(high / low)
    return (*(low * math.exp(ratio * place / number) for place in range(number)), high)


def linear_bins(high: float, number: int) -> tuple[float, ...]:
    """Return the limits of bins from 0, one more than bins."""
    return tuple(high * place / number for place in range(number + 1))


def count_in_bins(values: Sequence[float], limits: Sequence[float]) -> list[int]:
    """Count values per bin; those outside count in the first or the last one."""
    # Imported late: pages alone need it.
    from bisect import bisect_right

    counts = [0] * (len(limits) - 1)
    for value in values:
        counts[min(max(bisect_right(limits, value) - 1, 0), len(counts) - 1)] += 1
    return counts


def _round_up(value: float) -> float:
    """Round up to 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if value <= factor * power * (1 + 1e-9))


# Colours: the labels that ran longest have one of their own.


COLOURS: Final = 8
"""Colours of labels that the style sheet has: classes ``l0`` to ``l7``; ``lx`` is for all others."""
OTHERS: Final = "lx"


class Palette(msgspec.Struct, frozen=True):
    """Class of the style sheet per label, and the labels that have a colour of their own, in order."""

    class_of: tuple[str, ...]
    shown: tuple[int, ...]

    @property
    def has_others(self) -> bool:
        """Whether some labels share a colour."""
        return len(self.shown) < len(self.class_of)


def choose_colours(busy_s: Sequence[float]) -> Palette:
    """Give each label a colour, the longest-running first if there are more labels than colours."""
    longest = sorted(range(len(busy_s)), key=lambda label: (-busy_s[label], label))[:COLOURS]
    shown = tuple(sorted(longest))
    class_of = [OTHERS] * len(busy_s)
    for place, label in enumerate(shown):
        class_of[label] = f"l{place}"
    return Palette(tuple(class_of), shown)


BAR_ORDER: Final = (
    JobState.SUCCEEDED,
    JobState.RUNNING,
    JobState.PENDING,
    JobState.READY,
    JobState.UNREADY,
    JobState.HELD,
    JobState.FAILED,
    JobState.PRUNED,
    JobState.DELETED,
    JobState.MISFIT,
    JobState.UNKNOWN,
)
"""States from left to right."""
_BAR_WIDTH: Final = 1000.0
_LEAST: Final = 8.0
"""Width of a state that has few jobs: it must be seen."""


def shown_states(counts: Mapping[JobState, int]) -> list[tuple[JobState, int]]:
    """Return states that some job is in, in the order of the bar."""
    return [(state, counts[state]) for state in BAR_ORDER if counts.get(state)]


def describe_counts(counts: Mapping[JobState, int]) -> str:
    """Describe counts in words."""
    return ", ".join(f"{number:,} {state.lower()}" for state, number in shown_states(counts)) or "no jobs"


def draw_state_bar(name: str, counts: Mapping[JobState, int], what: str = "") -> Markup:
    """Return a bar whose parts have the share of each state."""
    shown = shown_states(counts)
    widths = _shares([number for _, number in shown])
    parts = []
    at = 0.0
    for (state, number), width in zip(shown, widths, strict=True):
        title = element("title", {}, f"{count_noun(number, 'job')} {state.lower()}")
        parts.append(
            element("rect", {"x": at, "y": 0, "width": width, "height": 10, "class": f"s-{state.value}"}, title)
        )
        at += width
    text = f"{what}: {describe_counts(counts)}" if what else describe_counts(counts)
    return figure(name, text, (_BAR_WIDTH, 10), *parts, stretch=True)


def _shares(numbers: list[int]) -> list[float]:
    """Divide the width in proportion; each part can be seen."""
    total = sum(numbers)
    if not total:
        return []
    widths = [max(_LEAST, _BAR_WIDTH * number / total) for number in numbers]
    return [width * _BAR_WIDTH / sum(widths) for width in widths]


_BINS: Final = 48
_HISTOGRAM_WIDTH: Final = 960.0
_HISTOGRAM_HEIGHT: Final = 40.0
_ROUND_S: Final = (0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 86_400, 864_000)


def run_time_limits(labels: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return the bins that the run times of all labels share, so that their histograms can be compared."""
    ends = [seconds for times in labels if times for seconds in (times[0], times[-1])]
    return log_bins(min(ends), max(ends), _BINS) if ends else ()


def run_time_ticks(limits: Sequence[float]) -> tuple[Tick, ...]:
    """Return ticks of the logarithmic axis of run times; the ends alone where no round value lies between."""
    if not limits:
        return ()
    low, high = limits[0], limits[-1]
    inside = [each for each in _ROUND_S if low <= each <= high]
    if len(inside) < 2:
        return (Tick(0.0, format_duration(low)), Tick(1.0, format_duration(high)))
    return tuple(Tick(math.log(each / low) / math.log(high / low), tick_duration(each)) for each in inside)


def draw_run_times(name: str, label: str, times: Sequence[float], limits: Sequence[float]) -> Markup:
    """Return the histogram of a label's run times, which are ascending."""
    if not times:
        return Markup("")
    title = (
        f"Run times of {label}: {count_noun(len(times), 'attempt')}, "
        f"from {format_duration(times[0])} to {format_duration(times[-1])}"
    )
    return figure(name, title, (_HISTOGRAM_WIDTH, _HISTOGRAM_HEIGHT), _bars(count_in_bins(times, limits)), stretch=True)


def draw_memory(name: str, label: str, peaks: Sequence[float], requested: int | None) -> Markup:
    """Return the histogram of a label's peak memory, which is ascending, with a line at the request."""
    if not peaks:
        return Markup("")
    high = max(peaks[-1], requested or 0.0) * 1.04
    parts = [_bars(count_in_bins(peaks, linear_bins(high, _BINS)))] if high > 0.0 else []
    title = f"Peak memory of {label}: up to {format_size(round(peaks[-1]))}"
    if requested and high > 0.0:
        title += f", requested {format_size(requested)}"
        at = _HISTOGRAM_WIDTH * requested / high
        unused = {"x": at, "y": 0, "width": 4, "height": _HISTOGRAM_HEIGHT, "class": "request"}
        parts.append(element("rect", unused, element("title", {}, f"requested {format_size(requested)}")))
    return figure(name, title, (_HISTOGRAM_WIDTH, _HISTOGRAM_HEIGHT), *parts, stretch=True)


def draw_share(name: str, what: str, part: float, whole: float) -> Markup:
    """Return a bar whose filled part is the share of a part in a whole."""
    if not whole > 0.0:
        return Markup("")
    share = min(max(part / whole, 0.0), 1.0)
    bar = {
        "x": 0,
        "y": 0,
        "width": max(_HISTOGRAM_WIDTH * share, 3.0 if share else 0.0),
        "height": 10,
        "class": "s-FAILED",
    }
    rest = {"x": 0, "y": 0, "width": _HISTOGRAM_WIDTH, "height": 10, "class": "rest"}
    return figure(
        name, f"{what}: {share:.1%}", (_HISTOGRAM_WIDTH, 10), element("rect", rest), element("rect", bar), stretch=True
    )


def _bars(counts: Sequence[int]) -> Markup:
    """Return bars as one path, the highest as high as the figure; a bin with one value can be seen."""
    most = max(counts, default=0)
    width = _HISTOGRAM_WIDTH / max(len(counts), 1)
    steps = []
    for place, count in enumerate(counts):
        if count:
            height = max(3.0, _HISTOGRAM_HEIGHT * count / most)
            x, top = number(place * width), number(_HISTOGRAM_HEIGHT - height)
            steps.append(f"M{x} {top}h{number(width - 2)}v{number(height)}h-{number(width - 2)}z")
    return Markup("").join([element("path", {"d": "".join(steps), "class": "bar"})]) if steps else Markup("")
