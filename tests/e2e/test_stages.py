"""`acquire`, `cluster`, `transform` and `prepare` stop after their stage; `submitcmd` runs one script."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.command import Cli
from tests.e2e.conftest import LeftBehind
from tests.workflows import Tasks, WriteRun

CHAIN: Tasks = {"a": ("A", []), "b": ("B", ["a"])}
STAGES = ["acquire", "cluster", "transform", "prepare"]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_stops_and_says_what_it_made(cli: Cli, write_run: WriteRun, tmp_path: Path, stage: str) -> None:
    path = write_run("runQuantumCommand: 'true'\n", CHAIN)
    ran = cli(stage, path)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines if line.partition(":")[0] in STAGES] == STAGES[
        : STAGES.index(stage) + 1
    ]
    assert "peak memory" in lines[0]
    document = cli(stage, path, "--json", "--set", "submitPath=another").json
    assert document["kind"] == "stages"
    last = document["stages"][-1]
    assert last["labels"] == {"A": 1, "B": 1}
    assert last["seconds"] >= 0
    assert last["peak_memory_b"] > 0
    assert (tmp_path / "submit").exists() == (stage == "prepare")


def test_prepare_runs_nothing(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run("runQuantumCommand: touch ${PWD}/ran\n")
    run = Path(cli("prepare", path, "--json").json["submit_dir"])
    assert (run / "workflow.jsonl").is_file()
    assert not list((run / "journal").iterdir())
    assert not (tmp_path / "ran").exists()


def test_a_workflow_is_a_picture_of_its_input(cli: Cli, write_run: WriteRun) -> None:
    path = write_run("runQuantumCommand: echo {jobName}\n", CHAIN)
    options = ("--json", "--set", "payload.outputRun=same")
    texts = []
    for number in range(2):
        target = f"run{number}"
        run = cli("prepare", path, *options, "--set", f"submitPath={target}").json["submit_dir"]
        texts.append(Path(run, "workflow.jsonl").read_bytes())
    assert texts[0] == texts[1]


SCRIPT = '#!/bin/sh\ncp "$1" "$2"\necho "got $3"\n'


def custom(folder: Path, text: str) -> Path:
    """A script, an input, and a YAML file that names them."""
    (folder / "script.sh").write_text(SCRIPT, "utf-8")
    (folder / "in.txt").write_text("hello\n", "utf-8")
    path = folder / "custom.yaml"
    path.write_text(text, "utf-8")
    return path


JOB = """
customJob:
  executable: ${PWD}/script.sh
  arguments: "{in} {out} 'a b'"
  inputs: {in: in.txt}
  outputs: {out: deep/out.txt}
