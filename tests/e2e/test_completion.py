"""Completion: what a shell is offered, by click's protocol, and what becomes of it in a real bash."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import Tasks, WriteRun, in_place

SOURCE = Path(__file__).resolve().parents[2] / "python"
THREE: Tasks = {"isr_101_1": ("isr", []), "isr_101_2": ("isr", []), "coadd:7": ("coadd", ["isr_101_1"])}


def offered(cli: Cli, line: str, *, shell: str = "bash", cwd: Path | None = None) -> list[str]:
    """The values that a shell is offered at the end of a line."""
    if shell == "bash":
        env = {"COMP_LINE": line}
    else:
        words = line.split(" ")
        env = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1) if shell == "zsh" else words[-1]}
    ran = cli(env={"_LONGSHORE_COMPLETE": f"{shell}_complete", **env}, cwd=cwd)
    assert (ran.returncode, ran.stderr) in {(0, ""), (1, "")}, ran.stderr
    if shell == "zsh":
        return ran.stdout.splitlines()[1::3]
    return [each.partition(",")[2].partition("\t")[0] for each in ran.stdout.splitlines() if each]


@pytest.fixture
def runs(cli: Cli, write_run: WriteRun) -> tuple[str, str]:
    """Ids of two runs, the older one first."""
    path = write_run(tasks=THREE).name
    first, second = (cli("submit", path, "--wait", "--json", *in_place(n)).json["id"] for n in range(2))
    return first, second


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_runs_newest_first(shell: str, cli: Cli, runs: tuple[str, str]) -> None:
    first, second = runs
    for line in ("longshore report ", "longshore status --id ", "longshore --debug cancel ", "longshore logs "):
        assert offered(cli, line, shell=shell) == ["@last", second, first]
    assert offered(cli, f"longshore report {first}", shell=shell) == [first]
    assert offered(cli, "longshore report @", shell=shell) == ["@last"]


def test_the_last_run_is_offered_only_where_it_is_taken(cli: Cli, runs: tuple[str, str], tmp_path: Path) -> None:
    for command in ("report", "verify"):
        assert offered(cli, f"longshore {command} ", cwd=Path("/")) == ["@last", *reversed(runs)]
    for command in ("cancel", "set", "archive", "forget", "clean"):
        assert offered(cli, f"longshore {command} ", cwd=Path("/")) == [*reversed(runs)]
        assert offered(cli, f"longshore {command} @") == ["@last"]
    (tmp_path / "wrong.yaml").write_text("pipeline: 1\n", "utf-8")
    assert cli("submit", "wrong.yaml").returncode == 3
    assert offered(cli, "longshore cancel @") == [], "the last submit was refused"


def test_what_belongs_to_the_run_that_was_named(cli: Cli, runs: tuple[str, str]) -> None:
    assert sorted(offered(cli, "longshore logs --tail 5 @last --label ")) == ["coadd", "isr"]
    for line in (f"longshore logs {runs[0]} ", "longshore explain @last ", "longshore cancel --id @last --job "):
        assert sorted(offered(cli, line)) == ["coadd:7", "isr_101_1", "isr_101_2"]
    assert sorted(offered(cli, "longshore show-job @last isr_")) == ["isr_101_1", "isr_101_2"]
    assert sorted(offered(cli, "longshore logs @last --label ")) == ["coadd", "isr"]
    assert offered(cli, "longshore cancel @last --label c") == ["coadd"]
    assert sorted(offered(cli, "longshore stats @last --label ")) == ["coadd", "isr"]
    assert offered(cli, "longshore suggest-resources ") == ["@last", *reversed(runs)]
    assert offered(cli, "longshore stats @last ")[2:] == ["@last", *reversed(runs)], (
        "labels of the run, then other runs"
    )
    assert offered(cli, "longshore logs nope ") == [], "no run, and no word about it"


def test_archives_and_what_can_be_cleaned(cli: Cli, runs: tuple[str, str]) -> None:
    assert cli("archive", runs[0], "--output", "kept.tar.gz").returncode == 0
    for line in ("longshore stats k", "longshore report --id k", "longshore draw k"):
        assert offered(cli, line) == ["kept.tar.gz"]
    assert offered(cli, "longshore cancel k") == [], "an archive can only be looked at"
    assert offered(cli, "longshore clean --what ") == ["caches", "logs", "temporary"]
    assert "digraph" in cli("draw", "kept.tar.gz").stdout


def test_the_rest(cli: Cli) -> None:
    assert offered(cli, "longshore re") == ["report", "release", "restart", "resume"]
    assert "local" in offered(cli, "longshore submit x.yaml --compute-site ")
    assert "local" in offered(cli, "longshore site show l")
    assert offered(cli, "longshore ping --wms-service-class lo") == ["local"]
    assert offered(cli, "longshore completion ") == ["bash", "zsh", "fish"]
    assert offered(cli, "longshore site ") == ["check", "init", "list", "match", "set-state", "show"]
    assert "--follow" in offered(cli, "longshore events --")
    assert offered(cli, "longshore nope --x") == []


KEYS = """
flavour: dark
pipetask: {isr: {requestMemory: 1}}
site: {attic: {requestMemory: 2}}
pipeline: {tasks: {isr: {command: "true"}, coadd: {command: "true"}}}
"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_keys_of_the_configuration_section_by_section(shell: str, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "keys.yaml").write_text(KEYS, "utf-8")

    def keys(words: str) -> list[str]:
        return offered(cli, f"longshore {words}", shell=shell)

    assert keys("submit keys.yaml --set requestM") == ["requestMemory=", "requestMemoryMax="]
    assert keys("prepare keys.yaml --set slurm.q")[0] == "slurm.qos="
    assert keys("submit keys.yaml --set fla") == ["flavour="], "a key of the file"
    assert set(keys("submit keys.yaml --set pipetask.")) == {
        "pipetask.pipetaskInit.",
        "pipetask.isr.",
        "pipetask.coadd.",
    }
    assert keys("draw keys.yaml --set pipetask.coadd.requestMemoryM") == ["pipetask.coadd.requestMemoryMax="]
    assert keys("submit keys.yaml --set site.at") == ["site.attic."]
    assert keys("submit keys.yaml --set site.attic.limits.mem") == ["site.attic.limits.memory="]
    assert keys("submit keys.yaml --set finalJob.whenRun=S") == ["finalJob.whenRun=SUCCESS"]
    assert keys("set @last requestR") == ["requestResources."]
    assert "requestMemory=" in keys("restart @last --set request")
    assert keys("config explain keys.yaml requestMemoryM") == ["requestMemoryMax"]
    assert keys("config explain keys.yaml fla") == ["flavour"]
    assert keys("config explain keys.yaml .pipetask.isr.requestMemoryM") == [".pipetask.isr.requestMemoryMax"]


