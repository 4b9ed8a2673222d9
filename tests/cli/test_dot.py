"""Pictures in the languages of Graphviz and Mermaid."""

from __future__ import annotations

import pytest

from longshore.cli.exports import box_lines, to_dot, to_mermaid
from longshore.model.report import Drawing, DrawingEdge, DrawingNode
from longshore.model.states import JobState

PICTURE = Drawing(
    title='run "x"',
    boxes=(
        DrawingNode(name="isr", label="isr", jobs=1200, counts={JobState.SUCCEEDED: 1199, JobState.FAILED: 1}),
        DrawingNode(name="coadd_7", label="coadd", counts={JobState.PRUNED: 1}, here=True),
        DrawingNode(name="88 more", label="coadd", jobs=88, more=True),
    ),
    arrows=(DrawingEdge(start=0, end=1), DrawingEdge(start=0, end=2, jobs=1088)),
)


def test_graphviz() -> None:
    assert to_dot(PICTURE).splitlines() == [
        "digraph longshore {",
        r'  label="run \"x\""; labelloc=t; rankdir=TB;',
        '  node [shape=box, style="rounded,filled", fontname="Helvetica", fillcolor="#ffffff"];',
        r'  n0 [label="isr\n1,200 jobs\n1,199 succeeded, 1 failed", fillcolor="#f4b6b6"];',
        r'  n1 [label="coadd_7\ncoadd\npruned", fillcolor="#e6dcef", penwidth=3];',
        r'  n2 [label="88 more\ncoadd", style="rounded,dashed"];',
        "  n0 -> n1;",
        '  n0 -> n2 [label="1,088"];',
        "}",
    ]


def test_mermaid() -> None:
    assert to_mermaid(PICTURE).splitlines() == [
        "flowchart TD",
        '  n0["isr<br/>1,200 jobs<br/>1,199 succeeded, 1 failed"]',
        "  style n0 fill:#f4b6b6",
        '  n1["coadd_7<br/>coadd<br/>pruned"]',
        "  style n1 fill:#e6dcef,stroke-width:3px",
        '  n2["88 more<br/>coadd"]',
        "  n0 --> n1",
        "  n0 -->|1088| n2",
    ]


@pytest.mark.parametrize(
    ("box", "lines", "colour"),
    [
        (
            DrawingNode(name="a", label="a", jobs=2, counts={JobState.SUCCEEDED: 2}),
            ["a", "2 jobs", "succeeded"],
            "#c4e6c0",
        ),
        (DrawingNode(name="a", label="a", jobs=2, counts={JobState.READY: 2}), ["a", "2 jobs", "ready"], "#ffffff"),
        (DrawingNode(name="a", label="a", counts={JobState.RUNNING: 1}), ["a", "1 job", "running"], "#b9d7f5"),
        (DrawingNode(name="a", label="a"), ["a", "1 job"], "#ffffff"),
    ],
)
def test_boxes(box: DrawingNode, lines: list[str], colour: str) -> None:
    assert box_lines(box) == lines
    assert colour in to_dot(Drawing(title="", boxes=(box,), arrows=()))


def test_names_of_any_kind_stay_within_their_boxes() -> None:
    box = DrawingNode(name='a"]\n--> n9["\\', label="l")
    assert '"a#34;#93;#10;--#62; n9#91;#34;#92;<br/>l"' in to_mermaid(Drawing(title="", boxes=(box,), arrows=()))
    assert r'label="a\"] --> n9[\"\\\nl"' in to_dot(Drawing(title="", boxes=(box,), arrows=()))
