"""What ``submit`` says and leaves, and the ways of telling it what to run."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.command import Cli, CommandResult
from tests.workflows import Tasks, WriteRun

TWO: Tasks = {"a": ("A", []), "b": ("B", ["a"])}


def log(ran: CommandResult, name: str = "a.1.log") -> str:
    """What a job of a submitted run said."""
    return next(Path(ran.json["submit_dir"], "logs").rglob(name)).read_text("utf-8")


def done(cli: Cli, *words: str | Path, env: dict[str, str] | None = None) -> CommandResult:
    """Submit and wait for a good end."""
    ran = cli("submit", *words, "--wait", "--json", env=env)
    assert ran.returncode == 0, ran.stderr
    assert ran.json["state"] == "SUCCEEDED"
    return ran


# ------------------------------------------------------------------------------------------------------ what is printed


def test_the_three_lines_of_bps(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    ran = cli("submit", write_run().name)
    assert ran.returncode == 0
    found = re.fullmatch(r"Submit dir: (.*)\nRun Id: ([a-z][a-z0-9]{5})\nRun Name: (.*)\n", ran.stdout)
    assert found, ran.stdout
    assert found[1].startswith(f"{tmp_path}/submit/u/")
    assert found[3].startswith("u_")
    assert "the engine runs in" in ran.stderr, "how the engine is detached"
    assert len(ran.said) == 1, "a short run has nothing else to say"


@pytest.mark.parametrize("words", [(), ("--wait",), ("--make-id-link",)])
def test_the_three_lines_are_found_as_cm_service_looks_for_them(
    cli: Cli, write_run: WriteRun, words: tuple[str, ...]
) -> None:
    """In one file of standard output and standard error, it takes each line that has a single colon for a pair."""
    ran = cli("submit", write_run().name, *words)
    found: dict[str, str] = {}
    for line in f"{ran.stderr}{ran.stdout}".splitlines():
        parts = line.split(":")
        if len(parts) == 2:
            # Of two lines that begin alike the later one counts.
            found[parts[0]] = parts[1].strip()
    assert Path(found["Submit dir"], "run.json").is_file()
    assert cli("status", "--id", found["Run Id"], "--json").json["name"] == found["Run Name"]


def test_waiting_ends_with_one_line(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run(tasks=TWO).name, "--wait")
    assert ran.returncode == 0
    assert re.fullmatch(r"2 jobs, succeeded 2/2, failed 0/2, wall time \d+\.\d s", ran.stdout.splitlines()[-1])


def test_waiting_for_a_failure(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("submit", write_run("runQuantumCommand: 'exit 1'\n", TWO).name, "--wait")
    assert ran.returncode == 19
    assert ran.stdout.splitlines()[-1].startswith("2 jobs, succeeded 0/2, failed 1/2, pruned 1/2")
    assert re.search(r"failures and their logs: longshore report [a-z0-9]{6}\n$", ran.stderr)


def test_stages_are_told_to_who_asks(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("--log-level", "VERBOSE", "submit", write_run().name)
    for stage in (
        "reading the payload",
        "clustering 1 task",
        "making jobs of 1 cluster",
        "writing 1 job to",
        "submitting the run",
    ):
        assert stage in ran.stderr


def test_json_has_the_notes(cli: Cli, write_run: WriteRun) -> None:
    ran = done(cli, write_run("runQuantumCommand: 'true'\nresources: {memory: 1 GiB}\n").name)
    assert any("lowered to the available 1024 MiB" in note for note in ran.json["notes"])
    assert any("the engine runs" in note for note in ran.json["notes"])
    assert (ran.json["jobs"], ran.json["service"], ran.json["site"]) == (1, "local", "local")


def test_runs_of_one_second_have_names_of_their_own(cli: Cli, write_run: WriteRun) -> None:
    name = write_run().name
    with ThreadPoolExecutor() as pool:
        ran = list(pool.map(lambda _: cli("submit", name, "--json"), range(4)))
    assert [each.returncode for each in ran] == [0] * 4, [each.stderr for each in ran]
    assert len({each.json["id"] for each in ran}) == 4
    assert len({each.json["submit_dir"] for each in ran}) == 4


def test_a_link_named_by_the_id(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    ran = cli("submit", write_run().name, "--make-id-link", "--json")
    assert (tmp_path / "bps_links" / ran.json["id"]).resolve() == Path(ran.json["submit_dir"])


# ------------------------------------------------------------------------------------------------------- configuration


def test_values_of_every_kind(cli: Cli, write_run: WriteRun) -> None:
    text = """