"""


def test_a_script_runs_as_a_copy(cli: Cli, tmp_path: Path) -> None:
    path = custom(tmp_path, JOB)
    ran = cli("submitcmd", path, "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    assert (run / "deep" / "out.txt").read_text("utf-8") == "hello\n"
    assert (run / "logs" / "customJob" / "00" / "script.sh.1.log").read_text("utf-8") == "got a b\n"
    assert (run / "script.sh").stat().st_mode & 0o111
    assert not (tmp_path / "script.sh").stat().st_mode & 0o111


def test_files_stay_names_until_the_job_runs(cli: Cli, tmp_path: Path) -> None:
    path = custom(tmp_path, JOB.replace("\"{in} {out} 'a b'\"", '"-o {out} {in}"'))
    run = Path(cli("submitcmd", path, "--dry-run", "--json").json["submit_dir"])
    assert '"-o","<FILE:out>","<FILE:in>"' in (run / "workflow.jsonl").read_text("utf-8")
    assert not list((run / "journal").iterdir())


def test_keys_of_a_graph_are_ignored_with_a_note(cli: Cli, tmp_path: Path) -> None:
    path = custom(tmp_path, JOB + "wfformat: nothing.json\npipelineYaml: none.yaml\n")
    ran = cli("submitcmd", path, "--wait")
    assert ran.returncode == 0
    assert ran.stderr.count("ignores 'pipelineYaml', 'wfformat'") == 1


@pytest.mark.parametrize(
    ("old", "new", "status", "words"),
    [
        ("customJob:", "otherJob:", 3, "there is no section 'customJob'"),
        ("  arguments: \"{in} {out} 'a b'\"\n", "", 3, "'customJob.arguments' must be given"),
        ("  executable: ${PWD}/script.sh\n", "", 3, "'customJob.executable' must be given"),
        ("script.sh", "nothing.sh", 7, "nothing.sh' does not exist"),
        ("script.sh", "in.txt", 7, "its first line does not name an interpreter"),
        ("in: in.txt", "in: no.txt", 7, "input path 'no.txt' does not exist"),
        ("'a b'", "'a b", 3, "cannot be split into words"),
        ("out: deep", "in: deep", 3, "is both an input and an output"),
        ("out: deep", "out: /proc/no", 7, "writes '/proc/no/out.txt', and no file can be made there"),
    ],
)
def test_what_is_wrong_with_a_script_is_said(
    cli: Cli, tmp_path: Path, left_behind: LeftBehind, *, old: str, new: str, status: int, words: str
) -> None:
    ran = cli("submitcmd", custom(tmp_path, JOB.replace(old, new)))
    assert ran.returncode == status, ran.stderr
    assert words in ran.stderr
    assert not left_behind()


def test_a_script_without_arguments(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "bare.yaml"
    (tmp_path / "script.sh").write_text("#!/bin/sh\necho $# arguments\n", "utf-8")
    path.write_text('customJob: {executable: script.sh, arguments: ""}\n', "utf-8")
    ran = cli("submitcmd", path, "--wait", "--json")
    assert ran.returncode == 0
    log = Path(ran.json["submit_dir"], "logs", "customJob", "00", "script.sh.1.log")
    assert log.read_text("utf-8") == "0 arguments\n"


def test_what_is_prepared_and_what_is_submitted_in_one_second_have_names_of_their_own(
    cli: Cli, write_run: WriteRun
) -> None:
    name = write_run().name
    with ThreadPoolExecutor() as pool:
        ran = list(pool.map(lambda command: cli(command, name, "--json"), ("prepare", "submit", "prepare", "submit")))
    assert [each.returncode for each in ran] == [0] * 4, [each.stderr for each in ran]
    places = [each.json["submit_dir"] for each in ran]
    assert len(set(places)) == 4
    assert len({json.loads(Path(place, "run.json").read_text("utf-8"))["id"] for place in places}) == 4


SAVE = "saveClusteredQgraph: true\nsaveGenericWorkflow: true\nsaveDot: true\n"
GRAPHS = ["bps_clustered_qgraph.dot", "bps_clustered_qgraph.jsonl"]
WORKFLOWS = ["bps_generic_workflow.dot", "bps_generic_workflow.jsonl"]


@pytest.mark.parametrize(
    ("stage", "saved"), [("cluster", GRAPHS), ("transform", [*GRAPHS, *WORKFLOWS]), ("prepare", [*GRAPHS, *WORKFLOWS])]
)
def test_graphs_between_the_stages_are_kept_where_wanted(
    cli: Cli, write_run: WriteRun, stage: str, saved: list[str]
) -> None:
    path = write_run("runQuantumCommand: 'true'\n" + SAVE, CHAIN)
    ran = cli(stage, path, "--json")
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    assert sorted(each.name for each in run.iterdir() if each.name.startswith("bps_")) == saved
    clusters = [json.loads(line) for line in (run / GRAPHS[1]).read_bytes().splitlines()]
    assert clusters[0]["clusters"] == 2
    assert [(each["name"], each.get("p", [])) for each in clusters[1:]] == [("a", []), ("b", [0])]
    assert '  "a" -> "b";\n' in (run / GRAPHS[0]).read_text("utf-8")
    if stage == "prepare":
        assert (run / WORKFLOWS[1]).read_bytes() == (run / "workflow.jsonl").read_bytes()


def test_nothing_is_left_of_files_that_cannot_be_written(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run("runQuantumCommand: 'true'\n" + SAVE, CHAIN)
    (tmp_path / "taken").write_text("", "utf-8")
    ran = cli("cluster", path, "--set", "submitPath=taken")
    assert ran.returncode == 7
    assert "directory already exists" in ran.stderr
    ran = cli("cluster", path, "--set", "submitPath=taken/below")
    assert ran.returncode == 7
    assert "cannot write the run directory" in ran.stderr
