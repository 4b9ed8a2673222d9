"""`restart` runs what the user mended: it compares, asks or refuses, and keeps what is up to date."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import eventually

PIPELINE = """\
pipeline:
  dimensions: {{sample: {{range: [1, {last}]}}}}
  tasks:
    one:
      dimensions: [sample]
      command: "echo one {{sample}} >> {notes}; echo {{sample}} > {{out}}"
      outputs: {{out: "{folder}/{{sample}}.one"}}
    two:
      dimensions: [sample]
      command: "echo two {{sample}} >> {notes}; {program} {{out}} > {{res}}"
      inputs: [out]
      outputs: {{res: "{folder}/{{sample}}.two"}}
numberOfRetries: 0
{more}
"""
WriteConfig = Callable[..., Path]


@pytest.fixture
def write_config(tmp_path: Path) -> WriteConfig:
    (tmp_path / "data").mkdir()

    def write(program: str = "cta", last: int = 2, more: str = "") -> Path:
        path = tmp_path / "run.yaml"
        text = PIPELINE.format(
            program=program, last=last, more=more, notes=tmp_path / "notes", folder=tmp_path / "data"
        )
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def failed(cli: Cli, write_config: WriteConfig) -> Path:
    ran = cli("submit", write_config(), "--wait", "--json")
    assert ran.returncode == 19, ran.stderr
    return Path(ran.json["submit_dir"])


def notes(tmp_path: Path) -> list[str]:
    return sorted((tmp_path / "notes").read_text("utf-8").splitlines())


def wait_for_end(cli: Cli, run: Path) -> None:
    eventually(lambda: cli("status", run).returncode == 0)


def states(cli: Cli, run: Path) -> dict[str, tuple[str, int]]:
    jobs = cli("report", run, "--json").json["runs"][0]["jobs"]
    return {job["name"]: (job["state"], job["attempts"]) for job in jobs}


def test_mend_what_was_wrong_and_restart(cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path) -> None:
    before = states(cli, failed)
    explained = cli("explain", failed, "one_1", "--json").json
    write_config(program="cat")
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert "'pipeline.tasks.two.command' is" in refused.stderr
    assert "run.yaml:10:" in refused.stderr
    assert "jobs with another command: two_1, two_2" in refused.stderr
    for way in ("--with-changes", "--as-it-was"):
        assert way in refused.stderr
    assert not (failed / "submissions" / "0002.json").exists()
    looked = cli("restart", failed, "--dry-run")
    assert looked.returncode == 0, looked.stderr
    assert "one_1: kept because it succeeded" in looked.stdout
    assert "two_1: runs because its command" in looked.stdout

    ran = cli("restart", failed, "--with-changes")
    assert ran.returncode == 0, ran.stderr
    wait_for_end(cli, failed)
    assert notes(tmp_path) == ["one 1", "one 2", "two 1", "two 1", "two 2", "two 2"]
    assert (tmp_path / "data" / "1.two").read_text("utf-8") == "1\n"
    after = states(cli, failed)
    assert after["one_1"] == before["one_1"] == ("SUCCEEDED", 1)
    assert after["two_1"] == ("SUCCEEDED", 2)
    assert cli("explain", failed, "one_1", "--json").json["attempts"] == explained["attempts"]
    # The second, where the search path has a directory that this user may not enter.
    assert re.search("cta: (not found|Permission denied)", cli("logs", failed, "two_1", "--attempt", "1").stdout)
    assert cli("status", failed, "--json").json["counts"]["SUCCEEDED"] == 4
    assert cli("verify", failed).returncode == 0
    again = cli("restart", failed)
    assert again.returncode == 0
    assert "nothing to run again" in again.stderr


def test_as_it_was_runs_the_old_command(cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path) -> None:
    write_config(program="cat")
    ran = cli("restart", failed, "--as-it-was")
    assert ran.returncode == 0, ran.stderr
    eventually(lambda: states(cli, failed)["two_1"] == ("FAILED", 2))
    assert notes(tmp_path).count("one 1") == 1
    assert not list((tmp_path / "data").glob("1.two/x"))


def test_comments_and_what_changes_no_job_do_not_count(cli: Cli, write_config: WriteConfig, failed: Path) -> None:
    write_config(more="# a comment\nproject: another")
    ran = cli("restart", failed, "--json")
    assert ran.returncode == 0, ran.stderr
    assert (ran.json["with_changes"], ran.json["changes"]) == (False, [])


def test_new_jobs_join_and_jobs_that_are_gone_are_told(
    cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path
) -> None:
    write_config(program="cat", last=3)
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    assert states(cli, failed)["two_3"] == ("SUCCEEDED", 1)
    assert notes(tmp_path).count("one 1") == 1
    write_config(program="cat", last=1)
    plan = cli("restart", failed, "--dry-run", "--json").json
    assert plan["gone"] == ["one_2", "two_2", "one_3", "two_3"] or set(plan["gone"]) == {
        "one_2", "two_2", "one_3", "two_3",
    }  # fmt: skip
    assert {job["name"]: job["reason"] for job in plan["jobs"]} == {"one_1": "kept", "two_1": "kept"}
    write_config(program="tac", last=4)
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    assert {name: attempts for name, (_, attempts) in states(cli, failed).items()} == {
        "one_1": 1, "one_2": 1, "one_3": 1, "one_4": 1, "two_1": 3, "two_2": 3, "two_3": 2, "two_4": 1,
    }  # fmt: skip
    assert cli("status", failed, "--json").json["expected"] == 8
    assert cli("verify", failed).returncode == 0


def test_a_value_that_is_set_changes_the_run_and_stays(cli: Cli, failed: Path, tmp_path: Path) -> None:
    command = "pipetask.two.runQuantumCommand=echo set {sample} >> " + str(tmp_path / "notes")
    assert cli("restart", failed, "--set", command, "--as-it-was").returncode == 2
    ran = cli("restart", failed, "--set", command, "--json")
    assert ran.returncode == 0, ran.stderr
    assert ran.json["with_changes"] is True
    wait_for_end(cli, failed)
    assert [line for line in notes(tmp_path) if line.startswith("set")] == ["set 1", "set 2"]
    later = cli("restart", failed, "--dry-run", "--json")
    assert later.json["changes"] == [], "what was set belongs to the run from now on"


def test_a_changed_request_keeps_what_succeeded(cli: Cli, write_config: WriteConfig, failed: Path) -> None:
    write_config(program="cta", more="requestMemory: 77")
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert "'requestMemory' is" in refused.stderr
    assert "run with other settings: two_1, two_2" in refused.stderr
    plan = cli("restart", failed, "--dry-run", "--json").json
    assert {job["name"]: job["reason"] for job in plan["jobs"]} == {
        "one_1": "kept", "one_2": "kept", "two_1": "unfinished", "two_2": "unfinished",
    }  # fmt: skip


def test_a_changed_final_job_runs_its_new_script(
    cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path
) -> None:
    final = "finalJob: {{whenRun: ALWAYS, command1: 'echo {word} >> {notes}'}}"
    write_config(program="cat", more=final.format(word="final-1", notes=tmp_path / "notes"))
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    write_config(program="cat", more=final.format(word="final-2", notes=tmp_path / "notes"))
    assert cli("restart", failed).returncode == 6
    assert cli("restart", failed, "--with-changes").returncode == 0
    eventually(lambda: "final-2" in notes(tmp_path))
    wait_for_end(cli, failed)
    assert states(cli, failed)["finalJob"] == ("SUCCEEDED", 2)
    assert (notes(tmp_path).count("final-1"), notes(tmp_path).count("one 1")) == (1, 1)
    assert cli("verify", failed).returncode == 0


def test_a_configuration_that_is_wrong_now_is_told(cli: Cli, write_config: WriteConfig, failed: Path) -> None:
    path = write_config()
    path.write_text(path.read_text("utf-8").replace("inputs: [out]", "inputs: [nothing]"), "utf-8")
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert "the run could not be prepared now" in refused.stderr
    assert "nothing" in refused.stderr
    assert cli("restart", failed, "--as-it-was").returncode == 0


def test_a_run_whose_configuration_is_gone_goes_on_as_it_was(cli: Cli, write_config: WriteConfig, failed: Path) -> None:
    write_config().unlink()
    refused = cli("restart", failed, "--with-changes")
    assert refused.returncode == 6
    assert "is not there any more" in refused.stderr
    why = "the run goes on as it was: "
    planned = cli("restart", failed, "--dry-run", "--json").json["notes"]
    assert len(planned) == 1
    assert planned[0].startswith(why)
    assert "run.yaml', which the run was made from, is not there any more" in planned[0]
    ran = cli("restart", failed)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count(why) == 1
    eventually(lambda: states(cli, failed)["two_1"] == ("FAILED", 2))
    assert why not in cli("restart", failed, "--as-it-was").stderr, "that is what was asked for"


def test_what_failed_can_be_mended_by_an_input_file(cli: Cli, tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.write_text("1\n", "utf-8")
    (tmp_path / "run.yaml").write_text(
        f"pipeline:\n  datasets: {{raw: {raw}}}\n  tasks:\n"
        f"    ok: {{command: 'cat {{raw}} > {{a}}', inputs: [raw], outputs: {{a: {tmp_path}/a}}}}\n"
        f"    bad: {{command: 'grep 2 {{a}}', inputs: [a]}}\nnumberOfRetries: 0\n",
        "utf-8",
    )
    run = cli("submit", tmp_path / "run.yaml", "--wait", "--json").json["submit_dir"]
    raw.write_text("12\n", "utf-8")
    refused = cli("restart", run)
    assert refused.returncode == 6
    assert "jobs with other inputs or outputs: ok" in refused.stderr
    plan = cli("restart", run, "--dry-run", "--json").json
    assert "has another size now" in {job["name"]: job["because"] for job in plan["jobs"]}["ok"]
    assert cli("restart", run, "--with-changes").returncode == 0
    wait_for_end(cli, Path(run))


def test_a_killed_restart_leaves_the_old_workflow_or_the_new_one(
    cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path
) -> None:
    left = failed / "submissions" / "0002"
    left.mkdir()
    (left / "workflow.jsonl").write_text("torn", "utf-8")
    assert cli("verify", failed).returncode == 0
    write_config(program="cat")
    assert cli("restart", failed, "--with-changes").returncode == 0
    wait_for_end(cli, failed)
    manifest = json.loads((failed / "submissions" / "0002.json").read_text("utf-8"))
    assert manifest["folder"] == "submissions/0002"
    assert notes(tmp_path).count("one 1") == 1


VARIABLE = "LONGSHORE_REQUEST_MEMORY"


def test_a_variable_of_the_environment_counts_if_it_changes_a_job(
    cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path
) -> None:
    assert cli("restart", failed, "--dry-run", "--json", env={"LONGSHORE_PROJECT": "another"}).json["changes"] == []
    refused = cli("restart", failed, env={VARIABLE: "77"})
    assert refused.returncode == 6
    assert f"${VARIABLE}: 'requestMemory' is '77' now" in refused.stderr
    assert "run with other settings: two_1, two_2" in refused.stderr
    wrong = cli("restart", failed, "--dry-run", env={VARIABLE: "much"})
    assert wrong.returncode == 0, wrong.stderr
    assert "the run goes on as it was: the run could not be prepared now: 'requestMemory'" in wrong.stderr
    command = "pipetask.two.runQuantumCommand=echo set {sample} >> " + str(tmp_path / "notes")
    asked = ("restart", failed, "--set", command)
    assert cli(*asked, env={VARIABLE: "77"}).returncode == 6, "nobody asked for other requests"
    ran = cli(*asked, env={"LONGSHORE_PROJECT": "another"})
    assert ran.returncode == 0, ran.stderr
    wait_for_end(cli, failed)
    assert notes(tmp_path).count("set 1") == 1


def test_a_run_keeps_its_service(cli: Cli, write_config: WriteConfig, failed: Path) -> None:
    looked = cli("restart", failed, "--dry-run", env={"LONGSHORE_WMS_SERVICE_CLASS": "slurm"})
    assert looked.returncode == 0
    assert "belongs to the service 'local', and 'slurm' is chosen now" in looked.stderr
    write_config(more="wmsServiceClass: slurm")
    refused = cli("restart", failed)
    assert refused.returncode == 6
    assert "belongs to the service 'local', and 'slurm' is chosen now" in refused.stderr
    changed = cli("restart", failed, "--with-changes")
    assert (changed.returncode, (failed / "submissions" / "0002.json").exists()) == (6, False)
    assert "run.yaml:14:18: " in changed.stderr


QUESTION = "Run it with the changes, or as it was"


def at_terminal(*words: str | Path, answer: str, folder: Path) -> tuple[int, str]:
    """Run a command at a terminal, answer its question, and return its exit status and all that was shown."""
    ours, theirs = pty.openpty()
    command = subprocess.Popen(
        [sys.executable, "-m", "longshore", *words],
        cwd=folder,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        start_new_session=True,
    )
    os.close(theirs)
    shown, answered = b"", False
    while select.select([ours], [], [], 60)[0]:
        try:
            shown += os.read(ours, 65536)
        except OSError:  # the end of a terminal
            break
        if QUESTION.encode() in shown and not answered:
            os.write(ours, f"{answer}\n".encode())
            answered = True
    os.close(ours)
    return command.wait(60), shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("answer", "status", "ends"),
    [("with-changes", 0, ("SUCCEEDED", 2)), ("as-it-was", 0, ("FAILED", 2)), ("abort", 130, ("FAILED", 1))],
)
def test_at_a_terminal_it_asks(
    cli: Cli, write_config: WriteConfig, failed: Path, answer: str, status: int, ends: tuple[str, int]
) -> None:
    write_config(program="cat")
    ended, shown = at_terminal("restart", failed, answer=answer, folder=failed.parent)
    assert ended == status, shown
    assert "what run '" in shown
    assert "jobs with another command: two_1, two_2" in shown
    assert QUESTION in shown
    assert "(with-changes, as-it-was, abort)" in shown
    eventually(lambda: states(cli, failed)["two_1"] == ends)
    assert (failed / "submissions" / "0002").is_dir() is (answer == "with-changes")


def test_at_a_terminal_it_does_not_ask_where_the_user_has_said_so(
    cli: Cli, write_config: WriteConfig, failed: Path
) -> None:
    write_config(program="cat")
    ended, shown = at_terminal("restart", failed, "--with-changes", answer="abort", folder=failed.parent)
    assert (ended, QUESTION in shown) == (0, False)
    wait_for_end(cli, failed)


def test_what_functions_generated_is_kept(
    cli: Cli, write_config: WriteConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    (tmp_path / "chosen.py").write_text(
        f"def values():\n"
        f"    with open('{calls}', 'a') as file:\n"
        f"        file.write('called\\n')\n"
        f"        return {{'tag': f'call-{{file.tell()}}'}}\n",
        "utf-8",
    )
    more = (
        "bpsGenerateConfig: chosen.values()\nfinalJob: {whenRun: ALWAYS, command1: 'echo {tag} >> "
        + str(tmp_path / "notes")
        + "'}"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    run = Path(cli("submit", write_config(more=more), "--wait", "--json").json["submit_dir"])
    tag = next(line for line in notes(tmp_path) if line.startswith("call-"))
    write_config(program="cat", more=more)
    assert cli("restart", run, "--with-changes").returncode == 0
    wait_for_end(cli, run)
    assert notes(tmp_path).count(tag) == 2
    assert calls.read_text("utf-8").splitlines() == ["called"], "a function may choose anew, or take long"


def test_a_run_that_was_moved_takes_changes(cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    failed.rename(elsewhere)
    assert cli("adopt", elsewhere).returncode == 0
    same = cli("restart", elsewhere, "--dry-run", "--json").json
    assert (same["changes"], same["with_changes"]) == ([], False), "the place of a run is no change"
    write_config(program="cat")
    refused = cli("restart", elsewhere)
    assert refused.returncode == 6
    assert "submitPath" not in refused.stderr
    assert cli("restart", elsewhere, "--with-changes").returncode == 0
    wait_for_end(cli, elsewhere)
    assert notes(tmp_path).count("one 1") == 1
    assert not failed.exists()
    assert cli("verify", elsewhere).returncode == 0


KILLED = """
import os, signal
from longshore.services.local.service import LocalService