def test_labels_of_the_run_in_keys_of_a_restart(cli: Cli, runs: tuple[str, str]) -> None:
    found = offered(cli, "longshore restart @last --set pipetask.")
    assert {"pipetask.isr.", "pipetask.coadd.", "pipetask.pipetaskInit."} == set(found)
    assert offered(cli, "longshore restart @last --set pipetask.isr.requestMemoryM") == [
        "pipetask.isr.requestMemoryMax="
    ]


def test_keys_are_completed_where_the_file_is_missing_or_wrong(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text("a: [", "utf-8")
    for name in ("wrong.yaml", "nope.yaml"):
        assert "requestMemory=" in offered(cli, f"longshore submit {name} --set request")
    assert "local" in "".join(offered(cli, "longshore submit nope.yaml --set site."))
    assert offered(cli, "longshore submit nope.yaml --set nope.") == []


def test_a_broken_registry_or_run_offers_nothing(cli: Cli, runs: tuple[str, str], own_environment: Path) -> None:
    entry = own_environment / ".local" / "state" / "longshore" / "runs" / f"{runs[0]}.json"
    path = Path(json.loads(entry.read_text("utf-8"))["path"])
    (path / "workflow.jsonl").write_text("{", "utf-8")
    assert offered(cli, f"longshore logs {runs[0]} ") == []
    entry.write_text("{", "utf-8")
    assert offered(cli, "longshore report ") == ["@last", runs[1]]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_scripts(shell: str, cli: Cli) -> None:
    ran = cli("completion", shell)
    assert ran.returncode == 0
    assert "_LONGSHORE_COMPLETE" in ran.stdout
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=ran.stdout, text=True, check=True)
    assert "is not one of 'bash', 'zsh', 'fish'" in cli("completion", "csh").stderr


def test_completing_a_command_imports_none(tmp_path: Path) -> None:
    code = "import sys\nfrom longshore.cli.main import main\ntry: main([])\nexcept SystemExit: pass\n"
    code += "print(*(name for name in sys.modules if name.startswith('longshore.')), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(SOURCE),
            "_LONGSHORE_COMPLETE": "bash_complete",
            "COMP_LINE": "longshore ",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert "plain,submit" in done.stdout
    loaded = set(done.stderr.split())
    assert not {name for name in loaded if name.startswith(("longshore.plan.", "longshore.cli.submit"))}


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_in_a_real_bash(cli: Cli, runs: tuple[str, str], tmp_path: Path) -> None:
    """Keys are pressed: the tabulator completes a command, @last, and a name with a sign that parts words to bash.

    No space follows a key, because its value does.
    """
    program = tmp_path / "bin" / "longshore"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCE}" exec "{sys.executable}" -m longshore "$@"\n', "utf-8")
    program.chmod(0o755)
    (tmp_path / "completion").write_text(cli("completion", "bash").stdout, "utf-8")
    ours, theirs = pty.openpty()
    bash = subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "$ "},
        start_new_session=True,
    )
    os.close(theirs)
    seen = ""

    def until(text: str) -> None:
        nonlocal seen
        deadline = time.monotonic() + 120
        while text not in seen and time.monotonic() < deadline:
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 65536).decode()
        assert text in seen
        seen = seen.partition(text)[2]

    try:
        os.write(ours, b". ./completion; echo re''ady\n")
        until("ready")
        os.write(ours, b"longshore expl\t@la\tcoadd:\t--js\t\n")
        until('"kind": "explain_job"')
        until('"name": "coadd:7"')
        os.write(ours, b"longshore config explain run.yaml --set requestMemoryM\t7 requestMemoryM\t\n")
        until("requestMemoryMax: 7")
    finally:
        bash.kill()
        bash.wait()
        os.close(ours)
