"""The replay program does what its command line says, leaves nothing half made, and says what went wrong."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.depth import examples

from longshore.errors import GraphError, Origin
from longshore.graphs.wfformat import read_wfformat
from longshore.model.tasks import Task, TaskGraph
from longshore.model.values import YamlValue

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = REPOSITORY / "bin" / "replay.py"
COMMAND = (sys.executable, "-I", "-S", str(PROGRAM))


def replay(
    *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **(env or {})}
    return subprocess.run([*COMMAND, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def files_below(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


# -------------------------------------------------------------------------------------------------------- what it makes


def test_outputs_have_their_sizes_and_are_no_holes(tmp_path: Path) -> None:
    done = replay("--output", "0:empty", "--output", "3000000:deep/in/large", "--output", "1:a:b", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert files_below(tmp_path) == {"empty": 0, "deep/in/large": 3_000_000, "a:b": 1}
    content = (tmp_path / "deep" / "in" / "large").read_bytes()
    assert not content.count(b"\0" * 512)
    assert (tmp_path / "deep" / "in" / "large").stat().st_blocks * 512 >= 3_000_000


def test_the_same_command_makes_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        assert replay("--output", "100000:out", cwd=tmp_path).returncode == 0
        contents.append((tmp_path / "out").read_bytes())
    assert contents[0] == contents[1]


def test_one_line_of_output(tmp_path: Path) -> None:
    done = replay("--name", "a\nñ", "--seconds", "0.01", "--output", "5:x", "--output", "6:y", cwd=tmp_path)
    head, _, tail = done.stdout.partition(": 0.0")
    assert (head, tail.partition(" s, ")[2]) == (r"replayed 'a\nñ'", "2 outputs, 11 bytes\n")


def test_a_closed_output_is_no_failure(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMAND, "--output", "1:x"], cwd=tmp_path, stdout=full, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("root", ["data", "."])
def test_paths_are_relative_to_the_run_directory(tmp_path: Path, root: str) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    run.mkdir()
    elsewhere.mkdir()
    (run / "words.args").write_text('["--output", "7:b"]', "utf-8")
    words = ("--root", root, "--output", "6:a", "@words.args")
    done = replay(*words, cwd=elsewhere, env={"LONGSHORE_JOB_RUN_DIR": str(run)})
    assert done.returncode == 0, done.stderr
    assert files_below(run / root).items() >= {"a": 6, "b": 7}.items()
    assert files_below(elsewhere) == {}


def test_a_value_may_look_like_an_option(tmp_path: Path) -> None:
    done = replay("--name", "--help", "--name", "@x", "--name", "-h", "--output", "1:--root", cwd=tmp_path)
    assert (done.returncode, files_below(tmp_path)) == (0, {"--root": 1})


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


@settings(max_examples=examples(25))
@given(name=names, in_file=st.booleans(), locale=st.sampled_from(["C", "C.UTF-8", "POSIX"]))
@example(name="$(touch x) `y` 'q' \"z\" \\ * ~ # & ; | < > ! {a,b}", in_file=False, locale="C")
@example(name="a\nb\tc\r\x7f\x1b[0m", in_file=True, locale="C")
@example(name="-", in_file=False, locale="C")
@example(name="@deep/ñ/ 日本", in_file=True, locale="C")
@example(name="1:2:3", in_file=True, locale="C")
def test_a_file_of_any_name_in_a_trace_is_made_under_that_name(name: str, in_file: bool, locale: str) -> None:
    """From the recorded workflow to the disk: the name goes through JSON and a command line or a file of words."""
    deep = "/".join(["x" * 240] * 3)
    outputs = [name, *(f"{deep}/{number}" for number in range(150 if in_file else 0))]
    specification = {
        "tasks": [{"name": "t", "id": "t", "outputFiles": outputs}],
        "files": [{"id": name, "sizeInBytes": 5}],
    }
    document = {"name": "w", "schemaVersion": "1.5", "workflow": {"specification": specification}}
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))}
    with TemporaryDirectory() as folder:
        run_directory = Path(folder).resolve()
        scales: dict[str, YamlValue] = {"outputScale": 1, "python": sys.executable, "program": str(PROGRAM)}
        try:
            graph = read_wfformat(json.dumps(document).encode(), scales, Origin("trace.json"))
        except GraphError:
            assert {"..", ".", ""} & set(name.split("/")), "only a name that is no path may be refused"
            return
        for path, text in graph.programs.items():
            (run_directory / path).parent.mkdir(parents=True)
            (run_directory / path).write_text(text, "utf-8")
        assert bool(graph.programs) == in_file
        command = graph.dag["t"].command
        assert isinstance(command, tuple)
        environment |= {"LONGSHORE_JOB_RUN_DIR": str(run_directory), "LC_ALL": locale}
        done = subprocess.run(command, cwd="/", env=environment, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        made = files_below(run_directory / "data")
        assert made.pop(os.path.normpath(name.lstrip("/"))) == 5
        assert len(made) == len(outputs) - 1


# --------------------------------------------------------------------------------------------------- recorded workflows

INSTANCES = (*sorted(REPOSITORY.glob("tests/data/wfinstances/*.json")), *REPOSITORY.glob("doc/examples/montage/*.json"))


def graph_of(path: Path, **scales: float) -> TaskGraph:
    return read_wfformat(
        path.read_bytes(), {"python": sys.executable, "program": str(PROGRAM), **scales}, Origin(str(path))
    )


def run(task: Task, run_directory: Path) -> subprocess.CompletedProcess[str]:
    assert isinstance(task.command, tuple)
    environment = {**os.environ, "LONGSHORE_JOB_RUN_DIR": str(run_directory)}
    return subprocess.run(task.command, cwd="/", env=environment, capture_output=True, text=True, check=False)


def test_all_six_are_here() -> None:
    assert len(INSTANCES) == 6


@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.stem)
def test_a_recorded_workflow_makes_all_its_outputs(path: Path, tmp_path: Path) -> None:
    graph = graph_of(path, timeScale=0, outputScale=1e-4)
    for task in graph.dag:
        done = run(task, tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"replayed '{task.name}': ")
    made = {f"data/{name}": size for name, size in files_below(tmp_path / "data").items()}
    outputs = [graph.files[name] for task in graph.dag for name in task.outputs]
    assert made == {file.path: math.ceil((file.size_b or 0) / 1e4) for file in outputs}


@pytest.mark.parametrize("path", INSTANCES, ids=lambda path: path.stem)
def test_a_task_before_its_time_fails(path: Path, tmp_path: Path) -> None:
    graph = graph_of(path, timeScale=0)
    last = graph.dag.nodes[graph.dag.order[-1]]
    done = run(last, tmp_path)
    assert done.returncode == 3
    assert "is missing" in done.stderr
    assert files_below(tmp_path) == {}


# ----------------------------------------------------------------------------------------------------- time and memory


def seconds_of(*words: str) -> tuple[float, float]:
    """Wall and processor seconds of a replay."""
    begin = time.monotonic()
    pid = os.posix_spawn(COMMAND[0], [*COMMAND, *words], os.environ)
    _, status, usage = os.wait4(pid, 0)
    assert status == 0
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime


def test_it_sleeps_or_computes_for_the_time() -> None:
    wall, cpu = seconds_of("--seconds", "1")
    assert wall >= 1
    # It takes some to start, and more where coverage is measured.
    assert cpu < 0.75
    wall, cpu = seconds_of("--seconds", "2", "--cpu", "1")
    assert wall >= 2
    # On a crowded machine a process gets less of a processor than it asks for.
    assert cpu > 0.1


def test_it_computes_for_a_part_of_the_time() -> None:
    _, cpu = seconds_of("--seconds", "1", "--cpu", "0.3")
    assert 0.05 < cpu < 0.8


def test_memory_is_really_allocated() -> None:
    def resident_b() -> int:
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text("utf-8"))
        return int(found[1]) * 1024 if found else 0

    with subprocess.Popen([*COMMAND, "--seconds", "60", "--memory", "100000000"]) as process:
        deadline = time.monotonic() + 120
        while resident_b() < 100_000_000 and time.monotonic() < deadline:
            time.sleep(0.01)
        held = resident_b()
        process.terminate()
    assert 100_000_000 <= held < 130_000_000


def test_any_python_from_3_6_reads_it() -> None:
    text = PROGRAM.read_text("utf-8")
    ast.parse(text, feature_version=(3, 6))
    assert "from __future__" not in text, "annotations of that kind came with 3.7"
    assert os.access(PROGRAM, os.X_OK)


# ------------------------------------------------------------------------------------------------------ what goes wrong


def test_a_missing_input_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"1234")
    (tmp_path / "there").write_bytes(b"1234")
    words = [word for path in ("4:there", "5:short", "0:gone/x") for word in ("--input", path)]
    done = replay(*words, "--output", "1:out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "replay: the input 'short' has 4 bytes, not 5\n"
        "replay: the input 'gone/x' is missing: No such file or directory\n"
    )
    assert files_below(tmp_path) == {"short": 4, "there": 4}


WRONG = {
    "unknown": (["--what", "1"], "there is no option '--what'; see --help"),
    "no option": (["x"], "there is no option 'x'; see --help"),
    "no value": (["--seconds"], "the option --seconds needs a value"),
    "no number": (["--seconds", "long"], "--seconds 'long': could not convert string to float"),
    "negative": (["--seconds", "-1"], "--seconds '-1': out of range"),
    "for ever": (["--seconds", "inf"], "--seconds 'inf': out of range"),
    "not a number": (["--seconds", "nan"], "--seconds 'nan': out of range"),
    "more than one core": (["--cpu", "1.5"], "--cpu '1.5': out of range"),
    "part of a byte": (["--memory", "1.5"], "--memory '1.5': not a whole number"),
    "no size": (["--output", "name"], "--output 'name': not of the form SIZE:PATH"),
    "no path": (["--output", "5:"], "--output '5:': not of the form SIZE:PATH"),
    "size no number": (["--input", "x:y"], "--input 'x:y': not a whole number"),
    "absolute": (["--output", "5:/etc/x"], "--output '5:/etc/x': the path leaves the root"),
    "way out": (["--output", "5:a/../../x"], "the path leaves the root"),
    "no file": (["@none"], "cannot read the words in 'none': [Errno 2] No such file or directory"),
    "no JSON": (["@broken"], "cannot read the words in 'broken': Expecting value"),
    "no list": (["@object"], "'object' holds no list of strings"),
    "no strings": (["@numbers"], "'numbers' holds no list of strings"),
    "again and again": (["@itself"], "a file of words must not name another, as it does in '@itself'"),
}


@pytest.mark.parametrize(("words", "message"), WRONG.values(), ids=WRONG.keys())
def test_wrong_options_are_refused(tmp_path: Path, words: list[str], message: str) -> None:
    texts = {"broken": "--name x", "object": "{}", "numbers": "[1]", "itself": '["@itself"]'}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, "utf-8")
    done = replay("--output", "1:made", *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("replay: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(option: str) -> None:
    done = replay("--name", "x", option)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: replay.py ")
    assert "Example: " in done.stdout


def test_the_example_of_the_help_works(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"0123456789")
    _, _, line = replay("--help").stdout.partition("Example: python3 replay.py ")
    done = replay(*shlex.split(line), cwd=tmp_path)
    assert (done.returncode, files_below(tmp_path)) == (0, {"a.txt": 10, "out/b.txt": 2000})


def test_an_output_that_does_not_fit_is_named_and_removed(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk: the system refuses the same call."""
    words = shlex.join([*COMMAND, "--output", "100:first", "--output", "3000000:out/second"])
    done = subprocess.run(
        ["sh", "-c", f"ulimit -f 100; exec {words}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "replay: cannot write the output 'out/second': File too large\n"
    assert files_below(tmp_path) == {"first": 100}


@pytest.mark.parametrize(
    ("path", "why"),
    [("file/x", "Not a directory"), ("folder", "Is a directory"), ("x" * 300, "File name too long")],
    ids=["in a file", "a folder", "long"],
)
def test_an_impossible_output_path_is_named(tmp_path: Path, path: str, why: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    done = replay("--output", f"5:{path}", cwd=tmp_path)
    assert done.returncode == 4
    assert done.stderr.startswith(f"replay: cannot write the output '{path}': ")
    # What the system says differs when it finds a file where a folder is to be.
    assert why in done.stderr or "File exists" in done.stderr
    assert files_below(tmp_path) == {"file": 0}


@pytest.mark.parametrize("size", [10**17, 10**30])
def test_a_failed_allocation_is_reported(size: int) -> None:
    done = replay("--memory", str(size))
    assert (done.returncode, done.stderr) == (5, f"replay: cannot hold {size} bytes of memory\n")


# -------------------------------------------------------------------------------------------------------------- signals


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has something of its own to do when it gets a signal."""
    found = re.search(r"^SigCgt:\s+(\w+)$", Path(f"/proc/{pid}/status").read_text("utf-8"), re.MULTILINE)
    return bool(found and int(found[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("cpu", ["0", "1"])
def test_a_signal_ends_it_while_it_works(tmp_path: Path, number: signal.Signals, cpu: str) -> None:
    words = ("--seconds", "600", "--cpu", cpu, "--output", "5:x")
    # Under nohup it ignores one of them.
    heeding = ["env", "--default-signal=HUP", *COMMAND, *words]
    with subprocess.Popen(heeding, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 120
        # The last of those that it prepares for.
        while not catches(process.pid, signal.SIGHUP):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (-number, b"")
    assert files_below(tmp_path) == {}


def test_a_signal_while_it_writes_leaves_nothing_half_written(tmp_path: Path) -> None:
    words = [word for number in range(100) for word in ("--output", f"50000000:{number}")]
    with subprocess.Popen([*COMMAND, *words], cwd=tmp_path) as process:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(".replay-*.tmp")) and time.monotonic() < deadline:
            time.sleep(0.001)
        process.terminate()
        assert process.wait(timeout=120) == -signal.SIGTERM
    assert all(name.isdigit() and size == 50_000_000 for name, size in files_below(tmp_path).items())


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    words = shlex.join([*COMMAND, "--seconds", "0.4"])
    with subprocess.Popen(["sh", "-c", f"trap '' HUP; exec {words}"], stdout=subprocess.PIPE) as process:
        time.sleep(0.2)
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=120)
    assert process.returncode == 0
