"""LSST's packages read quantum graphs; other files are refused with a message each."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.errors import CycleError, FilesError, GraphError, LongshoreError, Origin
from longshore.graphs import quantum_graph
from longshore.graphs import quantum_graph as thin_graph
from longshore.graphs.quantum_graph import RUN_GRAPH, QuantumGraphRecord, read_quantum_graph, task_graph
from longshore.model.tasks import File

GRAPH = Path(__file__).resolve().parents[1] / "data" / "lsst" / "g1.qg"

# Importing those packages brings warnings about packages of theirs.
pytestmark = pytest.mark.filterwarnings("default")


def test_a_graph_becomes_tasks() -> None:
    record = read_quantum_graph(GRAPH)
    graph = task_graph(record, name="p", file=File(name=RUN_GRAPH, path="g.qg"), origin=Origin("g1.qg"))
    assert len(graph.dag) == 945
    assert sum(map(len, graph.dag.children)) == 1324
    counts = Counter(task.label for task in graph.dag.nodes)
    assert (len(counts), counts["isr"], counts["consolidateTable"]) == (11, 384, 1)
    isr = graph.dag.nodes[0]
    assert (isr.label, isr.data_id["instrument"]) == ("isr", "MockCam")
    assert list(isr.data_id) == ["instrument", "detector", "visit"]
    assert list(isr.implied) == ["band", "day_obs", "physical_filter"]
    assert isinstance(isr.data_id["visit"], int)
    warp = next(task for task in graph.dag.nodes if task.label == "makeWarp")
    assert {"skymap", "tract", "patch", "visit"} <= warp.data_id.keys()


def refused(path: Path) -> LongshoreError:
    with pytest.raises(LongshoreError) as caught:
        read_quantum_graph(path, Origin("run.yaml", 3, 1))
    assert str(caught.value).startswith(f"run.yaml:3:1: '{path}'")
    return caught.value


def test_a_file_that_was_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "g.qg"
    path.write_bytes(GRAPH.read_bytes()[:100_000])
    assert "is damaged: it was cut short" in refused(path).message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("g.qg", b"", "is no quantum graph"),
        ("g.qg", b"tasks: {}\n", "is no quantum graph"),
        ("g.qgraph", b"tasks: {}\n", "cannot be read by lsst-pipe-base"),
        ("g.pickle", b"", "does not end like the name of a quantum graph"),
    ],
)
def test_what_is_no_graph(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    error = refused(path)
    assert words in error.message
    assert error.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    error = refused(tmp_path / "g.qg")
    assert isinstance(error, FilesError)
    assert "No such file" in error.message


def changed(path: Path, name: str, change: Callable[[Any], Any]) -> Path:
    """Copy the graph with one JSON block changed or left out."""
    import zstandard

    with zipfile.ZipFile(GRAPH) as archive, zipfile.ZipFile(path, "w") as copy:
        words = zstandard.ZstdCompressionDict(archive.read("compression_dict"))
        for each in archive.namelist():
            content = archive.read(each)
            if each == f"{name}.json.zst":
                value = change(json.loads(zstandard.ZstdDecompressor(words).decompress(content)))
                if value is None:
                    continue
                content = zstandard.ZstdCompressor(dict_data=words).compress(json.dumps(value).encode())
            copy.writestr(each, content)
    return path


@pytest.mark.parametrize(
    ("block", "change", "words"),
    [
        ("header", lambda header: {**header, "version": 99}, "has format 99; lsst-pipe-base"),
        ("header", lambda header: {**header, "graph_type": "provenance"}, "of the type 'provenance'"),
        ("header", lambda _: None, "is a zip archive, and no quantum graph: it has no header"),
        ("header", lambda _: [1, 2], "is damaged: ValidationError"),
        ("thin_graph", lambda _: None, "is damaged: KeyError"),
        ("thin_graph", lambda graph: {**graph, "edges": [["x", "y"]]}, "is damaged: ValidationError"),
        ("thin_graph", lambda graph: {**graph, "quanta": {"new": graph["quanta"]["isr"]}}, "is damaged: "),
    ],
)
def test_a_file_that_somebody_changed(tmp_path: Path, block: str, change: Callable[[Any], Any], words: str) -> None:
    error = refused(changed(tmp_path / "g.qg", block, change))
    assert isinstance(error, GraphError)
    assert words in error.message


def test_an_edge_to_nowhere(tmp_path: Path) -> None:
    nobody = "00000000-0000-7000-8000-000000000000"

    def more(graph: dict[str, Any]) -> dict[str, Any]:
        return {**graph, "edges": [*graph["edges"], [graph["edges"][0][0], nobody]]}

    path = changed(tmp_path / "g.qg", "thin_graph", more)
    with pytest.raises(GraphError, match=f"leads to nowhere: there is no '{nobody}'") as caught:
        task_graph(read_quantum_graph(path), name="p", file=File(name=RUN_GRAPH, path="g.qg"), origin=Origin(str(path)))
    assert caught.value.origin == Origin(str(path))


def test_a_ring(tmp_path: Path) -> None:
    def turned(graph: dict[str, Any]) -> dict[str, Any]:
        parent, child = graph["edges"][0]
        return {**graph, "edges": [*graph["edges"], [child, parent]]}

    path = changed(tmp_path / "g.qg", "thin_graph", turned)
    with pytest.raises(CycleError) as caught:
        task_graph(read_quantum_graph(path), name="p", file=File(name="f", path="g.qg"), origin=Origin(str(path)))
    first, second, last = caught.value.ring
    assert first == last
    assert {first.partition(" ")[0], second.partition(" ")[0]} == {"isr", "calibrate"}
    assert str(caught.value) == f"{path}: the graph has a cycle: '{first}' -> '{second}' -> '{last}'"


def test_another_version_is_named_with_that_which_is_read(tmp_path: Path) -> None:
    path = changed(tmp_path / "g.qg", "header", lambda header: {**header, "version": 99})
    from lsst.pipe.base.quantum_graph import FORMAT_VERSION

    installed = version("lsst-pipe-base")
    assert str(refused(path)) == (
        f"run.yaml:3:1: '{path}' has format 99; lsst-pipe-base {installed} reads up to {FORMAT_VERSION}\n"
        "Make it with the packages that are installed here, or install newer ones."
    )


def test_a_graph_in_the_older_format_says_how_it_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "g.qgraph"
    path.write_bytes(b"tasks: {}\n")
    assert "pipetask update-graph-run OLD.qgraph OUTPUT_RUN NEW.qg" in refused(path).hint


NO_IMPORT = """
import sys
from pathlib import Path
from longshore.graphs.quantum_graph import read_quantum_graph
read_quantum_graph(Path(sys.argv[1]))
print(any(name.partition(".")[0] == "lsst" for name in sys.modules))
"""


def test_a_file_of_todays_format_is_read_without_the_packages() -> None:
    done = subprocess.run([sys.executable, "-c", NO_IMPORT, GRAPH], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def read_with_library(path: Path) -> QuantumGraphRecord:
    return quantum_graph._read_with_library(path, quantum_graph._Header(version=1), None)


@pytest.mark.parametrize("name", ["g1.qg", "g6.qg"])
def test_the_library_reads_the_same(name: str) -> None:
    path = GRAPH.with_name(name)
    assert read_quantum_graph(path) == read_with_library(path)


@pytest.mark.parametrize(
    ("block", "change"),
    [
        ("pipeline_graph", lambda pipeline: {**pipeline, "version": "0.0.2"}),
        ("pipeline_graph", lambda pipeline: {**pipeline, "dimensions": {**pipeline["dimensions"], "version": 99}}),
    ],
)
def test_a_file_of_another_version_is_left_to_the_library(
    tmp_path: Path, block: str, change: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = changed(tmp_path / "g.qg", block, change)
    left: list[Path] = []
    monkeypatch.setattr(quantum_graph, "_read_with_library", lambda path, *_: left.append(path))
    read_quantum_graph(path)
    assert left == [path]


def known_universes() -> list[Path]:
    from lsst.daf.butler import __file__ as package

    return sorted((Path(package).parent / "configs" / "old_dimensions").glob("daf_butler_universe*.yaml"))


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_dimensions_have_the_order_of_the_library(data: st.DataObject) -> None:
    from lsst.daf.butler import DimensionConfig, DimensionUniverse

    path = data.draw(st.sampled_from(known_universes()))
    universe = DimensionUniverse(DimensionConfig(str(path)))
    names = data.draw(st.sets(st.sampled_from(sorted(universe.dimensions.names)), min_size=1, max_size=6))
    group = universe.conform(names)
    elements = {
        each.name: thin_graph._Element(
            requires=tuple(each.required.names - {each.name}), implies=tuple(each.implied.names)
        )
        for each in universe.elements
        if each.name not in universe.skypix_dimensions.names
    }
    ranks = thin_graph._rank_dimensions(elements)
    found = thin_graph._split_dimensions(data.draw(st.permutations(sorted(group.names))), elements, ranks)
    assert found == (tuple(group.required), tuple(group.implied))


def test_the_newest_universe_was_compared() -> None:
    newest = max(int(path.stem.rpartition("universe")[2]) for path in known_universes())
    assert newest == thin_graph._NEWEST_UNIVERSE
