"""`suggest-resources` writes requests that a second run meets without retries, and that take effect."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.command import Cli
from tests.workflows import Tasks, WriteRun

ROOT = Path(__file__).resolve().parents[2]
INSTANCES = ROOT / "tests" / "data" / "wfinstances"


def total(cli: Cli, run: str) -> Any:
    return cli("stats", run, "--json").json["runs"][0]["total"]


def attempts_of(cli: Cli, run: str) -> list[dict[str, str]]:
    return list(csv.DictReader(cli("export", run, "--format", "csv").stdout.splitlines()))


def memory_b_s(attempt: dict[str, str]) -> float:
    """Requested memory times run time of an attempt."""
    return float(attempt["run_s"]) * int(attempt["requested_memory_b"])


def run_of(cli: Cli, path: str) -> str:
    ran = cli("submit", path, "--wait", "--json", timeout=300)
    assert ran.returncode == 0, ran.stderr
    identity: str = ran.json["id"]
    return identity


@pytest.mark.full
@pytest.mark.parametrize(
    ("instance", "time_scale", "request_mib"),
    [("srasearch-chameleon-10a-001", 0.002, 60), ("bacass-dirt02-001", 0.001, 200)],
)
def test_a_second_run_of_an_instance_has_no_retries(
    instance: str, time_scale: float, request_mib: int, cli: Cli, tmp_path: Path
) -> None:
    """The first run asks for too little for some labels, and for too much for the others."""
    (tmp_path / "run.yaml").write_text(
        f"wfformat: {INSTANCES / instance}.json\n"
        f"replay: {{timeScale: {time_scale}, memoryScale: 0.4, outputScale: 0.000001}}\n"
        f"requestMemory: {request_mib}\n",
        "utf-8",
    )
    first = run_of(cli, "run.yaml")
    before = total(cli, first)
    assert before["retries"] == before["badput"]["attempts"] > 0
    assert before["badput_causes"].keys() == {"OOM"}
    told = cli("suggest-resources", first, "--over", "run.yaml", "--output", "tuned.yaml", "--json").json
    assert (told["expected_retries"], told["avoided_retries"]) == (0, before["retries"])
    second = run_of(cli, "tuned.yaml")
    after = total(cli, second)
    assert (after["retries"], after["badput"]["attempts"]) == (0, 0)
    saved_s = before["badput"]["core_s"] - after["badput"]["core_s"]
    assert saved_s == before["badput"]["core_s"] > 0.0
    attempts, tuned = attempts_of(cli, first), attempts_of(cli, second)
    taken = sum(map(memory_b_s, attempts))
    # The run times are those of the first run: the machine has other things to do in the second.
    run_s = {row["job"]: float(row["run_s"]) for row in attempts if row["state"] == "SUCCEEDED"}
    needed = sum(run_s[row["job"]] * int(row["requested_memory_b"]) for row in tuned)
    assert told["saved_memory_b_s"] == pytest.approx(taken - needed, rel=0.01, abs=taken * 0.001)


TASKS: Tasks = {"a": ("A", []), "b": ("B", ["a"])}


def test_the_yaml_takes_effect_where_it_is_included(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    command = """python3 -c "bytearray(40_000_000)"; sleep 0.5"""
    write_run(f"runQuantumCommand: '{command}'\npipetask: {{B: {{requestMemory: 3000}}}}\n", TASKS)
    first = run_of(cli, "run.yaml")
    told = cli("suggest-resources", first)
    assert told.returncode == 0, told.stderr
    wanted = yaml.safe_load(told.stdout)["pipetask"]
    assert wanted["A"]["requestMemory"] < 2048
    assert "run.yaml:3:31 sets requestMemory itself" in told.stdout

    (tmp_path / "tuned.yaml").write_text(told.stdout, "utf-8")
    text = (tmp_path / "run.yaml").read_text("utf-8")
    (tmp_path / "including.yaml").write_text(f"includeConfigs: tuned.yaml\n{text}", "utf-8")
    assert cli("suggest-resources", first, "--over", "run.yaml", "--output", "over.yaml").returncode == 0
    for path, expected in (
        ("including.yaml", {"A": wanted["A"]["requestMemory"], "B": 3000}),
        ("over.yaml", {label: wanted[label]["requestMemory"] for label in ("A", "B")}),
    ):
        for label, memory in expected.items():
            found = cli("config", "explain", path, "requestMemory", "--label", label, "--json").json
            assert found["values"]["requestMemory"]["value"] == memory


def test_bad_input(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    first = run_of(cli, str(write_run("runQuantumCommand: 'true'\n", TASKS)))
    (tmp_path / "there.yaml").write_text("mine", "utf-8")
    refused = cli("suggest-resources", first, "--output", "there.yaml")
    assert "'there.yaml' exists already" in refused.stderr
    assert (tmp_path / "there.yaml").read_text("utf-8") == "mine"
    assert "mkdir -p no/such" in cli("suggest-resources", first, "--output", "no/such/place.yaml").stderr
    assert cli("suggest-resources", first, "--margin", "0.5").returncode == 2
    assert "# No request is to be changed." in cli("suggest-resources", first).stdout
    assert "'Z'" in cli("suggest-resources", first, "Z").stderr
    assert not (tmp_path / "no").exists()
