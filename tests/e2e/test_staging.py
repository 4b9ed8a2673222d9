"""Jobs whose files are staged, as a user sees them: inputs, outputs, failed transfers, kills, restarts and mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.e2e.slurm_stand_ins import write_programs
from tests.waiting import engine_of, rest

TASKS = {
    "make": {
        "dimensions": ["sample"],
        "command": "cat {raw} > {one}; mkdir -p {tree}/below; cp {raw} {tree}/below/leaf; ls > {names}",
        "inputs": ["raw"],
        "outputs": ["one", "tree", "names"],
    },
    "join": {
        "command": "cat {one} > {all}; find {tree} -name leaf | sort | xargs cat >> {all}",
        "inputs": ["one", "tree"],
        "outputs": ["all"],
    },
}


def pipeline(folder: Path, tasks: dict[str, Any], **more: object) -> str:
    """Write a configuration whose jobs run in scratch directories."""
    datasets = {
        "raw": f"{folder}/raw data/{{sample}}.txt",
        "one": "made of it/{sample}.one",
        "tree": "trees/{sample}",
        "names": "made of it/{sample}.names",
        "all": f"{folder}/far/all.txt",
    }
    used = {name for task in tasks.values() for name in (*task.get("inputs", ()), *task.get("outputs", ()))}
    values = {
        "payload": {"payloadName": "p"},
        "fileSystem": "scratch",
        "numberOfRetries": 0,
        "retryDelay": 0.01,
        "requestMemory": 10,
        "pipeline": {
            "dimensions": {"sample": ["A", "B"]},
            "datasets": {name: path for name, path in datasets.items() if name in used},
            "tasks": tasks,
        },
        **more,
    }
    (folder / "raw data").mkdir(exist_ok=True)
    (folder / "far").mkdir(exist_ok=True)
    for sample in "AB":
        (folder / "raw data" / f"{sample}.txt").write_text(f"{sample}\n", "utf-8")
    (folder / "run.yaml").write_text(json.dumps(values), "utf-8")
    return "run.yaml"


def jobs_of(cli: Cli) -> dict[str, dict[str, Any]]:
    jobs = cli("report", "@last", "--json").json["runs"][0]["jobs"]
    return {job["name"]: job for job in jobs}


def attempts(cli: Cli, job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cli("explain", "@last", job, "--json").json["attempts"]
    return found


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.rglob(".longshore-stage*") if path.is_dir()]


def until(is_so: Any, seconds: float = 100.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if is_so():
            return
        assert time.monotonic() < deadline
        rest(began, 0.05)


def test_jobs_run_in_scratch_directories_and_their_outputs_are_published(cli: Cli, tmp_path: Path) -> None:
    ran = cli("submit", pipeline(tmp_path, TASKS), "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    assert (tmp_path / "far" / "all.txt").read_text("utf-8") == "A\nB\nA\nB\n"
    (names,) = tmp_path.rglob("A.names")
    assert set(names.read_text("utf-8").splitlines()) == {"made of it", "raw data", "trees"}, "it ran in scratch"
    assert leftovers(tmp_path) == []
    assert not list((run / "stage").rglob("*.1")), "records are removed once they are in the journal"
    (attempt,) = attempts(cli, "join")
    staged = attempt["staged"]
    assert (staged["files_in"], staged["bytes_in"], staged["files_out"], staged["bytes_out"]) == (4, 8, 1, 8)
    shown = cli("show-job", "@last", "join")
    assert "Staged:    4 files in, 8 B in " in shown.stdout
    assert cli("show-job", "@last", "join", "--json").json["staged"] == staged
    assert "staged 4 files in, 8 B in " in cli("explain", "@last", "join").stdout
    assert '"staged":{' in cli("events", "@last", "--json").stdout
    assert "Staged: 6 files in, 12 B in " in cli("report", "@last").stdout
    labels = cli("report", "@last", "--json").json["runs"][0]["label_summaries"]
    assert labels["join"]["staged"] == staged
    assert (labels["make"]["staged"]["files_in"], labels["make"]["staged"]["files_out"]) == (2, 6)


def test_a_missing_input_and_a_failed_transfer_are_causes_with_retries_of_their_own(cli: Cli, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    line = f"test -e {flag} || (touch {flag}; echo no route >&2; exit 5) && cp {{source}} {{target}}"
    tasks = {"join": {"command": "cat {raw} > {all}", "inputs": ["raw"], "outputs": ["all"]}}
    name = pipeline(tmp_path, tasks, transferCommand=line, retryOnTransfer=1)
    assert cli("submit", name, "--wait").returncode == 0
    first, second = attempts(cli, "join")
    assert (first["cause"], second["cause"]) == ("TRANSFER", None)
    assert first["reason"].startswith("the input '")
    assert first["reason"].endswith("cannot be transferred: no route")
    # The input is there when the run begins, and gone when the job does.
    tasks["wait"] = {"command": f"rm '{tmp_path}/raw data/B.txt'; touch {{tree}}", "outputs": ["tree"]}
    tasks["join"]["inputs"] = ["raw", "tree"]
    values = json.loads((tmp_path / pipeline(tmp_path, tasks, retryOnTransfer=1)).read_text("utf-8"))
    values["pipeline"]["datasets"]["tree"] = "token"
    (tmp_path / "run.yaml").write_text(json.dumps(values), "utf-8")
    assert cli("submit", "run.yaml", "--wait").returncode == 19
    missing = attempts(cli, "join")
    reason = f"the input '{tmp_path}/raw data/B.txt' is missing"
    assert [(attempt["cause"], attempt["reason"]) for attempt in missing] == [("INPUT_MISSING", reason)] * 2
    told = "files could not be transferred 2 times, and retryOnTransfer is 1"
    assert told in cli("explain", "@last", "join").stdout


def test_an_input_that_nothing_puts_into_the_run_directory_is_noted_and_missing(cli: Cli, tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [
        {"kind": "longshore-graph", "version": 1, "name": "p", "tasks": 1, "edges": 0, "files": 2},
        {"name": "lost"},
        {"name": "all", "path": f"{tmp_path}/all.txt"},
        {"name": "join", "label": "join", "command": "cat <FILE:lost> > <FILE:all>", "inputs": [0], "outputs": [1]},
    ]
    (tmp_path / "graph.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    text = "graphFile: graph.jsonl\nfileSystem: scratch\nretryOnTransfer: 0\nnumberOfRetries: 0\n"
    (tmp_path / "run.yaml").write_text(text, "utf-8")
    told = "1 input is not in the run directory, and no job makes it: 'lost'"
    assert told in cli("config", "lint", "run.yaml").stdout
    ran = cli("submit", "run.yaml", "--wait")
    assert (ran.returncode, ran.stderr.count(told)) == (19, 1)
    assert attempts(cli, "join")[0]["cause"] == "INPUT_MISSING"


def test_a_half_transfer_is_never_under_its_name_and_a_cancelled_job_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    tasks = {"join": {"command": "cat {raw} > {all}", "inputs": ["raw"], "outputs": ["all"]}}
    line = f"head -c 1 {{source}} > {{target}}; touch {tmp_path}/half; sleep 300"
    run = cli("submit", pipeline(tmp_path, tasks, transferCommand={"out": line}), "--json").json["submit_dir"]
    until((tmp_path / "half").exists)
    assert leftovers(tmp_path / "far")
    assert not (tmp_path / "far" / "all.txt").exists()
    assert cli("cancel", run).returncode == 0
    until(lambda: cli("report", run, "--json").json["runs"][0]["state"] == "DELETED")
    assert list((tmp_path / "far").iterdir()) == []


def test_a_run_goes_on_after_its_engine_was_killed(cli: Cli, tmp_path: Path) -> None:
    tasks = {
        "make": {**TASKS["make"], "command": "sleep 0.3; " + str(TASKS["make"]["command"])},
        "join": TASKS["join"],
    }
    run = Path(cli("submit", pipeline(tmp_path, tasks), "--json").json["submit_dir"])
    until(lambda: list((run / "journal").glob("*")))
    os.kill(engine_of(run), signal.SIGKILL)
    assert cli("resume", run).returncode == 0
    until(lambda: cli("report", run, "--json").json["runs"][0]["state"] == "SUCCEEDED")
    assert (tmp_path / "far" / "all.txt").read_text("utf-8") == "A\nB\nA\nB\n"
    assert attempts(cli, "make_A")[0]["staged"]["files_in"] == 1


def test_the_script_of_a_job_stages_its_files(cli: Cli, tmp_path: Path) -> None:
    assert cli("submit", pipeline(tmp_path, TASKS), "--wait").returncode == 0
    made = sorted(path for folder in ("made of it", "trees", "far") for path in (tmp_path / folder).rglob("*"))
    content = {path: path.read_bytes() for path in made if path.is_file()}
    assert len(content) == 7
    for path in content:
        path.unlink()
    for job in ("make_A", "make_B", "join"):
        done = run_by_hand(cli, job, tmp_path)
        assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in content} == content
    assert leftovers(tmp_path) == []
    (tmp_path / "raw data" / "A.txt").unlink()
    without = run_by_hand(cli, "make_A", tmp_path)
    assert without.returncode == 66
    assert f"the input '{tmp_path}/raw data/A.txt' is missing" in without.stderr
    assert len(attempts(cli, "make_A")) == 1, "the record of the run does not learn of it"


def run_by_hand(cli: Cli, job: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Pipe the script of a job into a shell that is elsewhere."""
    script = cli("show-job", "@last", job, "--script").stdout
    return subprocess.run(["sh"], input=script, cwd=folder / "far", capture_output=True, text=True, check=False)


