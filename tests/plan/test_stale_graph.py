"""A quantum graph that stays is compared with the command that would make it now."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.progress_notes import ProgressNotes

from longshore.plan.quantum_graph import has_other_command
from longshore.plan.resolved_run import ResolvedRun, resolve_run

TEXT = "wmsServiceClass: local\nsubmitPath: run\ncreateQuantumGraph: make {qgraphFile} {options}\noptions: "


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    return tmp_path


def resolved(options: str) -> ResolvedRun:
    Path("run.yaml").write_text(TEXT + options, "utf-8")
    return resolve_run(Path("run.yaml"), now=0.0, progress=ProgressNotes())


def test_another_command_is_found(folder: Path) -> None:
    graph = folder / "run" / "g.qg"
    output = graph.with_name("quantumGraphGeneration.out")
    assert not has_other_command(resolved("-d 1"), graph, made_in=folder / "run"), "no command made it"
    output.write_text(f"make {graph} -d 1\n\nits output\n", "utf-8")
    assert not has_other_command(resolved("-d 1"), graph, made_in=folder / "run")
    assert has_other_command(resolved("-d 2"), graph, made_in=folder / "run")
    assert has_other_command(resolved("'\"'"), graph, made_in=folder / "run"), "a command that cannot be read"


def test_the_place_of_a_run_that_moved_is_no_other_command(folder: Path) -> None:
    graph = folder / "run" / "submissions" / "0002" / "g.qg"
    graph.parent.mkdir(parents=True)
    graph.with_name("quantumGraphGeneration.out").write_text("make /then/submissions/0002/g.qg -d 1\n", "utf-8")
    assert not has_other_command(resolved("-d 1"), graph, made_in=Path("/then"))
    assert has_other_command(resolved("-d 1"), graph, made_in=Path("/elsewhere"))
