"""Figures: well-formed SVG for any data, the same for the same data, and true to the numbers."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup
from tests.reports.page.page_examples import MIB, example_page, spans, texts
from tests.services.scripts import assert_golden

from longshore.model.report import Drawing, DrawingEdge, DrawingNode
from longshore.model.states import JobState
from longshore.reports.page.figures import (
    COLOURS,
    OTHERS,
    choose_colours,
    count_in_bins,
    count_ticks,
    describe_counts,
    draw_memory,
    draw_run_times,
    draw_share,
    draw_state_bar,
    linear_bins,
    log_bins,
    run_time_limits,
    run_time_ticks,
    time_ticks,
)
from longshore.reports.page.label_graph import draw_label_graph, lay_out
from longshore.reports.page.timeline import MAX_ROWS, assign_slots, draw_labels, draw_slots

GOLDEN = Path(__file__).with_name("golden")
SVG = "{http://www.w3.org/2000/svg}"
counts = st.dictionaries(st.sampled_from(list(JobState)), st.integers(0, 10**7))
seconds = st.floats(0.0, 1e7)
times = st.lists(st.floats(1e-3, 1e7), max_size=30).map(sorted)
attempts = st.lists(
    st.tuples(seconds, seconds, st.integers(0, 9), st.integers(0, 2), st.integers(0, 99), st.integers(0, 2)),
    max_size=60,
).map(lambda rows: [(start, start + lasted, *rest) for start, lasted, *rest in rows])


def parse(svg: Markup) -> ET.Element:
    """Parse a figure as a browser does, which gives the name space itself."""
    return ET.fromstring(str(svg).replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1))  # noqa: S314 - ours


def title_of(svg: Markup) -> str:
    found = parse(svg).find(f"{SVG}title")
    assert found is not None
    return found.text or ""


def test_figures_equal_the_golden_files() -> None:
    page = example_page("warp & <b>")
    assert page.drawing
    assert page.spans
    labels = [row.name for row in page.labels]
    palette = choose_colours([30.0, 22.0, 0.0])
    isr = page.labels[0]
    drawn = {
        "states": draw_state_bar("states", page.report.counts),
        "graph-columns": draw_label_graph("graph", page.drawing, has_columns=True),
        "graph-rows": draw_label_graph("graph", page.drawing, has_columns=False),
        "slots": Markup("").join(row.svg for row in draw_slots(page.spans, palette, page.names, labels).rows),
        "labels": draw_labels(page.spans, palette, labels).svg,
        "run-times": draw_run_times("time", "isr", isr.run_s, run_time_limits([isr.run_s])),
        "memory": draw_memory("memory", "isr", isr.memory_b, isr.requested_memory_b),
    }
    for name, svg in drawn.items():
        assert_golden(GOLDEN / f"{name}.svg", str(svg).replace("><", ">\n<") + "\n")


@given(counts)
def test_a_bar_has_a_part_per_state_and_is_as_wide_as_its_place(numbers: dict[JobState, int]) -> None:
    parts = parse(draw_state_bar("bar", numbers)).findall(f"{SVG}rect")
    shown = [number for number in numbers.values() if number]
    assert len(parts) == len(shown)
    if shown:
        assert sum(float(part.get("width", "")) for part in parts) == pytest.approx(1000, abs=1.0)
    assert describe_counts(numbers) == "no jobs" or len(describe_counts(numbers).split(", ")) >= len(shown)


@given(st.lists(texts, min_size=1, max_size=6), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=15))
def test_a_graph_is_drawn_with_any_names_and_edges(names: list[str], edges: list[tuple[int, int]]) -> None:
    size = len(names)
    drawing = Drawing(
        title="",
        boxes=tuple(DrawingNode(name=name, label=name, jobs=1) for name in names),
        arrows=tuple(DrawingEdge(start=start % size, end=end % size) for start, end in edges),
    )
    for has_columns in (False, True):
        svg = parse(draw_label_graph("graph", drawing, has_columns=has_columns))
        assert len(svg.findall(f"{SVG}g")) == size
        box = [float(value) for value in svg.get("viewBox", "").split()]
        for rect in svg.iter(f"{SVG}rect"):
            assert -1 <= float(rect.get("x", "")) <= box[2]
            assert -1 <= float(rect.get("y", "")) <= box[3]


@given(st.integers(1, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30))
def test_arrows_lead_to_later_layers_and_boxes_do_not_overlap(nodes: int, pairs: list[tuple[int, int]]) -> None:
    edges = [(min(pair) % nodes, max(pair) % nodes) for pair in pairs if min(pair) % nodes < max(pair) % nodes]
    layout = lay_out(nodes, edges)
    for start, end in edges:
        assert layout.places[start][0] < layout.places[end][0]
    rows: dict[int, list[float]] = {}
    for layer, position in layout.places:
        rows.setdefault(layer, []).append(position)
    for row in rows.values():
        row.sort()
        assert all(after - before >= 0.99 for before, after in pairwise(row))


@given(attempts)
def test_attempts_of_one_slot_do_not_overlap(rows: list[tuple[float, float, int, int, int, int]]) -> None:
    data = spans(rows, ["a", "b", "c"])
    slots = assign_slots(data)
    assert sorted(each for _, members in slots for each in members) == list(range(len(rows)))
    for host, members in slots:
        assert {data.host_of[each] for each in members} == {host}
        for before, after in pairwise(members):
            assert data.ended[before] <= data.started[after]


@given(attempts)
def test_timelines_are_drawn_of_any_attempts(rows: list[tuple[float, float, int, int, int, int]]) -> None:
    data = spans(rows, ["a", "<b>", "c"])
    labels = [f"label {number}" for number in range(10)]
    palette = choose_colours([float(number) for number in range(10)])
    for row in draw_slots(data, palette, {}, labels).rows:
        parse(row.svg)
    area = draw_labels(data, palette, labels)
    parse(area.svg)
    begin = min((row[0] for row in rows), default=0.0)
    length = max((row[1] for row in rows), default=0.0) - begin
    # Times of a clock, not the least numbers that a computer knows.
    if length > 1e-6:
        mean = sum(end - start for start, end, *_ in rows) / length
        assert area.most >= mean * 0.999
    assert area.most <= len(rows) + 1e-6


def test_many_slots_become_a_row_per_host() -> None:
    rows = [(0.0, 10.0, 0, number % 60, number, 1) for number in range(200)]
    drawn = draw_slots(spans(rows, [f"node{number}" for number in range(60)]), choose_colours([1.0]), {}, ["a"])
    assert drawn.is_by_host
    assert len(drawn.rows) == MAX_ROWS
    assert "jobs at once, up to 4.0" in title_of(drawn.rows[0].svg)


def test_many_attempts_are_merged_and_failures_stay_visible() -> None:
    rows = [(float(number), number + 1.0, 0, 0, number, 2 if number == 777 else 1) for number in range(5000)]
    (row,) = draw_slots(spans(rows, ["here"]), choose_colours([1.0]), {}, ["a"]).rows
    assert len(row.svg) < 20_000
    assert 'class="l0 failed"' in row.svg


@given(st.lists(times, min_size=1, max_size=5))
def test_histograms_count_every_attempt(rows: list[list[float]]) -> None:
    limits = run_time_limits(rows)
    for row in rows:
        svg = draw_run_times("time", "a", row, limits)
        assert bool(svg) == bool(row)
        if row:
            parse(svg)
            assert sum(count_in_bins(row, limits)) == len(row)
    places = [tick.place for tick in run_time_ticks(limits)]
    assert places == sorted(places)
    assert all(-1e-9 <= place <= 1.0 + 1e-9 for place in places)


@given(st.lists(st.floats(0, 1e12), max_size=20).map(sorted), st.one_of(st.none(), st.integers(1, 10**12)))
def test_memory_is_drawn_against_any_request(peaks: list[float], requested: int | None) -> None:
    svg = draw_memory("memory", "a", peaks, requested)
    assert bool(svg) == bool(peaks)
    if peaks:
        parse(svg)
        assert ("requested" in title_of(svg)) == (requested is not None)


def test_memory_beyond_the_request_is_right_of_its_line() -> None:
    svg = draw_memory("memory", "a", [300.0 * MIB], 100 * MIB)
    line = parse(svg).find(f"{SVG}rect")
    bar = re.search(r'd="M([\d.]+)', svg)
    assert line is not None
    assert bar
    assert float(bar[1]) > float(line.get("x", "")) > 0


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_share_is_as_wide_as_it_says(bad: float, rest: float) -> None:
    svg = draw_share("badput", "Badput", bad, bad + rest)
    assert bool(svg) == (bad + rest > 0.0)
    if svg:
        whole, part = parse(svg).findall(f"{SVG}rect")
        assert 0.0 <= float(part.get("width", "")) <= float(whole.get("width", ""))
        assert title_of(svg) == f"Badput: {bad / (bad + rest):.1%}"


@given(st.lists(st.floats(0, 1e9), max_size=30))
def test_the_longest_labels_have_colours(busy: list[float]) -> None:
    palette = choose_colours(busy)
    assert len(palette.shown) == min(len(busy), COLOURS)
    assert len({palette.class_of[label] for label in palette.shown}) == len(palette.shown)
    left = [label for label, name in enumerate(palette.class_of) if name == OTHERS]
    assert palette.has_others == bool(left)
    if left:
        assert max(busy[label] for label in left) <= min(busy[label] for label in palette.shown)


@given(st.floats(0, 1e9))
def test_axes_of_time_have_few_round_ticks(length: float) -> None:
    ticks = time_ticks(length)
    assert 1 <= len(ticks) <= 10
    assert all(0.0 <= tick.place <= 1.0 + 1e-9 for tick in ticks)
    assert len({tick.text for tick in ticks}) == len(ticks)


@given(st.floats(0, 1e9))
def test_axes_of_counts_have_whole_numbers(most: float) -> None:
    ticks = count_ticks(most)
    assert 1 <= len(ticks) <= 6
    assert all(0.0 <= tick.place <= 1.0 + 1e-9 for tick in ticks)


@given(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))
def test_bins_ascend(one: float, other: float) -> None:
    limits = log_bins(min(one, other), max(one, other), 20)
    assert list(limits) == sorted(limits)
    assert list(linear_bins(other, 20)) == sorted(linear_bins(other, 20))