who: world
greeting: "hi {who} ${FROM_OUTSIDE}"
environment: {A: "{greeting}", B: 1, J: "{jobName}-{label}", E: "a b'c", N: null}
runQuantumCommand: 'echo "$A|$B|$J|$E|${N-none}|{who}|{jobName}|$FROM_OUTSIDE|${FROM_OUTSIDE}"'
"""
    ran = done(cli, write_run(text).name, env={"FROM_OUTSIDE": "x"})
    assert log(ran) == "hi world x|1|a-A|a b'c|none|world|a|x|x\n"


def test_setting_values_on_the_command_line(cli: Cli, write_run: WriteRun) -> None:
    name = write_run("who: world\nrunQuantumCommand: 'echo {who}'\n").name
    assert log(done(cli, name, "--set", "who=moon")) == "moon\n"
    assert log(done(cli, name, "--set", ".who=sun")) == "sun\n"
    assert log(done(cli, name, "--set", "who=moon", "--set", "who=mars")) == "mars\n"
    assert log(done(cli, name, "--set", "pipetask.A.runQuantumCommand=echo of the label")) == "of the label\n"
    assert log(done(cli, name, "--set", 'runQuantumCommand=[echo, "{who} * $$", "a  b"]')) == "world * $$ a  b\n"
    assert log(done(cli, name, "--set", "who=")) == "\n"


def test_a_command_per_label(cli: Cli, write_run: WriteRun) -> None:
    text = "runQuantumCommand: echo root\npipetask: {B: {runQuantumCommand: [echo, label]}}\n"
    ran = done(cli, write_run(text, TWO).name)
    assert (log(ran), log(ran, "b.1.log")) == ("root\n", "label\n")


def test_a_payload_beside_its_yaml(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    write_run()
    below = tmp_path / "below"
    below.mkdir()
    for name in ("run.yaml", "graph.json"):
        (tmp_path / name).rename(below / name)
    (below / "more.yaml").write_text("runQuantumCommand: 'echo included; pwd'\n", "utf-8")
    (below / "run.yaml").write_text("includeConfigs: more.yaml\nwfformat: graph.json\n", "utf-8")
    ran = done(cli, "below/run.yaml")
    assert log(ran) == f"included\n{tmp_path}\n", "jobs start where the run was submitted"
    assert ran.json["submit_dir"].startswith(f"{tmp_path}/submit/")
    inputs = {path.name for path in Path(ran.json["submit_dir"], "inputs").iterdir()}
    assert inputs == {"run.yaml", "more.yaml", "graph.json"}


def test_names_of_output_and_directory(cli: Cli, write_run: WriteRun) -> None:
    ran = done(cli, write_run().name, "--output-run", "my runs/one")
    assert ran.json["name"] == "my runs_one"
    assert ran.json["submit_dir"].endswith("/submit/my runs/one")
    ran = done(cli, write_run().name, "--set", "submitPath=elsewhere")
    assert Path(ran.json["submit_dir"]).name == "elsewhere"


def test_unicode_in_a_plain_locale(cli: Cli, write_run: WriteRun) -> None:
    tasks: Tasks = {"größe-ü/日本": ("étape ☃", [])}
    plain = {"LANG": "C", "LC_ALL": "POSIX"}
    path = write_run("runQuantumCommand: 'echo {jobName} {label}'\n", tasks, name="ü.yaml")
    ran = done(cli, path.name, env=plain)
    assert log(ran, "*.log") == "größe-ü/日本 étape ☃\n"
    report = cli("report", ran.json["id"], env=plain)
    assert report.returncode == 0
    assert "étape ☃" in report.stdout


def test_real_workflows_need_no_command(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        'wfformat: "${INSTANCE}"\nreplay: {timeScale: 0}\n',
        "utf-8",
    )
    instances = Path(__file__).parents[1] / "data" / "wfinstances"
    smallest = min(instances.glob("*.json"), key=lambda path: path.stat().st_size)
    ran = done(cli, "run.yaml", env={"INSTANCE": str(smallest)})
    assert ran.json["jobs"] > 1


# ---------------------------------------------------------------------------------------------------- a job's own world


def test_what_a_job_is_told(cli: Cli, write_run: WriteRun) -> None:
    text = """
