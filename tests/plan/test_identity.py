"""What a payload is known by from run to run."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.plan.configuration import payload_identity, read_draft


def identity(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch, *, name: str = "run.yaml") -> str:
    folder.mkdir(exist_ok=True, parents=True)
    for pipeline in ("pipe.yaml", "other.yaml"):
        (folder / pipeline).write_text("tasks: {}\n", "utf-8")
    (folder / name).write_text(text, "utf-8")
    monkeypatch.chdir(folder)
    return payload_identity(read_draft(folder / name, now=0.0))


NAMED = "payload: {payloadName: mosaic}\npipelineYaml: pipe.yaml\n"


def test_a_name_holds_wherever_the_files_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = (identity(tmp_path / name, NAMED, monkeypatch) for name in ("here", "there"))
    assert here == there == "/mosaic/pipe.yaml"


def test_without_a_name_the_path_of_the_pipeline_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "pipelineYaml: pipe.yaml#isr,wcs\n"
    here, there = (identity(tmp_path / name, text, monkeypatch) for name in ("here", "there"))
    assert here != there
    assert here.endswith(f"{tmp_path / 'here' / 'pipe.yaml'}/isr,wcs")


@pytest.mark.parametrize(
    "other",
    [
        NAMED.replace("mosaic", "survey"),
        NAMED.replace("pipe.yaml", "other.yaml"),
        NAMED.replace("pipe.yaml", "'pipe.yaml#isr'"),
        f"project: night\n{NAMED}",
    ],
)
def test_two_pipelines_with_one_label_do_not_mix(other: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert identity(tmp_path, NAMED, monkeypatch) != identity(tmp_path, other, monkeypatch)


def test_a_pipeline_in_the_users_own_file_is_known_by_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "pipeline: {tasks: {measure: {command: 'true'}}}\n"
    first, second = (identity(tmp_path, text, monkeypatch, name=name) for name in ("a.yaml", "b.yaml"))
    assert first.endswith(str(tmp_path / "a.yaml"))
    assert second.endswith(str(tmp_path / "b.yaml"))
