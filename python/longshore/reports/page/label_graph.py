"""Layout and drawing of the graph of labels: layers by the longest path, few crossings, curved arrows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec
from markupsafe import Markup

from longshore.model.report import Drawing, DrawingNode
from longshore.model.states import JobState
from longshore.model.wording import count_noun
from longshore.reports.page.figures import describe_counts, element, figure, number, shown_states

MAX_NODES: Final = 60
"""Labels beyond which a picture helps nobody."""
_HEIGHT: Final = 46.0
_LEAST_WIDTH: Final = 120.0
_CHARACTER, _SMALL_CHARACTER = 8.0, 6.2
"""Width of a character of a name, and of a line of counts."""
_GAPS: Final = {True: (40.0, 16.0), False: (20.0, 34.0)}
"""Between boxes, horizontally and vertically, by whether layers are columns."""
_SWEEPS: Final = 6
_LINE_WIDTH: Final = 22
"""Characters of a name that fit in a box."""


class Layout(msgspec.Struct, frozen=True):
    """Layer and position of each node, and the path of each arrow through the layers between.

    A place is a pair of the number of a layer and a position in it, in units of a box.
    """

    places: tuple[tuple[int, float], ...]
    paths: tuple[tuple[tuple[int, float], ...], ...]
    layers: int
    breadth: float


def lay_out(nodes: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Place nodes in layers so that each arrow leads to a later layer; edges that make a cycle are left out."""
    edges = _without_cycles(nodes, edges)
    layer_of = _find_layers(nodes, edges)
    chains: list[list[int]] = []
    depth = list(layer_of)
    for start, end in edges:
        # An arrow over several layers passes each at a place of its own.
        between = range(len(depth), len(depth) + layer_of[end] - layer_of[start] - 1)
        depth += range(layer_of[start] + 1, layer_of[end])
        chains.append([start, *between, end])
    links = [(one, other) for chain in chains for one, other in pairwise(chain)]
    rows = _order_rows(depth, links)
    position = _find_positions(rows, links, nodes)
    low = min(position, default=0.0)
    return Layout(
        places=tuple((depth[node], position[node] - low) for node in range(nodes)),
        paths=tuple(tuple((depth[each], position[each] - low) for each in chain) for chain in chains),
        layers=len(rows),
        breadth=max(position, default=0.0) - low + 1.0,
    )


def draw_label_graph(name: str, drawing: Drawing, *, has_columns: bool) -> Markup:
    """Return the graph; with `has_columns`, its layers are columns, else rows."""
    layout = lay_out(len(drawing.boxes), [(arrow.start, arrow.end) for arrow in drawing.arrows])
    width, height = _box_width(drawing), _HEIGHT
    gap_x, gap_y = _GAPS[has_columns]

    def corner(place: tuple[int, float]) -> tuple[float, float]:
        layer, position = place
        x, y = (layer, position) if has_columns else (position, layer)
        return 4 + x * (width + gap_x), 4 + y * (height + gap_y)

    across = (layout.layers, layout.breadth) if has_columns else (layout.breadth, layout.layers)
    size = (across[0] * (width + gap_x) - gap_x + 8, across[1] * (height + gap_y) - gap_y + 8)
    lines = [_arrow([corner(place) for place in path], width, has_columns=has_columns) for path in layout.paths]
    boxes = [
        _box(f"{name}-{index}", box, corner(place), width)
        for index, (box, place) in enumerate(zip(drawing.boxes, layout.places, strict=True))
    ]
    title = f"Graph of {count_noun(len(drawing.boxes), 'label')} with the states of their jobs"
    return figure(name, title, size, *lines, *boxes)


def fits_in_columns(drawing: Drawing, width: float) -> bool:
    """Return whether a graph whose layers are columns is at most so wide."""
    layout = lay_out(len(drawing.boxes), [(arrow.start, arrow.end) for arrow in drawing.arrows])
    gap = _GAPS[True][0]
    return layout.layers * (_box_width(drawing) + gap) - gap <= width


def _box_width(drawing: Drawing) -> float:
    """Return the width of boxes that have room for the longest name and for all counts."""
    longest = max((min(len(node.name), _LINE_WIDTH) for node in drawing.boxes), default=0)
    counts = max((len(_short_counts(node)) for node in drawing.boxes), default=0)
    return max(_LEAST_WIDTH, _CHARACTER * longest + 18.0, _SMALL_CHARACTER * counts + 18.0)


def _box(name: str, node: DrawingNode, corner: tuple[float, float], width: float) -> Markup:
    x, y = corner
    height = _HEIGHT
    trouble = node.counts.get(JobState.FAILED) or node.counts.get(JobState.HELD)
    text = node.name if len(node.name) <= _LINE_WIDTH else f"{node.name[: _LINE_WIDTH - 1]}…"
    words = f"{node.name}: {count_noun(node.jobs, 'job')}; {describe_counts(node.counts)}"
    outline = {"x": x, "y": y, "width": width, "height": height, "rx": 5, "class": "box bad" if trouble else "box"}
    return element(
        "g",
        {"id": name},
        element("title", {}, words),
        element("rect", outline),
        element("text", {"x": x + 9, "y": y + 18, "class": "name"}, text),
        element("text", {"x": x + 9, "y": y + 32, "class": "small"}, _short_counts(node)),
        *_strip(node.counts, x + 1, y + height - 7, width - 2),
    )


def _short_counts(node: DrawingNode) -> str:
    done = node.counts.get(JobState.SUCCEEDED, 0)
    words = f"{done:,} of {node.jobs:,}" if node.counts else f"{node.jobs:,}"
    failed = node.counts.get(JobState.FAILED, 0)
    return f"{words}, {failed:,} failed" if failed else words


