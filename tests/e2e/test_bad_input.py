"""What is wrong is said in a line or two that name it, its place and the way out, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command import Cli, CommandResult
from tests.workflows import ONE, Tasks, WriteRun, wfformat

USAGE, CONFIGURATION, SERVICE, NOT_FOUND, PREPARATION = 2, 3, 4, 5, 7

_NOT_ERRORS = ("longshore: note: ", "longshore: warning: ", "longshore: imports ")

LeftBehind = Callable[[], list[str]]


def errors_of(ran: CommandResult) -> list[str]:
    """The lines of an error, which must be all that is printed beside notes and warnings."""
    assert "Traceback" not in ran.stderr
    lines = [line for line in ran.said if not line.startswith(_NOT_ERRORS)]
    assert 1 <= len(lines) <= 2, ran.stderr
    assert lines[0].startswith("longshore: error: "), ran.stderr
    assert not ran.stdout
    return lines


YAML = [
    # Text, pattern of the error, pattern of the way out.
    ("a: b: c\n", r"run\.yaml:1:5: this is not YAML", "quoted"),
    ("a:\n\tb: 1\n", r"run\.yaml:2:1: this is not YAML", "spaces"),
    ("a: 1\na: 2\n", r"run\.yaml:2:1: the key 'a' is given twice", r"run\.yaml:1:1"),
    ("a: [1, 2\n", r"run\.yaml:\d+:\d+: this is not YAML", None),
    ("a: " + "[" * 3000, r"run\.yaml:1:\d+: values are nested more than 100 deep", None),
    ("- a\n", r"run\.yaml:1:1: .*must hold keys", "For example"),
    ("hello\n", r"run\.yaml:1:1: .*must hold keys", "For example"),
    ("", r"run\.yaml: no payload is named", "pipelineYaml: FILE"),
    (
        "includeConfigs: nope.yaml\n",
        r"run\.yaml:1:17: the included file 'nope\.yaml' does not exist",
        r"nope\.yaml'\.$",
    ),
    ("includeConfigs: run.yaml\n", r"run\.yaml:1:17: the file '.*run\.yaml' includes itself", None),
    ("wfformat: [graph.json]\n", r"run\.yaml:1:11: 'wfformat' must be text", None),
    ("wfformat: graph.json\nnumberOfRetries: many\n", r"run\.yaml:2:18: 'numberOfRetries'.*'many'", None),
    ("wfformat: graph.json\nrequestMemory: lots\n", r"run\.yaml:2:16: 'requestMemory'.*'lots'", None),
    ("wfformat: graph.json\nrequestCpus: 0\n", r"run\.yaml:2:14: 'requestCpus' must be at least 1", None),
    ("wfformat: graph.json\nresources: 4\n", r"run\.yaml:2:12: 'resources' must be a map", None),
    ("wfformat: graph.json\nresources: {cpu: 1, cpus: 2}\n", r"run\.yaml:2:27: .*'cpu' and 'cpus'.*the same", None),
    ("wfformat: graph.json\nreplay: {timeScale: -1}\n", r"run\.yaml:2:21: 'replay\.timeScale'", None),
    ("wfformat: graph.json\nreplay: {timescale: 1}\n", r"run\.yaml:2:9: .*'replay\.timescale'", "'timeScale'"),
    ("wfformat: graph.json\nsubmitPath: ''\n", r"run\.yaml:2:13: 'submitPath' must have a value", "default"),
    (
        "wfformat: graph.json\nqgraphFile: x.qg\nwmsServiceClass: local\n",
        r"run\.yaml:2:13: .*'wfformat' and 'qgraphFile'",
        "one payload",
    ),
    ("wfformat: graph.json\npipelineYaml: x\n", r"run\.yaml:2:15: .*'wfformat' and 'pipelineYaml'", "one payload"),
    ("wfformat: graph.json\nrunQuantumCommand: 'x {nope}'\n", r"run\.yaml:2:20: .*'\{nope\}'", "double the braces"),
    ("wfformat: graph.json\na: '{b}'\nb: '{a}'\nrunQuantumCommand: '{a}'\n", r"'a' -> 'b' -> 'a'", None),
    ("wfformat: graph.json\nrunQuantumCommand: [x, ~]\n", r"run\.yaml:2:24: .*not 'null'", None),
    ("wfformat: graph.json\nrunQuantumCommand: []\n", r"run\.yaml:2:20: .*names no program", None),
    ("wfformat: graph.json\nrequestResources: {cpus: 1}\n", r"run\.yaml:2:26: 'cpus'.*'requestCpus'", None),
]


@pytest.mark.parametrize(("text", "error", "way_out"), YAML, ids=range(len(YAML)))
def test_yaml(
    text: str, error: str, way_out: str | None, cli: Cli, write_run: WriteRun, left_behind: LeftBehind
) -> None:
    path = write_run()
    path.write_text(text, "utf-8")
    ran = cli("submit", path.name)
    assert ran.returncode == CONFIGURATION, ran.stderr
    lines = errors_of(ran)
    assert re.search(error, lines[0]), lines
    assert way_out is None or re.search(way_out, lines[1]), lines
    assert not left_behind()


@pytest.mark.parametrize(
    "content",
    ["wfformat: graph.json\n".encode("utf-16"), bytes(range(256)), b"a: \xff\n", b"\x00\x01\x02"],
    ids=["utf-16", "all-bytes", "latin-1", "nul"],
)
def test_yaml_that_is_no_text(content: bytes, cli: Cli, tmp_path: Path, left_behind: LeftBehind) -> None:
    (tmp_path / "run.yaml").write_bytes(content)
    ran = cli("submit", "run.yaml")
    assert ran.returncode == CONFIGURATION
    assert re.search(r"run\.yaml:1:\d+: the file is not UTF-8 text", errors_of(ran)[0])
    assert not left_behind()


@pytest.mark.parametrize(
    ("name", "error"), [("nope.yaml", "there is no file 'nope.yaml'"), ("nope/", "there is no file 'nope'")]
)
def test_no_yaml(name: str, error: str, cli: Cli, left_behind: LeftBehind) -> None:
    ran = cli("submit", name)
    assert ran.returncode == CONFIGURATION
    assert error in errors_of(ran)[0]
    assert not left_behind()


@pytest.mark.parametrize(
    ("words", "error", "status"),
    [
        (["config", "lint", "r\udce9.yaml"], r"r\\udce9.yaml' is not UTF-8 text", 3),
        (["prepare", "run.yaml", "--site-path", "d\udce9"], r"the value 'd\\udce9' of 'sitePath' is not UTF-8 text", 3),
        (["prepare", "run.yaml", "--set", "queue=\udce9"], r"'queue=\\udce9' is not UTF-8 text", 2),
        (["prepare", "run.yaml", "--set", "a.\udce9=1"], r"'a.\\udce9=1' is not UTF-8 text", 2),
        (["report", "--id", "\udce9"], r"no run '\\udce9' is known", 5),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_arguments_that_are_no_text(
    words: list[str], error: str, status: int, cli: Cli, write_run: WriteRun, tmp_path: Path, left_behind: LeftBehind
) -> None:
    path = write_run()
    (tmp_path / "r\udce9.yaml").write_bytes(path.read_bytes())
    (tmp_path / "d\udce9").mkdir()
    ran = cli(*words)
    assert ran.returncode == status
    assert re.search(error, ran.stdout + ran.stderr)
    assert not left_behind()


def test_texts_that_cannot_be_recorded_are_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("pipeline: {tasks: {a: {command: sleep 60}}}\n", "utf-8")
    run = cli("submit", "run.yaml", "--json").json["id"]
    ran = cli("pause", run, "--why", "until\nnoon \udce9")
    assert errors_of(ran)[0].endswith(r"'noon \udce9' is not UTF-8 text")
    assert cli("cancel", run, "--yes").returncode == 0


def test_a_user_whose_name_is_no_text_runs(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("prepare", write_run(), env={"USER": "\udce9", "LOGNAME": "\udce9"})
    assert f"/{os.getuid()}/" in ran.stdout


PAYLOADS: list[tuple[str, str, str, str | None]] = [
    ("cycle", json.dumps(wfformat({"a": ("A", ["b"]), "b": ("B", ["a"])})), "cycle: '[ab]' -> '[ab]' -> '[ab]'$", None),
    ("nowhere", json.dumps(wfformat({"alpha": ("A", []), "b": ("B", ["alpa"])})), "'b' names .*'alpa'", "'alpha'"),
    ("version", json.dumps(wfformat(ONE, version="1.4")), "'schemaVersion' is \"1.4\"", "1.6"),
    ("truncated", json.dumps(wfformat(ONE))[:60], r"graph\.json:1:61: the file is cut short", "again"),
    ("another", "{}", "no 'schemaVersion'", "WfInstances"),
    ("list", "[]", "object", None),
    ("empty", "", "the file is empty", None),
    ("text", "hello", r"graph\.json:1:1: this is not JSON", None),
    ("no tasks", json.dumps(wfformat({})), "nothing to run", None),
]


@pytest.mark.parametrize(("kind", "text", "error", "way_out"), PAYLOADS, ids=[each[0] for each in PAYLOADS])
def test_payload(
    kind: str,
    text: str,
    error: str,
    way_out: str | None,
    cli: Cli,
    write_run: WriteRun,
    tmp_path: Path,
    left_behind: LeftBehind,
) -> None:
    path = write_run()
    (tmp_path / "graph.json").write_text(text, "utf-8")
    ran = cli("submit", path.name)
    assert ran.returncode == PREPARATION, (kind, ran.stderr)
    lines = errors_of(ran)
    assert "graph.json:" in lines[0]
    assert re.search(error, lines[0]), lines
    assert way_out is None or way_out in lines[1], lines
    assert not left_behind()


def test_two_tasks_of_one_name(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run()
    document = wfformat(ONE)
    document["workflow"]["specification"]["tasks"] *= 2
    (tmp_path / "graph.json").write_text(json.dumps(document), "utf-8")
    ran = cli("submit", path.name)
    assert ran.returncode == PREPARATION
    assert "'a' is the id of" in errors_of(ran)[0]


def test_a_payload_that_is_not_there(cli: Cli, write_run: WriteRun, tmp_path: Path, left_behind: LeftBehind) -> None:
    (tmp_path / "below").mkdir()
    path = tmp_path / "below" / "run.yaml"
    path.write_text("wfformat: graph.json\n", "utf-8")
    ran = cli("submit", "below/run.yaml")
    assert ran.returncode == PREPARATION
    lines = errors_of(ran)
    assert "below/run.yaml:1:11: 'wfformat' names the file 'graph.json', which does not exist" in lines[0]
    for place in (tmp_path / "graph.json", tmp_path / "below" / "graph.json"):
        assert f"'{place}'" in lines[1], "both places where it was looked for"
    (tmp_path / "graph.json").mkdir()
    assert "which is no regular file" in errors_of(cli("submit", "below/run.yaml"))[0]
    assert not left_behind()


COMMANDS = [
    ("nonexistent-program a b", "'nonexistent-program', which is not on the PATH", "runQuantumCommand"),
    ("/no/such/program", "'/no/such/program', which is not there", "runQuantumCommand"),
    ("./folder", "'./folder', which is a directory", "runQuantumCommand"),
    ("./plain", "'./plain', which is not executable", "chmod +x"),
    ("./odd", "a script for '/no/interpreter'", "first line"),
]


@pytest.mark.parametrize("as_list", [False, True], ids=["line", "list"])
@pytest.mark.parametrize(("command", "error", "way_out"), COMMANDS, ids=[each[0] for each in COMMANDS])
def test_command(
    command: str,
    error: str,
    way_out: str,
    as_list: bool,
    cli: Cli,
    write_run: WriteRun,
    tmp_path: Path,
    left_behind: LeftBehind,
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").touch()
    (tmp_path / "odd").write_text("#!/no/interpreter -x\n")
    (tmp_path / "odd").chmod(0o755)
    written = json.dumps(command.split()) if as_list else command
    path = write_run(f"pipetask: {{A: {{runQuantumCommand: {written}}}}}\n")
    ran = cli("submit", path.name)
    assert ran.returncode == PREPARATION, ran.stderr
    lines = errors_of(ran)
    assert lines[0].startswith("longshore: error: run.yaml:2:35: job 'a' runs ")
    assert error in lines[0]
    assert way_out in lines[1]
    assert not left_behind()


def test_a_directory_to_run_in_that_is_not_there(cli: Cli, write_run: WriteRun, left_behind: LeftBehind) -> None:
    ran = cli("submit", write_run("runQuantumCommand: 'true'\nworkingDirectory: /no/where\n").name)
    assert ran.returncode == PREPARATION
    assert "run.yaml:3:19: job 'a' is to run in '/no/where', which is no directory" in errors_of(ran)[0]
    assert not left_behind()


SERVICES = [
    ("slrum", "there is no service 'slrum'; there are: htcondor, local, lsf, sge, slurm"),
    ("pbs", "there is no service 'pbs'"),
    ("lsst.ctrl.bps.parsl.ParslService", "'lsst.ctrl.bps.parsl.ParslService' cannot be imported"),
    ("lsst.ctrl.bps.panda.PanDAService", "'lsst.ctrl.bps.panda.PanDAService' cannot be imported"),
    ("panda", "no service 'panda'"),
    ("no.such.Thing", "'no.such.Thing' cannot be imported"),
    ("os.path.join", "'os.path.join' is no service"),
    ("..a", "'..a' cannot be imported"),
    (".", "'.' cannot be imported"),
]


@pytest.mark.parametrize(("name", "error"), SERVICES, ids=[each[0] for each in SERVICES])
def test_service(name: str, error: str, cli: Cli, write_run: WriteRun, left_behind: LeftBehind) -> None:
    ran = cli("submit", write_run(f"wmsServiceClass: {name}\n").name)
    assert ran.returncode == SERVICE, ran.stderr
    lines = errors_of(ran)
    assert "run.yaml:2:18: " in lines[0]
    assert error in lines[0]
    if "no service 'p" in error or "slrum" in error:
        assert "longshore.wms" in lines[1], "how a package adds one"
    assert not left_behind()
    assert cli("ping", "--wms-service-class", name).returncode == SERVICE


# ------------------------------------------------------------------------------------------------------------- places


def test_a_directory_that_is_there(cli: Cli, write_run: WriteRun, tmp_path: Path, left_behind: LeftBehind) -> None:
    path = write_run("submitPath: taken\n")
    (tmp_path / "taken").mkdir()
    ran = cli("submit", path.name)
    assert ran.returncode == PREPARATION
    lines = errors_of(ran)
    assert f"'{tmp_path}/taken': directory already exists" in lines[0]
    assert "submitPath" in lines[1]
    assert list((tmp_path / "taken").iterdir()) == []
    assert not left_behind()


@pytest.mark.parametrize("where", ["graph.json/run", "/proc/longshore/run", "read_only/below/run"])
def test_a_directory_that_cannot_be_made(
    where: str, cli: Cli, write_run: WriteRun, tmp_path: Path, left_behind: LeftBehind
) -> None:
    (tmp_path / "read_only").mkdir(mode=0o500)
    if where.startswith("read_only") and os.access(tmp_path / "read_only", os.W_OK):
        pytest.skip("whoever runs this may write everywhere")
    ran = cli("submit", write_run(f"submitPath: {where}\nrunQuantumCommand: 'true'\n").name)
    assert ran.returncode == PREPARATION
    lines = errors_of(ran)
    assert "cannot write the run directory" in lines[0]
    assert "submitPath" in lines[1]
    assert not left_behind()


def test_a_file_that_cannot_be_read(cli: Cli, write_run: WriteRun, left_behind: LeftBehind) -> None:
    path = write_run()
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("whoever runs this may read everything")
    ran = cli("submit", path.name)
    assert ran.returncode == CONFIGURATION
    assert "'run.yaml' cannot be read: Permission denied" in errors_of(ran)[0]
    assert not left_behind()


def test_a_full_disk(cli: Cli, write_run: WriteRun, tmp_path: Path, left_behind: LeftBehind) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if (
        not mount
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("whoever runs this may mount nothing")
    try:
        (disk / "ballast").write_bytes(bytes(48 * 1024))
        ran = cli("submit", write_run("submitPath: disk/runs/first\nrunQuantumCommand: 'true'\n").name)
        assert ran.returncode == PREPARATION
        lines = errors_of(ran)
        assert "No space left on device" in lines[0]
        assert "Make room" in lines[1]
        assert [path.name for path in disk.iterdir()] == ["ballast"]
        assert not left_behind()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_a_state_directory_that_cannot_be_written(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    ran = cli("submit", write_run().name, "--wait", env={"XDG_STATE_HOME": "/proc/longshore"})
    assert ran.returncode == 0, ran.stderr
    assert "name this run by its directory" in ran.stderr
    directory = re.search("Submit dir: (.*)", ran.stdout)
    assert directory
    assert cli("status", directory[1]).stdout == "SUCCEEDED\n"


def test_a_current_directory_that_is_gone(tmp_path: Path, write_run: WriteRun) -> None:
    path = write_run()
    gone = tmp_path / "gone"
    gone.mkdir()
    inside = "import os, sys; os.rmdir(os.getcwd()); from longshore.cli.main import main; main(sys.argv[1:])"
    for words in (["submit", str(path)], ["submit", "run.yaml"], ["adopt", "../run"], ["verify", "../run"]):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            [sys.executable, "-c", inside, *words], cwd=gone, capture_output=True, text=True, check=False
        )
        assert done.returncode == PREPARATION, done.stderr
        assert "the current directory is gone" in done.stderr


def test_a_path_that_is_no_text(cli: Cli, write_run: WriteRun, tmp_path: Path, left_behind: LeftBehind) -> None:
    write_run()
    odd = os.fsencode(tmp_path) + b"/\xff.yaml"
    try:
        shutil.copy(tmp_path / "run.yaml", os.fsdecode(odd))
    except OSError:
        pytest.skip("the file system takes UTF-8 names only")
    ran = cli("submit", os.fsdecode(odd))
    assert ran.returncode == CONFIGURATION
    assert "is not UTF-8" in errors_of(ran)[0]
    assert not left_behind()


# ------------------------------------------------------------------------------------------------------- command line

USAGE_ERRORS = [
    (["submit"], "missing argument 'FILE|RUN_DIR'", "longshore submit -h"),
    (["submit", "run.yaml", "--nope"], "no option '--nope'", "longshore submit -h"),
    (["report", "--jsno"], "no option '--jsno'", "Did you mean '--json'?"),
    (["report", "--log-level", "DEBUG"], "no option '--log-level'", "before the command"),
    (["--wait", "submit"], "no option '--wait'", "follow its name"),
    (["sumbit"], "no command 'sumbit'", "Did you mean 'submit'?"),
    (["xyz"], "no command 'xyz'", "'submit', 'submitcmd'"),
    (["run", "x.yaml"], "no command 'run'", "Did you mean 'submit'?"),
    (["ls"], "no command 'ls'", "Did you mean 'report'?"),
    (["lint", "x.yaml"], "no command 'lint'", "Did you mean 'config lint'?"),
    (["run.yaml"], "no command 'run.yaml'", "Did you mean 'submit run.yaml'?"),
    (["@last"], "no command '@last'", "longshore report @last"),
    (["config", "lnit", "run.yaml"], "no such command 'lnit'", "longshore config -h"),
    (["report", "--jsn"], "no option '--jsn'", "Did you mean '--json'?"),
    (["submit", "run.yaml", "--site", "x"], "no option '--site'", "Did you mean '--compute-site'?"),
    (["restart", "@last", "--dryrun"], "no option '--dryrun'", "Did you mean '--dry-run'?"),
    (["report", "--filter", "state=BAD"], "there is no state 'BAD'", "SUCCEEDED"),
    (["report", "--filter", "state=FAILD"], "there is no state 'FAILD'", "Did you mean 'FAILED'?"),
    (["report", "--id"], "'--id' requires an argument", "-h"),
    (["report", "a", "--id", "b"], "two runs are named: 'a' and --id 'b'", "-h"),
    (["report", ""], "the name of the run is empty", "-h"),
    (["status"], "name the run", "-h"),
    (["status", "--id", ""], "the name of the run is empty", "-h"),
    (["submit", "run.yaml", "--set", "x"], "'x' is not KEY=VALUE", "--set queue=long"),
    (["submit", "run.yaml", "--set", "=x"], "'=x' is not KEY=VALUE", "--set queue=long"),
    (["submit", "run.yaml", "--set", "a={"], "the value in 'a={' cannot be read", None),
    (["--log-level", "LOUD", "report"], "no log level 'LOUD'", "INFO"),
    (["--log-file", "/no/such/file", "report"], "log file '/no/such/file'", None),
    (["--log-label", "x", "report"], "'x' is not KEY=VALUE", "--log-label"),
]


RUNS = [
    ("@lst", "no run '@lst' is known", "Did you mean '@last'?"),
    ("nosuch", "no run 'nosuch' is known", "A run is named by its id"),
    ("123", "no run '123' is known", None),
]


@pytest.mark.parametrize(("run", "error", "way_out"), RUNS, ids=[each[0] for each in RUNS])
def test_an_unknown_run(run: str, error: str, way_out: str | None, cli: Cli) -> None:
    ran = cli("report", run)
    assert ran.returncode in {SERVICE, NOT_FOUND}
    lines = errors_of(ran)
    assert lines[0].startswith(f"longshore: error: {error}")
    assert way_out is None or way_out in lines[1]


@pytest.mark.parametrize(("words", "error", "way_out"), USAGE_ERRORS, ids=[" ".join(each[0]) for each in USAGE_ERRORS])
def test_command_line(
    words: list[str], error: str, way_out: str | None, cli: Cli, write_run: WriteRun, left_behind: LeftBehind
) -> None:
    write_run()
    ran = cli(*words)
    assert ran.returncode == USAGE, ran.stderr
    lines = errors_of(ran)
    assert error in lines[0]
    assert way_out is None or way_out in lines[1]
    assert not left_behind()


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (["submit", "--json"], "usage", USAGE),
        (["submit", "nope.yaml", "--json"], "configuration", CONFIGURATION),
        (["submit", "run.yaml", "--json", "--wms-service-class", "slrum"], "unknown_service", SERVICE),
        (["submit", "run.yaml", "--json", "--set", "requestCpus=100000"], "request", PREPARATION),
        (["report", "nope", "--json"], "run_not_found", NOT_FOUND),
        (["status", "nope", "--json"], "run_not_found", NOT_FOUND),
        (["resume", "nope", "--json"], "run_not_found", NOT_FOUND),
        (["cancel", "nope", "--json"], "run_not_found", NOT_FOUND),
        (["ping", "--json", "--wms-service-class", "panda"], "unknown_service", SERVICE),
        (["report", "--nope", "--json"], "usage", USAGE),
    ],
    ids=str,
)
def test_errors_as_json(words: list[str], code: str, status: int, cli: Cli, write_run: WriteRun) -> None:
    write_run()
    ran = cli(*words)
    assert ran.returncode == status, ran.stderr
    assert ran.json["schema_version"] == 1
    error = ran.json["error"]
    assert error.keys() >= {"code", "message", "origin", "hint"}
    assert error["code"] == code
    assert error["message"] in ran.stderr
    assert "Traceback" not in ran.stderr


def test_the_place_of_an_error_in_json(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run("requestCpus: 100000\n").name, "--json")
    origin = ran.json["error"]["origin"]
    assert (origin["file"], origin["line"], origin["column"]) == ("run.yaml", 2, 14)


def test_a_traceback_only_for_those_who_ask(cli: Cli) -> None:
    assert "Traceback" in cli("--debug", "report", "nope").stderr
    assert "Traceback" not in cli("report", "nope").stderr


def _run_unread(words: list[str], out: str, err: str, cwd: Path | None = None) -> int:
    """Run the program as a login has it, with streams that are `gone` or `full`; return its status."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    streams = []
    for kind in (out, err):
        if kind == "gone":
            reader, writer = os.pipe()
            os.close(reader)
            streams.append(writer)
        else:
            streams.append(os.open(f"/dev/{kind}", os.O_WRONLY))
    try:
        program = [sys.executable, "-m", "longshore", *words]
        return subprocess.run(program, stdout=streams[0], stderr=streams[1], env=env, cwd=cwd, check=False).returncode
    finally:
        for stream in streams:
            os.close(stream)


