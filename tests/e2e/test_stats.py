"""`stats` of real runs: names of runs and labels, a failed attempt, several runs, and bad input."""

from __future__ import annotations

from pathlib import Path

from tests.command import Cli
from tests.workflows import Tasks, WriteRun, in_place

TASKS: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("B", [])}
TEXT = (
    "pipetask: {B: {runQuantumCommand: 'test $LONGSHORE_JOB_ATTEMPT -gt 1 || exit 3', numberOfRetries: 1}}\n"
    "runQuantumCommand: 'true'\nrequestMemory: 100\n"
)


def test_statistics_of_runs_that_ran(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run(TEXT, TASKS)
    ids = [cli("submit", path, "--wait", "--json", *in_place(number)).json["id"] for number in (1, 2)]

    (run,) = cli("stats", "@last", "--json").json["runs"]
    labels = {entry["label"]: entry["statistics"] for entry in run["labels"]}
    assert (run["id"], list(labels)) == (ids[1], ["A", "B"])
    b = labels["B"]
    assert (b["jobs"], b["attempts"], b["succeeded"], b["retries"], b["badput"]["attempts"]) == (2, 4, 2, 2, 2)
    assert b["badput_causes"].keys() == {"EXIT"}
    assert b["run_s"]["known"] == b["wait_s"]["known"] - 2 == 2
    assert [entry["statistics"]["attempts"] for entry in run["hosts"]] == [5]

    both = cli("stats", *ids)
    assert both.returncode == 0, both.stderr
    assert all(identity in both.stdout for identity in ids)
    one = cli("stats", "B", "--json").json
    assert (one["selected_labels"], [entry["label"] for entry in one["runs"][0]["labels"]]) == (["B"], ["B"])
    assert one["runs"][0]["total"]["attempts"] == 4
    assert cli("stats", ids[0], "--label", "B", "--csv").stdout.count("\n") == 4


def test_names_that_mean_nothing_are_errors(cli: Cli, write_run: WriteRun) -> None:
    none = cli("stats", "B")
    assert (none.returncode, "'B'" in none.stderr) == (5, True)
    assert cli("submit", write_run(TEXT, TASKS), "--wait").returncode == 0
    for words in (("@last", "Bb"), ("Bb",)):
        unknown = cli("stats", *words)
        assert (unknown.returncode, "neither a run nor a label of run" in unknown.stderr) == (5, True)
        assert "Did you mean 'B'?" in unknown.stderr
    assert "Its labels: 'A', 'B'." in cli("suggest-resources", "calibrate").stderr
    assert "Did you mean '@last'?" in cli("stats", "@lst").stderr
    label = cli("stats", "@last", "--label", "Bb")
    assert (label.returncode, "there is no label 'Bb'" in label.stderr) == (5, True)
    assert cli("stats", "@last", "--csv", "--json").returncode == 2
    (run,) = cli("report", "@last", "--json").json["runs"]
    Path(run["path"]).rename(f"{run['path']}-moved")
    assert "there is no run directory" in cli("stats", run["id"]).stderr
    assert cli("stats").returncode == 2
