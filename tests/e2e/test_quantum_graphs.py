"""The commands that make quantum graphs: run as they are written, their output kept, their exit status passed on.

What reads graphs needs LSST's packages; these tests get as far as one comes without, and the rest is in tests/lsst.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import eventually

LSST = "tasks: {isr: {class: demo.IsrTask}}\n"
WAIT_S = 120
Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a pipeline of LSST's, and a file that runs it."""
    (tmp_path / "pipeline.yaml").write_text(LSST, "utf-8")

    def run(text: str) -> Path:
        path = tmp_path / "run.yaml"
        given = f"pipelineYaml: pipeline.yaml\nsubmitPath: there/run\nbutlerConfig: repo\n{text}"
        path.write_text(f"{given}wmsServiceClass: local\n", "utf-8")
        return path

    return run


def program(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "bin" / "pipetask"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
    path.chmod(0o755)
    return path


def test_its_exit_status_is_ours(cli: Cli, write: Write, tmp_path: Path) -> None:
    write("createQuantumGraph: \"sh -c 'seq 30; echo what went wrong >&2; exit 37'\"\n")
    ran = cli("submit", "run.yaml")
    assert ran.returncode == 37
    output = tmp_path / "there" / "run" / "quantumGraphGeneration.out"
    assert "'createQuantumGraph' ended with status 37" in ran.stderr
    assert "  30\n" in ran.stderr
    assert "  what went wrong\n" in ran.stderr
    assert "  5\n" not in ran.stderr
    assert f"The whole output is in '{output}'." in ran.stderr
    assert output.read_text("utf-8").splitlines()[:3] == [
        "sh -c 'seq 30; echo what went wrong >&2; exit 37'",
        "",
        "1",
    ]
    assert [path.name for path in output.parent.iterdir()] == [output.name]


def test_it_is_so_in_json(cli: Cli, write: Write) -> None:
    write("createQuantumGraph: \"sh -c 'exit 37'\"\n")
    ran = cli("acquire", "run.yaml", "--json")
    assert (ran.returncode, ran.json["error"]["exit_status"], ran.json["error"]["code"]) == (37, 37, "graph_command")
    assert ran.json["error"]["origin"]["line"] == 4


def test_no_shell_sees_it(cli: Cli, write: Write, tmp_path: Path) -> None:
    write("createQuantumGraph: \"sh -c 'for word; do echo [$word]; done; exit 3' sh 'a b' *.yaml $HOME; | && x\"\n")
    ran = cli("acquire", "run.yaml")
    assert ran.returncode == 3
    said = (tmp_path / "there" / "run" / "quantumGraphGeneration.out").read_text("utf-8").splitlines()[2:]
    assert said == ["[a b]", "[*.yaml]", f"[{os.environ['HOME']};]", "[|]", "[&&]", "[x]"]


def test_programs_come_from_the_path_where_no_variable_says_where_they_are(
    cli: Cli, write: Write, tmp_path: Path
) -> None:
    found = program(tmp_path, 'echo "called with $*"; exit 5')
    write("payload: {inCollection: 'in', dataQuery: 'visit = 1', output: out, outputRun: out/1}\n")
    env = {"PATH": f"{found.parent}:{os.environ['PATH']}", "CTRL_MPEXEC_DIR": ""}
    ran = cli("acquire", "run.yaml", env=env)
    assert ran.returncode == 5, ran.stderr
    run = tmp_path / "there" / "run"
    assert (
        "called with --long-log --log-level=VERBOSE qgraph --butler-config repo -i in -o out --output-run out/1 "
        f"--pipeline pipeline.yaml --save-qgraph {run}/out_1.qg --qgraph-datastore-records -d visit = 1"
    ) in (run / "quantumGraphGeneration.out").read_text("utf-8").splitlines()


def test_a_variable_says_where_they_are(cli: Cli, write: Write, tmp_path: Path) -> None:
    program(tmp_path, "exit 6")
    write("payload: {inCollection: 'in'}\n")
    assert cli("acquire", "run.yaml", env={"CTRL_MPEXEC_DIR": str(tmp_path)}).returncode == 6
    ran = cli("acquire", "run.yaml", "--set", "submitPath=other", env={"CTRL_MPEXEC_DIR": "/nowhere"})
    assert ran.returncode == 7
    assert "'/nowhere/bin/pipetask', which cannot be started: No such file" in ran.stderr
    assert "pip install 'longshore[lsst]'" in ran.stderr
    assert not (tmp_path / "other").exists(), "no run began"


def test_a_program_that_is_not_on_the_path_leaves_no_run_directory(cli: Cli, write: Write, tmp_path: Path) -> None:
    write("createQuantumGraph: nosuchprogram {qgraphFile}\n")
    ran = cli("submit", "run.yaml")
    assert ran.returncode == 7
    assert "'createQuantumGraph' runs 'nosuchprogram', which is not on the PATH" in ran.stderr
    assert not (tmp_path / "there").exists()


def test_one_that_leaves_no_graph(cli: Cli, write: Write) -> None:
    write("createQuantumGraph: echo all well\n")
    ran = cli("acquire", "run.yaml")
    assert ran.returncode == 7
    assert "ended well and left no 'u_" in ran.stderr
    assert "  all well\n" in ran.stderr


def test_a_graph_that_is_none_stays_to_be_looked_at(cli: Cli, write: Write, tmp_path: Path) -> None:
    write("createQuantumGraph: \"sh -c 'echo {pipelineYaml} > {qgraphFile}'\"\nqgraphFileTemplate: g.qg\n")
    ran = cli("submit", "run.yaml")
    assert ran.returncode == 7
    graph = tmp_path / "there" / "run" / "g.qg"
    assert f"'{graph}' is no quantum graph" in ran.stderr
    assert graph.read_text("utf-8") == "pipeline.yaml\n"


@pytest.mark.skipif(importlib.util.find_spec("lsst") is not None, reason="LSST's packages are there")
def test_a_graph_that_nothing_here_reads_is_not_lost(cli: Cli, write: Write, tmp_path: Path) -> None:
    write("createQuantumGraph: \"sh -c 'echo PK > {qgraphFile}'\"\nqgraphFileTemplate: g.qg\n")
    ran = cli("submit", "run.yaml")
    assert ran.returncode == 7
    assert "Install it with: pip install 'longshore[lsst]'" in ran.stderr
    assert f"the quantum graph stays, and '--qgraph {tmp_path}/there/run/g.qg' takes it" in ran.stderr


def test_a_given_graph_is_copied_backed_up_and_updated(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "given.qg").write_text("not", "utf-8")
    update = "sh -c 'cat $0 $1 > $2' {inputQgraphFile} given.qg {qgraphFile}"
    (tmp_path / "run.yaml").write_text(
        f'wmsServiceClass: local\nqgraphFile: given.qg\nsubmitPath: run\nupdateQuantumGraph: "{update}"\n', "utf-8"
    )
    ran = cli("prepare", "run.yaml")
    assert ran.returncode == 7
    assert f"'{tmp_path}/run/given.qg' is no quantum graph" in ran.stderr
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "given.qg",
        "given_orig.qg",
        "quantumGraphUpdate.out",
    ]
    assert (tmp_path / "run" / "given.qg").read_text("utf-8") == "notnot"
    assert (tmp_path / "run" / "given_orig.qg").read_text("utf-8") == "not"