requestMemory: 100
requestDisk: 5
requestResources: {lic-A: 2}
resources: {lic-A: 3}
runQuantumCommand: 'env | grep ^LONGSHORE_JOB_ | sort'
"""
    ran = done(cli, write_run(text).name)
    told = dict(line.split("=", 1) for line in log(ran).splitlines())
    assert (
        told.items()
        >= {
            "LONGSHORE_JOB_NAME": "a",
            "LONGSHORE_JOB_LABEL": "A",
            "LONGSHORE_JOB_ATTEMPT": "1",
            "LONGSHORE_JOB_CPUS": "1",
            "LONGSHORE_JOB_MEMORY_MB": "100",
            "LONGSHORE_JOB_DISK_MB": "5",
            "LONGSHORE_JOB_RESOURCE_LIC_A": "2",
            "LONGSHORE_JOB_RUN_DIR": ran.json["submit_dir"],
        }.items()
    )


def test_a_fresh_empty_tmpdir_that_goes(cli: Cli, write_run: WriteRun) -> None:
    command = 'echo "$TMPDIR"; ls -A "$TMPDIR" | wc -l; touch "$TMPDIR/left"; test $LONGSHORE_JOB_ATTEMPT = 2'
    ran = done(cli, write_run(f"runQuantumCommand: '{command}'\nretryUnlessExit: null\n").name)
    folders = []
    for attempt in ("a.1.log", "a.2.log"):
        folder, count = log(ran, attempt).split("\n")[:2]
        assert count.strip() == "0"
        assert not os.path.lexists(folder)
        folders.append(folder)
    assert folders[0] != folders[1]


def test_the_run_directory_has_one_path_wherever_a_job_runs(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    line = "echo {submitPath} $LOGS {logs}; ls {submitPath}/workflow.jsonl"
    (tmp_path / "run.yaml").write_text(
        "submitPath: sub/{payloadName}\npayloadName: p\nworkingDirectory: '${PWD}/elsewhere'\n"
        f"logs: '{{submitPath}}/logs'\nenvironment: {{LOGS: '{{submitPath}}/logs'}}\nfinalJob: {{command1: '{line}'}}\n"
        f"pipeline:\n  tasks:\n    line: {{command: '{line}'}}\n"
        "    words: {command: [ls, '{submitPath}/workflow.jsonl']}\n",
        "utf-8",
    )
    ran = cli("submit", "run.yaml", "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    root = tmp_path / "sub" / "p"
    logs = {path.name: path.read_text("utf-8") for path in root.glob("logs/*/00/*.log")}
    assert logs["line.1.log"] == f"{root} {root}/logs {root}/logs\n{root}/workflow.jsonl\n"
    assert logs["words.1.log"] == f"{root}/workflow.jsonl\n"
    assert f"\n{root} {root}/logs {root}/logs\n" in logs["finalJob.1.log"]


NAMES = 'it\'s "q" $HOME ${USER} <ENV:HOME> {operator} {{x}} %d %(x)s $(X) $$(Y) a;b * \\n'


def test_names_of_files_and_values_are_data(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / NAMES
    (folder / "data").mkdir(parents=True)
    for number, name in enumerate(("{n}", "$HOME", "<ENV:HOME>")):
        (folder / "data" / f"x{name}.txt").write_text(f"{number}\n", "utf-8")
    (folder / "{payload} $X.yaml").write_text(
        """
root: "${PWD}/out"
pipeline:
  dimensions: {f: {glob: "${PWD}/data/x{f}.txt"}}
  datasets:
    raw: "${PWD}/data/x{f}.txt"
    seen: "{root}/o_{f}.txt"
    all: "{root}/all.txt"
  tasks:
    a:
      dimensions: [f]
      command: |
        cat {raw} > {seen}
        printf '%s\\n' "$V" "$W" {f} "[{f}]" '{payloadName}' {payloadName} "$PWD" >> {seen}
      inputs: [raw]
      outputs: [seen]
    b:
      command: [sh, -c, 'printf "%s\\n" "$@" > "$0"', "{all}", "${PWD}", "{payloadName}", "<ENV:LONGSHORE_JOB_NAME>"]
      inputs: [seen]
      outputs: [all]
environment: {V: "{f} {root} {payloadName}", W: "$PWD/<ENV:LONGSHORE_JOB_LABEL>/<{f}>"}
requestMemory: 50
""",
        "utf-8",
    )
    ran = cli("submit", "{payload} $X.yaml", "--wait", "--json", cwd=folder)
    assert (ran.returncode, ran.json["state"]) == (0, "SUCCEEDED"), ran.stderr
    payload = "{payload} $X"
    assert (folder / "out" / "all.txt").read_text("utf-8").splitlines() == [str(folder), payload, "b"]
    for number, name in enumerate(("{n}", "$HOME", "<ENV:HOME>")):
        assert (folder / "out" / f"o_{name}.txt").read_text("utf-8").splitlines() == [
            str(number),
            f"{name} {folder}/out {payload}",
            f"{folder}/a/<{name}>",
            name,
            f"[{name}]",
            payload,
            payload,
            str(folder),
        ]


def test_outputs_inside_the_run_directory(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(
        "payloadName: p\npipeline: {tasks: {make: {command: 'echo made > {out}', outputs: {out: '{place}/a.txt'}}}}\n"
        "place: '{submitPath}/out'\nnumberOfRetries: 0\n",
        "utf-8",
    )
    ran = cli("submit", "run.yaml", "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    assert (Path(ran.json["submit_dir"]) / "out" / "a.txt").read_text("utf-8") == "made\n"


@pytest.mark.parametrize(
    ("text", "attempts"),
    [
        ("", 1),
        ("retryOn: {exit: [3]}\n", 3),
        ("numberOfRetries: 1\n", 2),
        ("retryOn: {exit: [3]}\nnumberOfRetries: 0\n", 1),
    ],
)
def test_a_failure_is_retried_where_that_is_asked_for(
    cli: Cli, write_run: WriteRun, monkeypatch: pytest.MonkeyPatch, text: str, attempts: int
) -> None:
    for name in [name for name in os.environ if name.startswith(("LONGSHORE_RETRY_", "LONGSHORE_NUMBER_OF_RETRIES"))]:
        monkeypatch.delenv(name)
    ran = cli("submit", write_run(f"runQuantumCommand: exit 3\nretryDelay: 0\n{text}"), "--wait")
    assert ran.returncode == 19, ran.stderr
    (run,) = cli("report", "--id", "@last", "--json").json["runs"]
    assert [job["attempts"] for job in run["jobs"]] == [attempts]