@pytest.mark.parametrize(
    ("words", "out", "err", "status"),
    [
        (["report", "nope"], "gone", "gone", NOT_FOUND),
        (["report", "nope", "--json"], "gone", "gone", NOT_FOUND),
        (["report", "nope"], "null", "gone", NOT_FOUND),
        (["report", "nope", "--json"], "null", "full", NOT_FOUND),
        (["submit", "--nope"], "full", "full", USAGE),
        (["--version"], "gone", "null", 0),
        (["--version"], "full", "full", 1),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_an_error_keeps_its_status_when_the_reader_has_gone(
    words: list[str], out: str, err: str, status: int, cli: Cli
) -> None:
    assert _run_unread(words, out, err) == status


def test_a_run_is_waited_for_when_nobody_reads(tmp_path: Path, cli: Cli, write_run: WriteRun) -> None:
    path = write_run("runQuantumCommand: 'exit 4'\nrequestMemroy: 5\n", ONE)
    assert _run_unread(["submit", path.name, "--wait"], "gone", "gone", tmp_path) == 19, "the state is FAILED"
    assert _run_unread(["status", "@last"], "gone", "null", tmp_path) == 19


@pytest.mark.parametrize("words", [["report"], ["report", "--json"], ["ping"], ["--version"]], ids=" ".join)
def test_output_that_cannot_be_written(words: list[str], cli: Cli) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "longshore", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "longshore: error: the output cannot be written: No space left on device\n"


TWO: Tasks = {"a": ("A", []), "b": ("B", ["a"])}


def test_a_misspelled_key_is_only_a_warning(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run("requestMemroy: 5\nrunQuantumCommand: 'true'\n", TWO).name, "--wait")
    assert ran.returncode == 0
    note = "warning: run.yaml:2:1: nothing knows the key 'requestMemroy'. Did you mean 'requestMemory'?"
    assert note in ran.stderr


def test_a_misspelled_section_is_a_warning_with_the_words_of_lint(cli: Cli, write_run: WriteRun) -> None:
    path = write_run("runQuantumCommand: 'true'\nfinaljob: {command: 'true'}\n", ONE)
    linted = cli("config", "lint", path).stdout.splitlines()[0]
    assert ": warning: " in linted
    warning = linted.replace(": warning: ", ": ")
    assert f"longshore: warning: {warning}" in cli("transform", path).stderr
