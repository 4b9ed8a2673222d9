"""The real BPS and Longshore make the same of a configuration, but for what the page on differences names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.bps.beside import Beside
from tests.bps.compare import Value, compare
from tests.bps.configurations import configurations, searches_of
from tests.bps.corpus import COMMON, corpus
from tests.bps.documented import DOCUMENTED, Files, rows_of_page
from tests.bps.shapes import SHAPES, random_shapes
from tests.bps.tally import Tally
from tests.depth import DEPTH, examples

pytestmark = [pytest.mark.bps, pytest.mark.timeout(1800)]

CASES: Final = examples(40)
RANDOM_SHAPES: Final = 40 if DEPTH == "night" else 4
NO_VALUE: Final = {"value": ""}
"""What a missing key is to a configuration of BPS; Longshore has more defaults, empty ones too."""
# A case runs in a process that serves all: to try smaller ones again costs more than it tells.
LIMITS = settings(
    max_examples=CASES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def told(unexplained: Iterable[Value], files: Files) -> str:
    """Return what differs, for people, with the case."""
    lines = [f"{each.kind} {each.place}\n    BPS:  {each.bps!r}\n    ours: {each.ours!r}" for each in unexplained]
    return "\n".join([*lines[:20], *(f"--- {name}\n{text}" for name, text in files.items())])


def held(beside: Beside, tally: Tally, files: Files, graph: Path) -> None:
    """Compare a case, and fail with what differs and has no row."""
    unexplained = tally.take(compare(*beside.transform(files, graph)), files)
    assert not unexplained, told(unexplained, files)


@LIMITS
@given(st.data())
def test_generated_configurations(beside: Beside, tally: Tally, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(sorted(SHAPES)))
    files = data.draw(configurations([task["label"] for task in SHAPES[shape]]))
    held(beside, tally, files, beside.graph(shape, SHAPES[shape]))


@LIMITS
@given(st.data())
def test_searches_in_generated_configurations(beside: Beside, tally: Tally, data: st.DataObject) -> None:
    files = data.draw(configurations([task["label"] for task in SHAPES["chain"]]))
    searches = searches_of(files)
    bps, ours = beside.search(files, searches, beside.graph("chain", SHAPES["chain"]))
    values = [
        Value(
            kind="searches", place=f"{search['key']} {search['current']}", bps=theirs or NO_VALUE, ours=own or NO_VALUE
        )
        for search, theirs, own in zip(searches, bps, ours, strict=True)
    ]
    unexplained = tally.take(values, files)
    assert not unexplained, told(unexplained, files)


@pytest.mark.parametrize(("name", "tasks"), list(random_shapes(RANDOM_SHAPES)))
def test_shapes_by_chance(beside: Beside, tally: Tally, name: str, tasks: list[dict[str, object]]) -> None:
    graph = beside.graph(name, tasks)
    held(beside, tally, {"run.yaml": COMMON}, graph)
    labels = ", ".join(str(task["label"]) for task in tasks)
    clusters = {"clusterAlgorithm": "lsst.ctrl.bps.quantum_clustering_funcs.dimension_clustering"}
    clusters["cluster"] = {"all": {"pipetasks": labels}}  # type: ignore[assignment]
    held(beside, tally, {"run.yaml": COMMON + yaml.safe_dump(clusters)}, graph)


@pytest.mark.parametrize("shape", sorted(SHAPES))
def test_every_shape_as_it_is(beside: Beside, tally: Tally, shape: str) -> None:
    held(beside, tally, {"run.yaml": COMMON}, beside.graph(shape, SHAPES[shape]))


@pytest.mark.parametrize(("name", "files"), list(corpus()), ids=lambda each: each if isinstance(each, str) else "")
def test_configurations_as_people_write_them(beside: Beside, tally: Tally, name: str, files: dict[str, str]) -> None:
    held(beside, tally, files, beside.graph("chain", SHAPES["chain"]))


@pytest.mark.parametrize("each", DOCUMENTED, ids=lambda each: each.row)
def test_every_difference_has_its_row_on_the_page(each: object) -> None:
    assert each.row in rows_of_page()  # type: ignore[attr-defined]