def test_patterns_are_published_and_read(cli: Cli, tmp_path: Path) -> None:
    tasks = {
        "split": {"command": 'for i in 1 2 3; do echo $i > "parts/p $i.txt"; done', "outputs": ["parts"]},
        "sum": {"command": "cat parts/*.txt > {all}", "inputs": ["parts"], "outputs": ["all"]},
    }
    name = pipeline(tmp_path, tasks)
    values = json.loads((tmp_path / name).read_text("utf-8"))
    values["pipeline"]["datasets"]["parts"] = "parts/*.txt"
    (tmp_path / name).write_text(json.dumps(values), "utf-8")
    ran = cli("submit", name, "--wait", "--json")
    assert ran.returncode == 0, ran.stderr


def test_a_full_scratch_disk_is_a_failed_transfer(cli: Cli, tmp_path: Path, small_disk: Path) -> None:
    tasks = {"join": {"command": "cat {raw} > {all}", "inputs": ["raw"], "outputs": ["all"]}}
    name = pipeline(tmp_path, tasks, scratch=str(small_disk), retryOnTransfer=1)
    (tmp_path / "raw data" / "A.txt").write_bytes(b"x" * (5 << 20))
    assert cli("submit", name, "--wait").returncode == 19
    found = attempts(cli, "join")
    assert [attempt["cause"] for attempt in found] == ["TRANSFER", "TRANSFER"]
    assert "No space left on device" in found[0]["reason"]
    until(lambda: not list(small_disk.rglob("A.txt")))
    assert list((tmp_path / "far").iterdir()) == []