def test_the_older_spelling_of_an_update(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "given.qg").write_text("not", "utf-8")
    (tmp_path / "run.yaml").write_text(
        "wmsServiceClass: local\nqgraphFile: given.qg\nsubmitPath: run\n"
        "updateQuantumGraph: cp {qgraphFile} {outputQgraphFile}\n",
        "utf-8",
    )
    assert cli("prepare", "run.yaml").returncode == 7
    said = (tmp_path / "run" / "quantumGraphUpdate.out").read_text("utf-8")
    assert said.startswith(f"cp {tmp_path}/run/given_orig.qg {tmp_path}/run/given.qg\n")


BAD = [
    ("qgraphFileTemplate: ../g.qg\n", "run.yaml:4:21: 'qgraphFileTemplate' must name a file that ends in .qg", 3),
    ("qgraphFileTemplate: g.pickle\n", "must name a file that ends in .qg or .qgraph, not 'g.pickle'", 3),
    ("createQuantumGraph: ''\n", "'createQuantumGraph' is empty", 3),
    ('createQuantumGraph: "a \'b"\n', "'createQuantumGraph' cannot be divided into words: no closing quotation", 3),
    ("createQuantumGraph: [a]\n", "'createQuantumGraph' must be text", 3),
    ("createQuantumGraph: a {nope}\n", "nothing defines", 3),
    ("whenSaveJobQgraph: TRANSFORM\n", "run.yaml:4:20: 'whenSaveJobQgraph: TRANSFORM' asks for", 3),
    ("pipetask: {isr: {whenSaveJobQgraph: PREPARE}}\n", "'whenSaveJobQgraph: PREPARE' asks for", 3),
    ("qgraphFile: nope.qg\n", "'qgraphFile' names the file 'nope.qg', which does not exist", 7),
    ("qgraphFile: pipeline.yaml\n", "'qgraphFile' must name a file that ends in .qg", 3),
]