def _strip(counts: Mapping[JobState, int], x: float, y: float, width: float) -> list[Markup]:
    total = sum(counts.values())
    parts = []
    for state, amount in shown_states(counts):
        share = width * amount / total
        parts.append(element("rect", {"x": x, "y": y, "width": share, "height": 6, "class": f"s-{state.value}"}))
        x += share
    return parts


def _arrow(corners: Sequence[tuple[float, float]], width: float, *, has_columns: bool) -> Markup:
    """Return a smooth line from the far side of the first box to the near side of the last."""
    height = _HEIGHT
    if has_columns:
        stops = [(x, y + height / 2) for x, y in corners]
        points = [(stops[0][0] + width, stops[0][1])]
        points += [each for x, y in stops[1:-1] for each in ((x, y), (x + width, y))]
        points.append(stops[-1])
    else:
        stops = [(x + width / 2, y) for x, y in corners]
        points = [(stops[0][0], stops[0][1] + height)]
        points += [each for x, y in stops[1:-1] for each in ((x, y), (x, y + height))]
        points.append(stops[-1])
    line = element("path", {"d": _join_points(points, has_columns=has_columns), "class": "arrow"})
    return Markup("").join([line, _head(points[-1], has_columns=has_columns)])


def _join_points(points: Sequence[tuple[float, float]], *, has_columns: bool) -> str:
    """Return the line through the points: curves between boxes, straight past a layer."""
    steps = [f"M{number(points[0][0])} {number(points[0][1])}"]
    for place, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        if place % 2:
            steps.append(f"L{number(x1)} {number(y1)}")
        else:
            bends = ((x0 + x1) / 2, y0, (x0 + x1) / 2, y1) if has_columns else (x0, (y0 + y1) / 2, x1, (y0 + y1) / 2)
            steps.append(f"C{' '.join(map(number, (*bends, x1, y1)))}")
    return "".join(steps)


def _head(tip: tuple[float, float], *, has_columns: bool) -> Markup:
    x, y = tip
    corners = ((x, y), (x - 7, y - 4), (x - 7, y + 4)) if has_columns else ((x, y), (x - 4, y - 7), (x + 4, y - 7))
    points = " ".join(f"{number(a)},{number(b)}" for a, b in corners)
    return element("polygon", {"points": points, "class": "head"})


def _without_cycles(nodes: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return edges between different nodes without those that lead back: labels of jobs may form cycles."""
    after: list[list[int]] = [[] for _ in range(nodes)]
    for start, end in dict.fromkeys(edges):
        if start != end:
            after[start].append(end)
    kept: list[tuple[int, int]] = []
    color = bytearray(nodes)
    for root in range(nodes):
        if color[root]:
            continue
        color[root] = 1
        stack = [(root, iter(after[root]))]
        while stack:
            node, children = stack[-1]
            child = next(children, None)
            if child is None:
                color[node] = 2
                stack.pop()
            elif color[child] != 1:
                kept.append((node, child))
                if not color[child]:
                    color[child] = 1
                    stack.append((child, iter(after[child])))
    return sorted(kept)


def _find_layers(nodes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the length of the longest path to each node."""
    before = [0] * nodes
    after: list[list[int]] = [[] for _ in range(nodes)]
    for start, end in edges:
        after[start].append(end)
        before[end] += 1
    layer = [0] * nodes
    ready = [node for node in range(nodes) if not before[node]]
    while ready:
        node = ready.pop()
        for child in after[node]:
            layer[child] = max(layer[child], layer[node] + 1)
            before[child] -= 1
            if not before[child]:
                ready.append(child)
    return layer


def _order_rows(depth: Sequence[int], links: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Order the nodes of each layer by the mean place of their neighbours, some times to and fro."""
    rows: list[list[int]] = [[] for _ in range(max(depth, default=-1) + 1)]
    for node, layer in enumerate(depth):
        rows[layer].append(node)
    above, below = _neighbours(len(depth), links)
    place = [0.0] * len(depth)
    for row in rows:
        _number_row(row, place)
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            near = above if sweep % 2 == 0 else below
            row.sort(key=lambda node: (_mean([place[each] for each in near[node]], place[node]), place[node]))
            _number_row(row, place)
    return rows


def _number_row(row: Sequence[int], place: list[float]) -> None:
    """Number the nodes of a layer around its middle."""
    for position, node in enumerate(row):
        place[node] = position - (len(row) - 1) / 2


def _find_positions(rows: Sequence[Sequence[int]], links: Sequence[tuple[int, int]], nodes: int) -> list[float]:
    """Move nodes towards their neighbours, without a change of order or an overlap."""
    size = sum(map(len, rows))
    above, below = _neighbours(size, links)
    position = [0.0] * size
    for row in rows:
        _number_row(row, position)
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            near = above if sweep % 2 == 0 else below
            wanted = [_mean([position[each] for each in near[node]], position[node]) for node in row]
            widths = [1.0 if node < nodes else 0.4 for node in row]
            for node, at in zip(row, _spread(wanted, widths), strict=True):
                position[node] = at
    return position


def _spread(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Return positions in order, near the wanted ones, that keep the distance of their widths."""
    placed: list[float] = []
    for at, width in zip(wanted, widths, strict=True):
        least = placed[-1] + (widths[len(placed) - 1] + width) / 2 if placed else at
        placed.append(max(at, least))
    # All moved to one side: shift the row back by the mean.
    shift = _mean([one - other for one, other in zip(placed, wanted, strict=True)], 0.0)
    return [at - shift for at in placed]


def _neighbours(size: int, links: Sequence[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    above: list[list[int]] = [[] for _ in range(size)]
    below: list[list[int]] = [[] for _ in range(size)]
    for start, end in links:
        below[start].append(end)
        above[end].append(start)
    return above, below


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default