def test_a_full_scratch_disk_of_a_cluster_is_a_failed_transfer(
    cli: Cli, tmp_path: Path, own_environment: Path, small_disk: Path
) -> None:
    profile = own_environment / ".config" / "longshore" / "sites" / "cluster.yaml"
    profile.parent.mkdir(parents=True)
    profile.write_text(
        f"title: A cluster\nservice: slurm\nscratch: {small_disk}\nslurm: {{pollInterval: 0.2}}\n", "utf-8"
    )
    programs = write_programs(tmp_path / "slurm")
    tasks = {"join": {"command": "cat {raw} > {all}", "inputs": ["raw"], "outputs": ["all"]}}
    name = pipeline(tmp_path, tasks, computeSite="cluster", retryOnTransfer=1)
    (tmp_path / "raw data" / "A.txt").write_bytes(b"x" * (5 << 20))
    ran = cli("submit", name, "--wait", "--no-probe", env=programs)
    assert ran.returncode == 19, ran.stderr
    found = attempts(cli, "join")
    assert [attempt["cause"] for attempt in found] == ["TRANSFER", "TRANSFER"]
    assert "No space left on device" in found[0]["reason"]
    until(lambda: not list(small_disk.rglob("*.txt")))
    assert list((tmp_path / "far").iterdir()) == []


@pytest.mark.parametrize(
    ("path", "reason"),
    [("parts/*.txt", "no file matches the output '{folder}/parts/*.txt'"), ("store://out", "'store://out' is missing")],
    ids=["pattern", "url"],
)
def test_outputs_that_only_their_host_can_check_are_missing(cli: Cli, tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "old.txt").write_text("of an earlier run", "utf-8")
    tasks = {"join": {"command": "echo done", "outputs": ["all"]}}
    commands = {"urls": {"store": f"cp {{source}} {tmp_path}/{{target}}"}}
    values = json.loads((tmp_path / pipeline(tmp_path, tasks, transferCommand=commands)).read_text("utf-8"))
    values["pipeline"]["datasets"] = {"all": path}
    (tmp_path / "run.yaml").write_text(json.dumps(values), "utf-8")
    assert cli("submit", "run.yaml", "--wait").returncode == 19
    (attempt,) = attempts(cli, "join")
    assert attempt["cause"] == "OUTPUT_MISSING"
    assert reason.format(folder=tmp_path) in attempt["reason"]
    assert attempt["staged"]["files_out"] == 0


