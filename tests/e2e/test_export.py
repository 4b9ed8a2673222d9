"""`export` of real runs: to files and to the standard output, and bad input."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.command import Cli
from tests.workflows import Tasks, WriteRun

TASKS: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("B", [])}
TEXT = (
    "pipetask: {B: {runQuantumCommand: 'test $LONGSHORE_JOB_ATTEMPT -gt 1 || exit 3', numberOfRetries: 1}}\n"
    "runQuantumCommand: 'true'\nrequestMemory: 100\n"
)


def test_a_run_that_ran_is_exported(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    assert cli("submit", write_run(TEXT, TASKS), "--wait").returncode == 0
    printed = cli("export", "@last", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert [(row["job"], row["attempt"], row["cause"]) for row in rows] == [
        ("a", "1", ""),
        ("c", "1", "EXIT"),
        ("c", "2", ""),
        ("b", "1", "EXIT"),
        ("b", "2", ""),
    ]
    assert {row["requested_memory_b"] for row in rows} == {str(100 << 20)}

    path = tmp_path / "attempts.csv"
    written = cli("export", "@last", "--format", "csv", "--output", path)
    assert (written.returncode, written.stdout, str(path) in written.stderr) == (0, "", True)
    assert path.read_text("utf-8") == printed.stdout

    metrics = cli("export", "@last", "--format", "openmetrics", "--output", "-").stdout
    parsed = text_string_to_metric_families(metrics)  # type: ignore[no-untyped-call]
    families = {family.name: family.samples for family in parsed}
    assert {sample.labels["label"]: sample.value for sample in families["longshore_retries"]} == {"A": 0, "B": 2}


def test_bad_input_is_explained(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    unknown = cli("export", "nosuch", "--format", "csv")
    assert (unknown.returncode, "'nosuch'" in unknown.stderr) == (5, True)
    assert cli("submit", write_run(TEXT, TASKS), "--wait").returncode == 0
    form = cli("export", "@last", "--format", "xml")
    assert (form.returncode, "'xml'" in form.stderr) == (2, True)
    folder = cli("export", "@last", "--format", "csv", "--output", tmp_path)
    assert folder.returncode != 0
    assert "is a directory" in folder.stderr
    missing = cli("export", "@last", "--format", "csv", "--output", tmp_path / "no" / "a.csv")
    assert "mkdir -p" in missing.stderr
