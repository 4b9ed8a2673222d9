"""Real workflows run to the end, in the right order, with all their outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli

ROOT = Path(__file__).resolve().parents[2]
INSTANCES = [
    *sorted((ROOT / "tests" / "data" / "wfinstances").glob("*.json")),
    ROOT / "tests" / "data" / "wfformat" / "epigenomics-57-001.json",
    ROOT / "doc" / "examples" / "montage" / "montage-2mass-005d.json",
]


def test_all_seven_are_there() -> None:
    assert len(INSTANCES) == 7


@pytest.mark.full
@pytest.mark.parametrize("instance", INSTANCES, ids=lambda path: path.stem)
def test_an_instance_runs_in_order_with_all_outputs(cli: Cli, tmp_path: Path, instance: Path) -> None:
    yaml = f"wfformat: {instance}\nreplay: {{timeScale: 0, outputScale: 0.000001}}\nrequestMemory: 20\n"
    (tmp_path / "run.yaml").write_text(yaml, "utf-8")
    ran = cli("submit", "run.yaml", "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    tasks = json.loads(instance.read_text("utf-8"))["workflow"]["specification"]["tasks"]
    run = Path(ran.json["submit_dir"])
    report = cli("report", run, "--json").json["runs"][0]
    assert report["counts"]["SUCCEEDED"] == report["expected"] == len(tasks)
    _check_order(report["jobs"], tasks)
    made = {name.lstrip("/") for task in tasks for name in task.get("outputFiles", [])}
    missing = [name for name in made if not (run / "data" / name).is_file()]
    assert not missing


def _check_order(jobs: list[dict[str, Any]], tasks: list[dict[str, Any]]) -> None:
    """No job began before all its parents had ended, on the one clock of this machine."""
    times = {job["name"]: (job["started_at"], job["finished_at"]) for job in jobs}
    for task in tasks:
        for parent in task["parents"]:
            assert times[parent][1] <= times[task["id"]][0], f"{task['id']} began before {parent} ended"