def test_files_at_urls_are_staged_by_the_command_of_their_scheme(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "in.txt").write_text("from far\n", "utf-8")
    (tmp_path / "copy.sh").write_text(
        f'cp "{store}/${{1#store://}}" "$2" 2>/dev/null || cp "$1" "{store}/${{2#store://}}"'
    )
    tasks = {"join": {"command": "tr a-z A-Z < {raw} > {all}", "inputs": ["raw"], "outputs": ["all"]}}
    commands = {"urls": {"store": f"sh {tmp_path}/copy.sh {{source}} {{target}}"}}
    values = json.loads((tmp_path / pipeline(tmp_path, tasks, transferCommand=commands)).read_text("utf-8"))
    values["pipeline"]["datasets"] = {"raw": "store://in.txt", "all": "store://out.txt"}
    (tmp_path / "run.yaml").write_text(json.dumps(values), "utf-8")
    ran = cli("submit", "run.yaml", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert (store / "out.txt").read_text("utf-8") == "FROM FAR\n"
    assert attempts(cli, "join")[0]["staged"]["bytes_out"] == 9


def test_an_attempt_whose_outputs_were_not_published_is_no_success_by_its_log(cli: Cli, tmp_path: Path) -> None:
    tasks = {"join": {**TASKS["join"], "command": "echo new > {all}; echo done; kill -s KILL $PPID; sleep 60"}}
    tasks["make"] = TASKS["make"]
    name = pipeline(tmp_path, tasks, pipetask={"join": {"status": {"regex": {"stream": "stdout", "exp": "^done$"}}}})
    (tmp_path / "far" / "all.txt").write_text("old", "utf-8")
    assert cli("submit", name, "--wait").returncode == 19
    assert (tmp_path / "far" / "all.txt").read_text("utf-8") == "old"
    (attempt,) = attempts(cli, "join")
    assert attempt["cause"] == "SIGNAL"


def test_restart_and_reuse_look_at_published_files(cli: Cli, tmp_path: Path) -> None:
    tasks = {"make": TASKS["make"], "join": {**TASKS["join"], "command": f"test -e {tmp_path}/go && touch {{all}}"}}
    name = pipeline(tmp_path, tasks)
    assert cli("submit", name, "--wait").returncode == 19
    (tmp_path / "go").touch()
    assert cli("restart", "@last").returncode == 0
    until(lambda: cli("report", "@last", "--json").json["runs"][0]["state"] == "SUCCEEDED")
    assert len(attempts(cli, "make_A")) == 1
    next(tmp_path.rglob("B.one")).write_text("changed", "utf-8")
    looked = cli("submit", name, "--reuse", "@last", "--dry-run")
    assert "kept" in looked.stdout
    ran = cli("submit", name, "--reuse", "@last", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert "kept from run" in cli("explain", "@last", "make_A").stdout
    assert "kept from run" not in cli("explain", "@last", "make_B").stdout


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"transferCommand": "cp {src} {target}"}, "has the unknown placeholder '{src}'"),
        ({"transferCommand": "cp {source} x"}, "lacks '{target}'"),
        ({"transferCommand": {"into": "x"}}, "'into'"),
        ({"fileSystem": "shared", "transferCommand": "cp {source} {target}"}, "no effect without"),
        ({"fileSystem": "scrach"}, "scratch"),
    ],
)
@pytest.mark.parametrize("command", [("submit",), ("config", "lint")], ids=" ".join)
def test_mistakes_are_told_with_their_place(
    cli: Cli, tmp_path: Path, more: dict[str, object], words: str, command: tuple[str, ...]
) -> None:
    name = pipeline(tmp_path, {"join": TASKS["make"]}, **more)
    ran = cli(*command, name)
    assert ran.returncode != 0
    assert words in ran.stdout + ran.stderr
    assert "run.yaml:1" in ran.stdout + ran.stderr
