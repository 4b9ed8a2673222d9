"""Tasks of a pipeline wait for the makers of their files, whatever the paths by which they name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from longshore.config.merge import to_node
from longshore.errors import GraphError, Origin
from longshore.graphs.pipeline import Pipeline, PipelineSettings, read_pipeline
from longshore.model.file_identity import FEW, FileIdentity
from longshore.system.links import DiskLinks


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with links."""
    (tmp_path / "here" / "out").mkdir(parents=True)
    (tmp_path / "here" / "link").symlink_to("out")
    return tmp_path / "here"


def build(here: Path, tasks: dict[str, Any], dimensions: dict[str, Any] | None = None) -> Pipeline:
    node = to_node({"dimensions": dimensions or {}, "tasks": tasks}, Origin("p.yaml", 1, 1))
    settings = PipelineSettings(directory=str(here), identity=FileIdentity(str(here), DiskLinks()))
    return read_pipeline(node, {}, settings)


def edges(pipeline: Pipeline) -> list[tuple[str, str]]:
    names = [task.name for task in pipeline.graph.dag.nodes]
    return [(names[one], names[other]) for one, other in pipeline.graph.dag.edges()]


@pytest.mark.parametrize(
    ("made", "read"),
    [
        ("out/x", "{here}/out/x"),
        ("{here}/out/x", "out/x"),
        ("out/x", "../here/out/x"),
        ("out/x", "./out//x"),
        ("out/x", "link/x"),
        ("{here}/link/x", "out/x"),
        ("out/x", "link/../out/x"),
        ("out/x", "absent/../out/./x"),
    ],
)
def test_a_file_by_two_paths(here: Path, made: str, read: str) -> None:
    made, read = made.replace("{here}", str(here)), read.replace("{here}", str(here))
    pipeline = build(
        here,
        {
            "b": {"command": "cat {x2} > {y}", "inputs": {"x2": read}, "outputs": {"y": "y"}},
            "a": {"command": "echo > {x}", "outputs": {"x": made}},
        },
    )
    assert edges(pipeline) == [("a", "b")]
    assert pipeline.external == []
    assert len(pipeline.graph.files) == 2
    with pytest.raises(GraphError, match="'a' and 'b' both write the file") as raised:
        build(
            here, {name: {"command": "c", "outputs": {f"{name}x": path}} for name, path in (("a", made), ("b", read))}
        )
    assert "names the same file" in raised.value.hint or "./" in read


def test_a_file_in_a_folder_that_a_task_makes(here: Path) -> None:
    pipeline = build(
        here,
        {
            "fill": {"command": "c", "outputs": {"folder": "out/all"}, "inputs": {"own": "out/all/begin"}},
            "read": {"command": "c", "inputs": {"part": "link/all/deep/part"}},
            "other": {"command": "c", "inputs": {"alone": "out/alone"}},
        },
    )
    assert edges(pipeline) == [("fill", "read")]
    assert [[*external.paths] for external in pipeline.external] == [["out/alone"]]
    assert {name: file.part_of for name, file in pipeline.graph.files.items() if file.part_of} == {
        "out/all/begin": "out/all",
        "link/all/deep/part": "out/all",
    }
    (here / "way").symlink_to("out/all")
    with pytest.raises(GraphError, match="the file 'out/all' is in the way of 'link/all/x'"):
        build(
            here,
            {"a": {"command": "c", "outputs": {"o": "out/all"}}, "b": {"command": "c", "outputs": {"p": "link/all/x"}}},
        )


def test_one_of_many_folders_is_a_link(here: Path) -> None:
    for number in range(FEW * 2):
        (here / "many" / f"{number}").mkdir(parents=True)
    (here / "many" / "0").rmdir()
    (here / "many" / "0").symlink_to("1")
    tasks = {"make": {"command": "c", "dimensions": ["n"], "outputs": {"x": "many/{n}/x"}}}
    with pytest.raises(GraphError, match=r"'make_0' and 'make_1' both write the file 'many/0/x'"):
        build(here, tasks, {"n": {"range": [0, FEW * 2 - 1]}})
    named = {"make": {"command": "c", "dimensions": ["n"], "outputs": {"x": "many/{n}"}}}
    with pytest.raises(GraphError, match=r"'make_0' and 'make_1' both write the file 'many/0'"):
        build(here, named, {"n": {"range": [0, FEW * 2 - 1]}})


def test_where_jobs_do_not_see_this_host_links_mean_nothing(here: Path) -> None:
    tasks = {"a": {"command": "c", "outputs": {"x": "out/x"}}, "b": {"command": "c", "inputs": {"y": "link/x"}}}
    settings = PipelineSettings(directory=str(here), identity=FileIdentity(str(here)))
    pipeline = read_pipeline(to_node({"tasks": tasks}, Origin("p.yaml", 1, 1)), {}, settings)
    assert edges(pipeline) == []
