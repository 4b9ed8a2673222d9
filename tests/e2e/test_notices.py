"""Notices of whole runs on this machine: each event once, over a killed engine, a restart and a hook that hangs."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from tests.command import Cli
from tests.waiting import engine_of, eventually, whole_lines

TOLD = 'command: "echo $LONGSHORE_EVENT $LONGSHORE_STATE >> {told}"'
RULES = "notify:\n  file: {{events: [start, firstFailure, hold, stopped, end], {told}}}\n{more}"
ONE_TASK = "pipeline: {{tasks: {{work: {{command: '{command}'}}}}}}\nnumberOfRetries: 0\n"


def write(folder: Path, command: str, more: str = "") -> Path:
    path = folder / "run.yaml"
    rules = RULES.format(told=TOLD.format(told=folder / "told"), more=more)
    path.write_text(f"payloadName: told\n{ONE_TASK.format(command=command)}{rules}", "utf-8")
    return path


def told(folder: Path) -> list[str]:
    path = folder / "told"
    return whole_lines(path) if path.exists() else []


def notifier_of(run: Path) -> int:
    """Return the process of a run's notifier."""
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = command.read_bytes().split(b"\0")
            if b"notify" in words and str(run).encode() in words:
                return int(command.parent.name)
    raise AssertionError("no notifier is at work")


def begin(cli: Cli, path: Path) -> Path:
    ran = cli("submit", path, "--json")
    assert ran.returncode == 0, ran.stderr
    return Path(ran.json["submit_dir"])


def test_a_failed_run_is_told_and_its_restart_again(cli: Cli, tmp_path: Path) -> None:
    run = begin(cli, write(tmp_path, "test -e mend"))
    events = eventually(lambda: told(tmp_path) if "end FAILED\n" in told(tmp_path) else None)
    assert [line.split()[0] for line in events] == ["start", "firstFailure", "end"]
    (tmp_path / "mend").touch()
    again = cli("restart", run)
    assert again.returncode == 0, again.stderr
    events = eventually(lambda: told(tmp_path) if "end SUCCEEDED\n" in told(tmp_path) else None)
    assert [line.split()[0] for line in events[3:]] == ["start", "end"]


def test_an_engine_that_dies_is_told_and_the_end_after_a_resume(cli: Cli, tmp_path: Path) -> None:
    run = begin(cli, write(tmp_path, "until test -e go; do sleep 0.1; done"))
    eventually(lambda: told(tmp_path))
    os.kill(engine_of(run), signal.SIGKILL)
    eventually(lambda: told(tmp_path)[1:])
    (tmp_path / "go").touch()
    assert cli("resume", run).returncode == 0
    events = eventually(lambda: told(tmp_path) if len(told(tmp_path)) > 2 else None)
    assert [line.split()[0] for line in events] == ["start", "stopped", "end"]
    assert events[-1] == "end SUCCEEDED\n"


def test_a_hook_that_hangs_or_fails_leaves_the_run_alone(cli: Cli, tmp_path: Path) -> None:
    more = "  hangs: {events: start, command: 'sleep 600', timeout: 1}\n  fails: {events: start, command: 'exit 4'}\n"
    ran = cli("submit", write(tmp_path, "true", more), "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    eventually(lambda: "end SUCCEEDED\n" in told(tmp_path))
    eventually(lambda: '"rule":"hangs"' in (run / "notices.jsonl").read_text("utf-8"))
    report = cli("report", "--id", run, "--json").json["runs"][0]
    assert report["state"] == "SUCCEEDED"
    assert report["notes"] == [
        "the notice 'fails' of start was not sent: the command failed with exit code 4",
        "the notice 'hangs' of start was not sent: the command had not ended after 1 s, and was killed",
    ]


def test_jobs_on_hold_are_told_once(cli: Cli, tmp_path: Path) -> None:
    run = begin(cli, write(tmp_path, "until test -e go; do sleep 0.1; done"))
    eventually(lambda: told(tmp_path))
    assert cli("pause", run).returncode == 0
    eventually(lambda: [line for line in told(tmp_path) if line.startswith("hold ")])
    assert cli("unpause", run).returncode == 0
    (tmp_path / "go").touch()
    eventually(lambda: "end SUCCEEDED\n" in told(tmp_path))
    assert [line.split()[0] for line in told(tmp_path)] == ["start", "hold", "end"]


def test_the_rules_are_tried_before_a_run(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, "true", "  chat: {webhook: {env: NO_SUCH_VARIABLE}}\n")
    tried = cli("notify", "--test", path, "--json")
    assert tried.returncode == 1
    assert [(each["rule"], each["sent"]) for each in tried.json["notices"]] == [("chat", False), ("file", True)]
    assert told(tmp_path) == ["end UNKNOWN\n"]
    shown = cli("notify", "--test", path)
    assert "chat (webhook): the variable 'NO_SUCH_VARIABLE' is not set where notices are sent\n" in shown.stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["notify", "--test", "empty.yaml"], "'empty.yaml' has no rule of notices"),
        (["notify", "--test", "nowhere"], "there is no file 'nowhere', and no run 'nowhere' is known"),
        (["notify", "--test", "x" * 300], "there is no file 'xxx"),
        (["notify", "run.yaml"], "To try the rules of the file: longshore notify --test run.yaml"),
        (["notify", "--test", "never.yaml"], "never.yaml:3:27: 'notify.a.events' is empty"),
        (["config", "lint", "never.yaml"], "never.yaml:3:27: error: 'notify.a.events' is empty"),
        (["notify", "--json", "run.yaml"], "--json and --set are for --test"),
        (
            ["submit", "wrong.yaml"],
            "wrong.yaml:3:7: nothing knows the key 'notify.a.comand'\n  Did you mean",
        ),
    ],
)
def test_wrong_calls(cli: Cli, tmp_path: Path, args: list[str], words: str) -> None:
    write(tmp_path, "true")
    (tmp_path / "empty.yaml").write_text("payloadName: x\n", "utf-8")
    wrong = f"payloadName: x\nnotify:\n  a: {{comand: x}}\n{ONE_TASK.format(command='true')}"
    (tmp_path / "wrong.yaml").write_text(wrong, "utf-8")
    never = f"payloadName: x\nnotify:\n  a: {{command: x, events: []}}\n{ONE_TASK.format(command='true')}"
    (tmp_path / "never.yaml").write_text(never, "utf-8")
    ran = cli(*args)
    assert ran.returncode != 0
    assert words in ran.stdout + ran.stderr


