"""Keys of LSF in runs on other services."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import ONE, wfformat


def write_run(folder: Path, text: str) -> Path:
    (folder / "run.json").write_text(json.dumps(wfformat(ONE)), "utf-8")
    path = folder / "run.yaml"
    path.write_text(f"{text}wmsServiceClass: local\nwfformat: run.json\nrunQuantumCommand: 'true'\n", "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("bsub: ['-P x']\n", 1, "bsub"),
        ("bsub: -P x\n", 1, "bsub"),
        ("pipetask:\n  A:\n    bsub: ['-P x']\n", 3, "pipetask.A.bsub"),
        ("site:\n  here:\n    wmsServiceClass: local\n    bsub: ['-P x']\ncomputeSite: here\n", 4, "site.here.bsub"),
    ],
)
def test_options_of_bsub_are_an_error_on_another_service(
    cli: Cli, tmp_path: Path, text: str, line: int, key: str
) -> None:
    path = write_run(tmp_path, text)
    ran = cli("submit", path)
    assert ran.returncode == 3
    assert f"{path.name}:{line}:" in ran.stderr
    assert f"'{key}' is for the service 'lsf', and this run's is 'local'" in ran.stderr


@pytest.mark.parametrize(
    "text",
    [
        "site:\n  there:\n    wmsServiceClass: lsf\n    bsub: ['-P x']\n",
        "bsub: null\n",
        "lsf: {bsub: ['-P x']}\n",
    ],
)
def test_sections_that_the_run_does_not_use_may_have_options_of_bsub(cli: Cli, tmp_path: Path, text: str) -> None:
    assert cli("config", "lint", write_run(tmp_path, text)).returncode == 0