@pytest.mark.parametrize(("text", "words", "status"), BAD, ids=[text.strip() for text, _, _ in BAD])
def test_what_is_wrong_is_told_before_anything_is_made(
    cli: Cli, write: Write, tmp_path: Path, text: str, words: str, status: int
) -> None:
    write(text)
    ran = cli("submit", "run.yaml")
    assert words in ran.stderr
    assert ran.returncode == status
    assert not (tmp_path / "there").exists()


def test_a_directory_that_is_there_is_not_touched(cli: Cli, write: Write, tmp_path: Path) -> None:
    write("createQuantumGraph: touch {qgraphFile}\n")
    (tmp_path / "there" / "run").mkdir(parents=True)
    ran = cli("submit", "run.yaml")
    assert ran.returncode == 7
    assert list((tmp_path / "there" / "run").iterdir()) == []


def test_functions_may_say_which_pipeline_it_is(cli: Cli, write: Write, tmp_path: Path) -> None:
    write("bpsGenerateConfig: \"chosen.values('g.qg')\"\ncreateQuantumGraph: sh -c 'exit {code}'\n")
    (tmp_path / "chosen.py").write_text(
        "def values(name):\n    return {'pipelineYaml': 'pipeline.yaml', 'code': 41, 'qgraphFileTemplate': name}\n",
        "utf-8",
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    assert cli("acquire", "run.yaml", env={"PYTHONPATH": path}).returncode == 41


@pytest.mark.parametrize("deaf", [False, True], ids=["heeds", "deaf"])
def test_an_interrupt_ends_the_command_and_all_it_started(write: Write, tmp_path: Path, deaf: bool) -> None:
    trap = "trap '' TERM; " if deaf else ""
    script = tmp_path / "slow.sh"
    script.write_text(f"{trap}sleep 1000 & echo $! > child; echo begun; wait; wait; sleep 1000\n", "utf-8")
    write(f"createQuantumGraph: sh {script}\n")
    child = tmp_path / "child"
    ours = subprocess.Popen(
        [sys.executable, "-m", "longshore", "acquire", "run.yaml", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        eventually(lambda: child.exists() and child.read_text("ascii").strip() != "")
        ours.send_signal(signal.SIGINT)
        stdout, _ = ours.communicate(timeout=WAIT_S)
    finally:
        ours.kill()
        ours.wait()
    assert ours.returncode == 130
    assert json.loads(stdout)["error"]["code"] == "interrupted"
    pid = int(child.read_text("ascii"))
    eventually(lambda: not is_alive(pid))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