def test_a_run_without_rules_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(f"payloadName: told\n{ONE_TASK.format(command='true')}", "utf-8")
    prepared = cli("prepare", "run.yaml", "--json")
    assert prepared.returncode == 0, prepared.stderr
    ran = cli("notify", prepared.json["submit_dir"])
    assert ran.returncode != 0
    assert "has no rule of notices" in ran.stderr


def test_an_address_is_never_written(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "address").write_text("http://127.0.0.1:9/s3cret\n", "utf-8")
    more = f"  chat: {{webhook: {{file: {tmp_path / 'address'}}}, timeout: 1}}\n"
    ran = cli("submit", write(tmp_path, "true", more), "--wait", "--json")
    run = Path(ran.json["submit_dir"])
    log = run / "notices.jsonl"
    eventually(lambda: log.exists() and '"rule":"chat"' in log.read_text("utf-8"))
    records = [json.loads(line) for line in whole_lines(log)]
    assert [record["rule"] for record in records if "why" in record] == ["chat"]
    for path in run.rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()


def test_changed_rules_hold_from_the_restart_on(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path, "test -e mend")
    run = begin(cli, path)
    eventually(lambda: "end FAILED\n" in told(tmp_path))
    more = f"  two: {{events: [start, end], command: 'echo two $LONGSHORE_EVENT >> {tmp_path / 'told'}'}}\n"
    write(tmp_path, "test -e mend || false", more)
    (tmp_path / "mend").touch()
    again = cli("restart", run, "--with-changes")
    assert again.returncode == 0, again.stderr
    eventually(lambda: {"end SUCCEEDED\n", "two end\n"} <= set(told(tmp_path)))
    assert told(tmp_path)[3:].count("two start\n") == 1
    assert told(tmp_path).count("two end\n") == 1, "what was before is not told"


def test_a_restart_is_told_while_a_hook_of_the_end_hangs_and_by_its_own_rules(cli: Cli, tmp_path: Path) -> None:
    hangs = f"  hangs: {{command: 'until test -e {tmp_path}/go; do sleep 0.1; done', timeout: 10m}}\n"
    run = begin(cli, write(tmp_path, "test -e mend", hangs))
    eventually(lambda: "end FAILED\n" in told(tmp_path))
    more = f"  new: {{events: [start, end], command: 'echo new $LONGSHORE_EVENT >> {tmp_path / 'told'}'}}\n"
    write(tmp_path, "test -e mend || false", more)
    (tmp_path / "mend").touch()
    again = cli("restart", run, "--with-changes")
    assert again.returncode == 0, again.stderr
    eventually(lambda: {"new start\n", "new end\n", "end SUCCEEDED\n"} <= set(told(tmp_path)))
    (tmp_path / "go").touch()
    log = run / "notices.jsonl"
    eventually(lambda: '"rule":"hangs"' in log.read_text("utf-8"))
    assert [line.split()[0] for line in told(tmp_path) if "new" not in line] == [
        "start",
        "firstFailure",
        "end",
        "start",
        "end",
    ]


def test_notices_that_a_killed_notifier_did_not_send_are_named_and_sent_by_another(cli: Cli, tmp_path: Path) -> None:
    run = begin(cli, write(tmp_path, "until test -e go; do sleep 0.1; done; exit 3"))
    eventually(lambda: told(tmp_path))
    eventually(lambda: '"rule":"file"' in (run / "notices.jsonl").read_text("utf-8"))
    os.kill(notifier_of(run), signal.SIGTERM)
    (tmp_path / "go").touch()

    def notes() -> list[str]:
        report = cli("report", "--id", run, "--json").json["runs"][0]
        return [note for note in report["notes"] if "notif" in note]

    words = "2 notices were not sent, because no notifier is at work: longshore notify "
    eventually(lambda: any(note.startswith(words) for note in notes()), pause_s=0.2)
    assert cli("notify", run).returncode == 0
    assert [line.split()[0] for line in told(tmp_path)] == ["start", "firstFailure", "end"]
    assert notes() == []