class Killed(LocalService):
    def restart(self, run, changes):
        if os.environ.get("KILL"):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().restart(run, changes)
"""


def test_a_restart_that_was_killed_before_its_engine_is_repeated(
    cli: Cli, write_config: WriteConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "killed.py").write_text(KILLED, "utf-8")
    service = "wmsServiceClass: killed.Killed"
    run = Path(cli("submit", write_config(more=service), "--wait", "--json").json["submit_dir"])
    write_config(program="cat", more=service)
    assert cli("restart", run, "--with-changes", env={"KILL": "1"}).returncode == -signal.SIGKILL
    assert (run / "submissions" / "0002.json").exists(), "the run has the new workflow"
    again = cli("restart", run)
    assert again.returncode == 0, again.stderr
    wait_for_end(cli, run)
    assert notes(tmp_path) == ["one 1", "one 2", "two 1", "two 1", "two 2", "two 2"]
    assert cli("verify", run).returncode == 0


def test_what_another_run_has_overwritten_runs_again_with_changes_alone(
    cli: Cli, write_config: WriteConfig, failed: Path, tmp_path: Path
) -> None:
    (tmp_path / "data" / "1.one").write_text("of another run\n", "utf-8")
    (tmp_path / "notes").unlink()
    as_it_was = cli("restart", failed, "--dry-run")
    assert as_it_was.returncode == 0, as_it_was.stderr
    assert "outputs of 'one_1' are gone, or were written since by something else" in as_it_was.stderr
    assert "2 jobs of" in as_it_was.stderr
    looked = cli("restart", failed, "--with-changes", "--dry-run")
    file = tmp_path / "data" / "1.one"
    assert f"one_1: runs because its output '{file}' was written since by something else" in looked.stdout
    assert "one_2: kept because it succeeded" in looked.stdout
    assert cli("restart", failed, "--as-it-was", "--wait").returncode == 19
    assert notes(tmp_path) == ["two 1", "two 2"], "a job that succeeded does not run again"
    write_config(program="cat")
    ran = cli("restart", failed, "--with-changes", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert notes(tmp_path) == ["one 1", "two 1", "two 1", "two 2", "two 2"]
    assert (tmp_path / "data" / "1.two").read_text("utf-8") == "1\n"


def test_a_variable_of_the_user_can_be_set(cli: Cli, write_config: WriteConfig, tmp_path: Path) -> None:
    path = write_config(program="test {gain} = 3 && cat", last=1, more="gain: 1")
    run = cli("submit", path, "--wait", "--json").json["submit_dir"]
    refused = cli("restart", run, "--set", "gian=3")
    assert (refused.returncode, "'gian' cannot be changed" in refused.stderr) == (2, True)
    ran = cli("restart", run, "--set", "gain=3", "--wait")
    assert ran.returncode == 0, ran.stderr
    assert "gain' is '3' now" in ran.stderr
    assert "'bps_cmdline' is not set" not in ran.stderr
    assert (tmp_path / "data" / "1.two").read_text("utf-8") == "1\n"


def test_options_that_contradict_each_other_are_refused(cli: Cli, failed: Path) -> None:
    for order in (("--with-changes", "--as-it-was"), ("--as-it-was", "--with-changes")):
        refused = cli("restart", failed, *order, "--dry-run")
        assert (refused.returncode, "contradict each other" in refused.stderr) == (2, True)
