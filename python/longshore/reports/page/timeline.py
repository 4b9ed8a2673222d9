"""Timelines of running jobs: a row per slot of a host, and jobs at once per label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

import msgspec
from markupsafe import Markup

from longshore.model.report import format_duration
from longshore.reports.page.content import FAILED, RUNNING, UNKNOWN, Spans
from longshore.reports.page.figures import OTHERS, Palette, element, figure, number

MAX_ROWS: Final = 48
"""Rows of a timeline."""
MAX_TITLED: Final = 1200
"""Attempts up to which each has a title of its own."""
_WIDTH: Final = 1200.0
_ROW_HEIGHT: Final = 14.0
_STEPS: Final = 600
"""Places that attempts are rounded to where they are too many to be drawn one by one."""
_BINS: Final = 240
_AREA_HEIGHT: Final = 160.0
_OUTCOME_CLASSES: Final = {RUNNING: " open", UNKNOWN: " open", FAILED: " failed"}


class SlotRow(msgspec.Struct, frozen=True):
    """A row of the timeline: its name and its figure."""

    name: str
    svg: Markup


class _Frame(NamedTuple):
    """What all rows of a timeline share: attempts, colours, names, and the range of time."""

    spans: Spans
    palette: Palette
    names: Mapping[int, str]
    labels: Sequence[str]
    begin: float
    seconds: float


class SlotChart(msgspec.Struct, frozen=True):
    """The rows of a timeline, one per slot, or per host if there are too many slots."""

    rows: tuple[SlotRow, ...]
    is_by_host: bool = False


class LabelArea(msgspec.Struct, frozen=True):
    """Jobs at once per label: the figure, and the largest number of jobs at once."""

    svg: Markup
    most: float


def assign_slots(spans: Spans) -> list[tuple[int, list[int]]]:
    """Return the slots of each host, as its number and the attempts that ran there one after another.

    A slot is not an entity of a workload manager: it is the lowest number that is free when an attempt starts.
    """
    order = sorted(range(len(spans)), key=lambda each: (spans.started[each], spans.ended[each], each))
    free: dict[int, list[int]] = {}
    busy: dict[int, list[tuple[float, int]]] = {}
    slots: dict[tuple[int, int], list[int]] = {}
    for each in order:
        host = spans.host_of[each]
        open_slots, ends = free.setdefault(host, []), busy.setdefault(host, [])
        while ends and ends[0][0] <= spans.started[each]:
            heappush(open_slots, heappop(ends)[1])
        slot = heappop(open_slots) if open_slots else len(ends)
        heappush(ends, (spans.ended[each], slot))
        slots.setdefault((host, slot), []).append(each)
    names = spans.hosts
    return [(host, slots[host, slot]) for host, slot in sorted(slots, key=lambda key: (names[key[0]], key))]


def draw_slots(spans: Spans, palette: Palette, names: Mapping[int, str], labels: Sequence[str]) -> SlotChart:
    """Return a row per slot, or per host if there are too many slots; the busiest if there are too many hosts.

    `names` has the names of jobs and `labels` those of labels, for the titles of attempts.
    """
    frame = _Frame(spans, palette, names, labels, *time_range(spans))
    slots = assign_slots(spans)
    if len(slots) > MAX_ROWS:
        return SlotChart(tuple(_draw_hosts(frame)), is_by_host=True)
    numbers: dict[int, int] = {}
    rows = []
    for row, (host, members) in enumerate(slots):
        numbers[host] = numbers.get(host, 0) + 1
        title = f"{spans.hosts[host]} {numbers[host]}"
        is_titled = len(spans) <= MAX_TITLED
        parts = [_titled_span(frame, each) for each in members] if is_titled else _merged_spans(frame, members)
        rows.append(SlotRow(title, figure(f"slot-{row}", title, (_WIDTH, _ROW_HEIGHT), *parts, stretch=True)))
    return SlotChart(tuple(rows))


def time_range(spans: Spans) -> tuple[float, float]:
    """Return the first start of an attempt, and the seconds from there to the last end."""
    if not len(spans):
        return 0.0, 0.0
    begin = min(spans.started)
    return begin, max(max(spans.ended) - begin, 0.0)


def draw_labels(spans: Spans, palette: Palette, labels: Sequence[str]) -> LabelArea:
    """Return the jobs at once over time, stacked by label; labels without a colour of their own are one area."""
    begin, seconds = time_range(spans)
    width = seconds / _BINS or 1.0
    classes = [palette.class_of[label] for label in palette.shown] + [OTHERS] * palette.has_others
    layer = {name: place for place, name in enumerate(classes)}
    rows = [[0.0] * (_BINS + 1) for _ in classes]
    for each in range(len(spans)):
        row = rows[layer[palette.class_of[spans.label_of[each]]]]
        _add_span(row, (spans.started[each] - begin) / width, (spans.ended[each] - begin) / width)
    totals = [sum(row[place] for row in rows) for place in range(_BINS)]
    most = max(totals, default=0.0)
    base = [0.0] * _BINS
    parts = []
    names = [labels[label] for label in palette.shown] + ["other labels"]
    for row, name, words in zip(rows, classes, names, strict=False):
        top = [below + row[place] for place, below in enumerate(base)]
        parts.append(_area(base, top, most, name, words))
        base = top
    title = f"Jobs at once over {format_duration(seconds)}, up to {most:,.1f}"
    return LabelArea(figure("label-area", title, (_BINS, _AREA_HEIGHT), *parts, stretch=True), most)


def _add_span(row: list[float], start: float, end: float) -> None:
    """Add the share of each bin that an attempt runs in."""
    first, last = int(start), min(int(end), _BINS - 1)
    if first >= last:
        row[min(first, _BINS - 1)] += end - start
        return
    row[first] += first + 1 - start
    row[last] += end - last
    for place in range(first + 1, last):
        row[place] += 1.0


def _area(low: Sequence[float], high: Sequence[float], most: float, name: str, words: str) -> Markup:
    """Return the area between two lines of steps."""
    scale = _AREA_HEIGHT / most if most else 0.0

    def height(value: float) -> str:
        return number(_AREA_HEIGHT - value * scale)

    there = "".join(f"V{height(value)}h1" for value in high)
    back = "".join(f"V{height(value)}h-1" for value in reversed(low))
    path = f"M0 {height(low[0])}{there}{back}z"
    return element("path", {"d": path, "class": name}, element("title", {}, words))


def _titled_span(frame: _Frame, each: int) -> Markup:
    spans, outcome = frame.spans, frame.spans.outcome[each]
    start, width = _place(frame, each)
    job, label = spans.job_of[each], spans.label_of[each]
    end = {RUNNING: "still runs", UNKNOWN: "its end is unknown, last heard of", FAILED: "failed"}.get(
        outcome, "succeeded"
    )
    lasted = format_duration(spans.ended[each] - spans.started[each])
    words = f"{frame.names.get(job, f'job {job}')} ({frame.labels[label]}): {end} after {lasted}"
    style = f"{frame.palette.class_of[label]}{_OUTCOME_CLASSES.get(outcome, '')}"
    box = {"x": start, "y": 1, "width": width, "height": _ROW_HEIGHT - 2, "class": style}
    return element("rect", box, element("title", {}, words))


def _place(frame: _Frame, each: int) -> tuple[float, float]:
    spans = frame.spans
    scale = _WIDTH / frame.seconds if frame.seconds else 0.0
    width = max((spans.ended[each] - spans.started[each]) * scale - 0.6, 1.2)
    return min((spans.started[each] - frame.begin) * scale, _WIDTH - width), width


def _merged_spans(frame: _Frame, members: Sequence[int]) -> list[Markup]:
    """Return the attempts of a slot as one coarse path per colour; a failure hides its neighbours."""
    spans, begin = frame.spans, frame.begin
    cells: list[str] = [""] * _STEPS
    scale = _STEPS / frame.seconds if frame.seconds else 0.0
    for each in sorted(members, key=lambda member: spans.outcome[member] == FAILED):
        style = frame.palette.class_of[spans.label_of[each]] + _OUTCOME_CLASSES.get(spans.outcome[each], "")
        first = min(int((spans.started[each] - begin) * scale), _STEPS - 1)
        last = max(first + 1, min(int((spans.ended[each] - begin) * scale), _STEPS))
        cells[first:last] = [style] * (last - first)
    paths: dict[str, list[str]] = {}
    unit = _WIDTH / _STEPS
    place = 0
    while place < _STEPS:
        end = place + 1
        while end < _STEPS and cells[end] == cells[place]:
            end += 1
        if cells[place]:
            step = f"M{number(place * unit)} 1h{number((end - place) * unit)}v12h-{number((end - place) * unit)}z"
            paths.setdefault(cells[place], []).append(step)
        place = end
    return [element("path", {"d": "".join(steps), "class": style}) for style, steps in paths.items()]


def _draw_hosts(frame: _Frame) -> list[SlotRow]:
    """Return a row per host whose height is the number of its attempts at once; the busiest hosts alone."""
    spans, begin = frame.spans, frame.begin
    width = frame.seconds / _BINS or 1.0
    counts = [[0.0] * (_BINS + 1) for _ in spans.hosts]
    for each in range(len(spans)):
        row = counts[spans.host_of[each]]
        _add_span(row, (spans.started[each] - begin) / width, (spans.ended[each] - begin) / width)
    busiest = sorted(range(len(counts)), key=lambda host: (-sum(counts[host]), spans.hosts[host]))[:MAX_ROWS]
    most = max((max(counts[host]) for host in busiest), default=0.0)
    rows = []
    for place, host in enumerate(sorted(busiest, key=lambda each: spans.hosts[each])):
        scale = _ROW_HEIGHT / most if most else 0.0
        path = "".join(f"V{number(_ROW_HEIGHT - value * scale)}h1" for value in counts[host][:_BINS])
        area = element("path", {"d": f"M0 {number(_ROW_HEIGHT)}{path}V{number(_ROW_HEIGHT)}z", "class": "bar"})
        title = f"{spans.hosts[host]}: jobs at once, up to {max(counts[host]):,.1f}"
        row_figure = figure(f"slot-{place}", title, (_BINS, _ROW_HEIGHT), area, stretch=True)
        rows.append(SlotRow(spans.hosts[host], row_figure))
    return rows
