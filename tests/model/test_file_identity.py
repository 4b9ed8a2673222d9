"""Which paths name one file: by the links of folders on this host, or by the text alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from longshore.errors import CycleError
from longshore.model.file_identity import (
    FEW,
    FileIdentity,
    PathFolders,
    external_files,
    one_spelling,
    same_files,
    with_one_path,
)
from longshore.model.tasks import Dag, File, Task, TaskGraph
from longshore.system.links import DiskLinks


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with links to folders, to a file, to nothing and to themselves."""
    here = tmp_path / "here"
    (here / "out" / "deep").mkdir(parents=True)
    (here / "sub").mkdir()
    (here / "out" / "x").write_text("x")
    (here / "link").symlink_to("out")
    (here / "whole").symlink_to(here / "out")
    (here / "sub" / "up").symlink_to("../out/deep")
    (here / "file").symlink_to("out/x")
    (here / "nowhere").symlink_to("absent/folder")
    (here / "loop").symlink_to("loop")
    return here


def spellings(here: Path) -> list[str]:
    """Return paths of ``out/x``."""
    return [
        "out/x",
        "./out//x",
        f"{here}/out/x",
        f"{here}/./out/../out/x",
        "../here/out/x",
        "link/x",
        "whole/x",
        "sub/up/../x",
        f"//{here}/link/x",
        "absent/../out/x",
    ]


def test_the_paths_of_a_file_have_one_identity(here: Path) -> None:
    identity = FileIdentity(str(here), DiskLinks())
    assert {path: identity.of(path) for path in spellings(here)} == dict.fromkeys(spellings(here), f"{here}/out/x")
    assert identity.of("link") == identity.of("out") == identity.of("sub/../whole/") == f"{here}/out"
    assert identity.of("file") == f"{here}/file", "a program may replace a link of a file"
    assert identity.of("nowhere/x") == f"{here}/absent/folder/x"
    assert identity.of("loop/x") == f"{here}/loop/x"
    assert (identity.of("."), identity.of(".."), identity.of("/")) == (str(here), str(here.parent), "/")
    assert identity.of("s3://bucket//x/../y") == "s3://bucket//x/../y"


def test_without_a_shared_file_system_the_text_decides(here: Path) -> None:
    identity = FileIdentity(str(here))
    assert identity.of("link/x") == f"{here}/link/x"
    assert {identity.of(path) for path in spellings(here)[:5]} == {f"{here}/out/x"}
    unknown = FileIdentity()
    assert [unknown.of(path) for path in ("./a//b", "../a", ".", "..", "a/../b", "/a")] == [
        "a/b",
        "../a",
        ".",
        "..",
        "b",
        "/a",
    ]


def test_links_are_found_among_many_names(here: Path) -> None:
    paths = [f"{number}/x" for number in range(3 * FEW)]
    for number in range(3 * FEW):
        (here / f"{number}").mkdir()
    (here / "last").symlink_to("7")
    identity = FileIdentity(str(here), DiskLinks())
    assert [identity.of(path) for path in (*paths, "last/x")] == [f"{here}/{path}" for path in (*paths, "7/x")]
    folders = PathFolders(identity)
    folders.add((paths,))
    assert not folders.may_have_two()
    folders.add((("last/x",),))
    assert folders.may_have_two()
    names = PathFolders(FileIdentity(str(here), DiskLinks()))
    names.add_folders([""])
    assert names.may_have_two(), "one of the many names may be the link"


def test_a_file_keeps_its_first_path(here: Path) -> None:
    identity = FileIdentity(str(here), DiskLinks())
    assert one_spelling(["link/x", "out/x", "y", "link/../out/z", "s3://x"], identity) == {
        "out/x": "link/x",
        "link/../out/z": "out/z",
    }


def graph(files: dict[str, str], tasks: dict[str, tuple[tuple[str, ...], tuple[str, ...]]]) -> TaskGraph:
    """Return a graph without edges, of the inputs and outputs of each task."""
    return TaskGraph(
        name="g",
        dag=Dag([Task(name=name, label=name, inputs=read, outputs=made) for name, (read, made) in tasks.items()]),
        files={name: File(name=name, path=path) for name, path in files.items()},
    )


def test_a_task_waits_for_the_maker_of_its_input_by_another_path(here: Path) -> None:
    found = with_one_path(
        graph(
            {
                "new": f"{here}/out/x",
                "old": f"{here}/link/x",
                "part": f"{here}/whole/deep/y",
                "deep": f"{here}/out/deep",
            },
            {"read": (("old", "part"), ()), "make": ((), ("new",)), "fill": (("part",), ("deep",))},
        ),
        FileIdentity("/run", DiskLinks()),
    )
    assert list(found.dag.edges()) == [(1, 0), (2, 0)]
    assert [task.inputs for task in found.dag.nodes] == [("new", "part"), (), ("part",)]
    # A command may still name the file by its own name.
    assert (found.files["old"].path, found.files["old"].part_of) == (f"{here}/out/x", "new")
    assert found.files["part"].part_of == "deep"
    assert external_files(found.files, {"new", "deep"}) == {}


def test_edges_that_a_graph_has_stay(here: Path) -> None:
    identity = FileIdentity("/run", DiskLinks())
    one = graph({"x": f"{here}/x", "y": f"{here}/y"}, {"a": (("x",), ("y",)), "b": (("y",), ())})
    assert with_one_path(one, identity) is one
    before = graph({"x": f"{here}/out/x", "y": f"{here}/link/x"}, {"a": (("y",), ()), "b": ((), ("x",))})
    ordered = TaskGraph(name="g", dag=Dag(before.dag.nodes, [(0, 1)]), files=before.files)
    assert list(with_one_path(ordered, identity).dag.edges()) == [(0, 1)], "it reads what is there before"
    both = graph(
        {"x": f"{here}/out/x", "x2": f"{here}/link/x", "y": f"{here}/out/y", "y2": f"{here}/link/y"},
        {"a": (("y2",), ("x",)), "b": (("x2",), ("y",))},
    )
    with pytest.raises(CycleError):
        with_one_path(both, identity)


def test_files_of_one_path_are_found(here: Path) -> None:
    files = {
        name: File(name=name, path=path) for name, path in {"a": "x", "b": f"{here}/x", "c": "y", "d": "x"}.items()
    }
    assert same_files(files, FileIdentity(str(here))) == {"b": "a", "d": "a"}
    assert os.path.realpath(here) == str(here), "the folder of the test has no links"
