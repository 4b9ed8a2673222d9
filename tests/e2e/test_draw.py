"""`draw`: a run's labels, what is near a job, what a configuration would come to; bad input is told."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.command import Cli
from tests.workflows import Tasks, WriteRun

FAN: Tasks = {"a": ("A", []), **{f"b{number}": ("B", ["a"]) for number in range(20)}, "c": ("C", ["b0", "b1"])}
TEXT = "runQuantumCommand: 'test $LONGSHORE_JOB_NAME != b1'\nrequestMemory: 10\nnumberOfRetries: 0\n"


def test_a_run_and_its_file_are_drawn(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run(TEXT + "finalJob: {whenRun: ALWAYS, command1: 'true'}\n", FAN).name
    planned = cli("draw", path, "--json").json
    assert [(box["name"], box["jobs"], box["counts"]) for box in planned["boxes"]] == [
        ("A", 1, {}),
        ("B", 20, {}),
        ("C", 1, {}),
        ("finalJob", 1, {}),
    ]
    arrows = [(0, 1, 20), (1, 2, 2), (1, 3, 18), (2, 3, 1)]
    assert planned["arrows"] == [{"start": start, "end": end, "jobs": jobs} for start, end, jobs in arrows]
    assert cli("submit", path, "--wait").returncode != 0
    drawn = cli("draw", "@last", "--json").json
    assert drawn["arrows"] == planned["arrows"]
    assert {box["name"]: box["counts"] for box in drawn["boxes"]} == {
        "A": {"SUCCEEDED": 1},
        "B": {"SUCCEEDED": 19, "FAILED": 1},
        "C": {"PRUNED": 1},
        "finalJob": {"SUCCEEDED": 1},
    }
    assert {"start": 1, "end": 3, "jobs": 18} in drawn["arrows"], "the final job waits for all that nobody waits for"
    near = cli("draw", "@last", "--job", "a", "--json").json
    assert [box["name"] for box in near["boxes"]][-1] == "8 more"
    assert {box["name"] for box in near["boxes"] if box["here"]} == {"a"}
    assert cli("draw", "@last", "--job", "c").stdout.count("->") == 3
    out = tmp_path / "run.mmd"
    ran = cli("draw", "@last", "--output", str(out))
    assert ran.returncode == 0
    assert out.read_text("utf-8").startswith("flowchart TD\n")


NOT_DRAWN = [
    (("nope",), 5, "nope"),
    (("@last", "--job", "zz"), 5, "has no job 'zz'"),
    (("@last", "--depth", "0"), 2, "0 is not in the range"),
    (("@last", "--set", "a=1"), 2, "--set is for a configuration"),
    (("run.yaml", "--job", "a"), 2, "--job requires a run"),
    (("@last", "--output", "no/such/folder.dot"), 7, "'no/such/folder.dot' cannot be written"),
    (("broken.yaml",), 3, "broken.yaml"),
]
"""Arguments, exit status, and words of the refusal."""


def test_what_cannot_be_drawn_is_told(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("a: [", "utf-8")
    assert cli("submit", write_run(TEXT).name, "--wait").returncode == 0
    for words, status, told in NOT_DRAWN:
        ran = cli("draw", *words)
        assert ran.returncode == status, words
        assert told in ran.stderr, words


def test_an_svg_wants_graphviz(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run(TEXT, FAN).name
    (tmp_path / "bin").mkdir()
    ran = cli("draw", path, "--format", "svg", env={"PATH": str(tmp_path / "bin")})
    assert ran.returncode == 7
    assert "Graphviz ('dot')" in ran.stderr
    assert "--format dot or mermaid" in ran.stderr
    program = tmp_path / "bin" / "dot"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nprint('<svg>' + str(len(sys.stdin.read()) > 100) + '</svg>')\n", "utf-8"
    )
    program.chmod(0o755)
    ran = cli("draw", path, "--output", "x.svg", env={"PATH": str(tmp_path / "bin")})
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "x.svg").read_text("utf-8") == "<svg>True</svg>\n\n"
