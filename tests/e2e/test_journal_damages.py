"""Damages of a real run's journal are told, or leave all that is reported as it was; a user may accept the loss."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.workflows import Tasks, WriteRun

from longshore.errors import LongshoreError
from longshore.model.report import RunReport
from longshore.reports.report import report_run
from longshore.runstate.open_run import open_run

TASKS: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["b"]), "d": ("D", ["a"]), "e": ("E", [])}
YAML = """
runQuantumCommand: echo {jobName}
requestMemory: 10
numberOfRetries: 1
pipetask:
  B: {runQuantumCommand: "test -e ${PWD}/mended"}
"""

LOOKS: Sequence[Callable[[Path], Sequence[str | Path]]] = (
    lambda run: ("status", run),
    lambda run: ("explain", run, "b"),
    lambda run: ("show-job", run, "b"),
    lambda run: ("logs", run, "--failed"),
    lambda run: ("draw", run),
    lambda run: ("draw", run, "--job", "b"),
)
"""Commands that look at a run, and have one document about it."""


@pytest.fixture
def over(cli: Cli, write_run: WriteRun, tmp_path: Path) -> Path:
    """A run of two lives that is over: 'b' failed, and succeeded after a restart."""
    first = cli("submit", write_run(YAML, TASKS), "--wait", "--json")
    run = Path(first.json["submit_dir"])
    (tmp_path / "mended").touch()
    assert cli("restart", run).returncode == 0
    assert cli("report", "--id", run, "--watch").returncode == 0
    return run


def _shown(run: Path) -> tuple[Any, ...]:
    """State, counts and details of a run, or the error."""
    try:
        report: RunReport = report_run(open_run(str(run)), details=True)
    except LongshoreError as error:
        return ("error", error.message)
    return (report.state, report.counts, list(report.jobs or ()), report.damage)


def _damage(path: Path, rng: random.Random) -> str:
    """Damage a file at random; return how."""
    text = path.read_bytes()
    lines = text.splitlines(keepends=True)
    how = rng.choice(["flip", "byte", "digit", "drop", "swap", "repeat", "cut", "delete"])
    at = rng.randrange(len(text))
    line = rng.randrange(len(lines))
    if how == "delete":
        path.unlink()
        return how
    changed = bytearray(text)
    if how == "flip":
        changed[at] ^= 1 << rng.randrange(8)
    elif how == "byte":
        changed[at] = (changed[at] + rng.randrange(1, 256)) % 256
    elif how == "digit":
        at = rng.choice([place for place, byte in enumerate(text) if chr(byte).isdigit()])
        changed[at] = ord(str((int(chr(changed[at])) + rng.randrange(1, 10)) % 10))
    elif how == "cut":
        changed = changed[:at]
    else:
        other = rng.randrange(len(lines))
        kept = {
            "drop": lines[:line] + lines[line + 1 :],
            "swap": [lines[{line: other, other: line}.get(number, number)] for number in range(len(lines))],
            "repeat": lines[: line + 1] + lines[line:],
        }
        changed = bytearray(b"".join(kept[how]))
    path.write_bytes(changed)
    return how if bytes(changed) != text else "none"


def test_each_of_many_damages_is_told_or_changes_nothing(over: Path, tmp_path: Path) -> None:
    intact = _shown(over)
    assert intact[3] == ()
    rng = random.Random(829)
    told: Counter[str] = Counter()
    kept = shutil.copytree(over / "journal", tmp_path / "kept")
    for _ in range(300):
        shutil.rmtree(over / "journal")
        shutil.copytree(kept, over / "journal")
        path = rng.choice(sorted((over / "journal").iterdir()))
        how = _damage(path, rng)
        shown = _shown(over)
        if shown[0] == "error" or shown[3]:
            told[how] += 1
            assert shown[0] in {"error", "UNKNOWN"}
            assert str(path) in str(shown[1 if shown[0] == "error" else 3]), (how, path, shown)
            if shown[0] == "UNKNOWN":
                assert sum(shown[1].values()) == len(TASKS)
        else:
            assert shown == intact, (how, path)
            # Without the seal of the end the events are complete all the same; what follows a seal is void.
            assert how in {"none", "repeat"} or (how == "delete" and path.name == "end.json"), (how, path)
    assert min(told[how] for how in ("flip", "byte", "digit", "drop", "swap", "repeat", "cut", "delete")) > 5


@pytest.mark.parametrize("command", ["resume", "restart"])
def test_a_damaged_run_continues_once_the_loss_is_accepted(cli: Cli, over: Path, command: str) -> None:
    journal = over / "journal" / "0002.jsonl"
    text = journal.read_bytes()
    at = text.index(b'"e":"ended"')
    journal.write_bytes(text[:at] + b'"e":"endde"' + text[at + 11 :])
    line = text[:at].count(b"\n") + 1
    words = f"'{journal}', line {line}: it is not as it was written"

    shown = cli("report", "--id", over, "--json").json["runs"][0]
    assert shown["state"] == "UNKNOWN"
    assert [damage["line"] for damage in shown["damage"]] == [line]
    states = {job["name"]: job["state"] for job in shown["jobs"]}
    assert states == {"a": "SUCCEEDED", "d": "SUCCEEDED", "e": "SUCCEEDED", "b": "UNKNOWN", "c": "UNKNOWN"}
    assert words in cli("report", "--id", over).stdout + cli("report", "--id", over).stderr
    assert cli("status", over).returncode == 10
    for looking in (("explain", over, "b"), ("show-job", over, "b"), ("logs", over, "--failed")):
        assert words in cli(*looking).stderr, looking
    assert " is UNKNOWN" in cli("explain", over, "b").stdout
    damage = cli("report", "--id", over, "--json").json["runs"][0]["damage"]
    for look in LOOKS:
        told = cli(*look(over), "--json")
        assert told.json["damage"] == damage, look(over)
    assert words in cli("draw", over).stderr
    (box,) = [box for box in cli("draw", over, "--json").json["boxes"] if box["name"] == "B"]
    assert box["counts"] == {"UNKNOWN": 1}
    events = cli("events", over, "--json")
    assert (events.returncode, words in events.stderr) == (5, True)

    refused = cli(command, over)
    assert refused.returncode == 6
    assert words in refused.stderr
    assert "--accept-loss" in refused.stderr
    assert sorted(os.listdir(over / "journal")) == ["0001.jsonl", "0002.jsonl", "end.json"]
    ran = cli(command, over, "--accept-loss")
    assert ran.returncode == 0, ran.stderr
    assert "lost, as accepted: " in ran.stderr
    assert cli("report", "--id", over, "--watch").returncode == 0
    after = cli("report", "--id", over, "--json").json["runs"][0]
    assert after["damage"] == []
    assert after["counts"]["SUCCEEDED"] == 5
    documents = [json.loads(each) for each in cli("events", over, "--json").stdout.splitlines()]
    (accepted,) = [event for event in documents if event["event"] == "accepted"]
    assert words in accepted["losses"][0]
    assert accepted["who"]


@pytest.mark.parametrize("lost", ["0001.jsonl", "0002.jsonl", "all"])
def test_lost_lives_are_accepted_as_well(cli: Cli, over: Path, lost: str) -> None:
    for path in (over / "journal").iterdir():
        if lost in {path.name, "all"}:
            path.unlink()
    for look in LOOKS:
        told = cli(*look(over), "--json")
        # Commands about a job refuse a run without any event.
        assert told.json.get("damage") or told.returncode == 5, look(over)
    (shown,) = cli("report", "--hist", "1", "--json").json["runs"]
    assert (shown["state"], len(shown["damage"])) == ("UNKNOWN", 1)
    assert cli("resume", over).returncode == 6
    ran = cli("resume", over, "--accept-loss")
    assert ran.returncode == 0, ran.stderr
    # Without the second life, the restart is unknown: 'b' failed for good in the first.
    assert cli("report", "--id", over, "--watch").returncode == (19 if lost == "0002.jsonl" else 0)
    assert cli("resume", over).returncode == 0, "nothing is left to accept"


def test_a_newest_life_that_only_the_snapshot_knows_is_damage_and_the_others_count(cli: Cli, over: Path) -> None:
    (over / "journal" / "end.json").unlink()
    (over / "journal" / "0002.jsonl").unlink()
    for look in LOOKS:
        (damage,) = cli(*look(over), "--json").json["damage"]
        assert damage["path"] == str(over / "journal")
    assert cli("report", "--id", over, "--json").json["runs"][0]["counts"]["UNKNOWN"] == len(TASKS)
    assert cli("restart", over).returncode == 6
    assert cli("restart", over, "--accept-loss").returncode == 0
    assert cli("report", "--id", over, "--watch").returncode == 0
    report = cli("report", "--id", over, "--json").json["runs"][0]
    assert report["damage"] == []
    attempts = {job["name"]: job["attempts"] for job in report["jobs"]}
    assert {name: attempts[name] for name in ("a", "d", "e")} == {"a": 1, "d": 1, "e": 1}, "they succeeded before"


WORKFLOW_LOOKS: Sequence[Callable[[Path], Sequence[str | Path]]] = (
    *LOOKS,
    lambda run: ("report", "--id", run),
    lambda run: ("events", run),
    lambda run: ("stats", run),
    lambda run: ("export", "--format", "csv", run),
    lambda run: ("report", "--id", run, "--html", run / "page.html"),
)


@pytest.mark.parametrize("has_cache", [True, False])
@pytest.mark.parametrize("how", ["swap", "double", "foreign"])
def test_a_workflow_that_is_not_as_it_was_written_is_named_by_each_look(
    cli: Cli, over: Path, how: str, has_cache: bool
) -> None:
    cli("report", "--id", over)
    if not has_cache:
        shutil.rmtree(over / "cache")
        (over / "status.json").unlink()
    path = over / "submissions" / "0002" / "workflow.jsonl"
    path = path if path.exists() else over / "workflow.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    if how == "swap":
        lines[2], lines[4] = lines[4], lines[2]
    elif how == "double":
        lines.insert(2, lines[2])
    else:
        lines[2] = lines[2].replace(b"echo", b"true")
    path.write_bytes(b"".join(lines))
    for look in WORKFLOW_LOOKS:
        ran = cli(*look(over))
        assert ran.returncode == 5, (look(over), ran)
        assert f"'{path}' has another content now" in ran.stderr
        assert "it is not as it was written" in ran.stderr
        assert not ran.stdout


def test_files_of_another_run_are_named_and_not_believed(cli: Cli, over: Path, write_run: WriteRun) -> None:
    other = Path(cli("submit", write_run(YAML, TASKS, name="other.yaml"), "--wait", "--json").json["submit_dir"])
    for name in ("status.json", "journal/0001.jsonl", "journal/0002.jsonl", "journal/end.json"):
        (other / name).parent.mkdir(exist_ok=True)
        shutil.copy(over / name, other / name)
    shutil.rmtree(other / "cache", ignore_errors=True)
    for look in LOOKS:
        ran = cli(*look(other))
        assert "it is of another run: its engine read another manifest" in ran.stderr, (look(other), ran)
    report = cli("report", "--id", other, "--json").json["runs"][0]
    assert (report["state"], report["counts"]["UNKNOWN"]) == ("UNKNOWN", len(TASKS))
    assert cli("verify", other).returncode == 5
    assert cli("resume", other).returncode == 6


def test_a_snapshot_of_another_run_is_not_believed(cli: Cli, write_run: WriteRun) -> None:
    runs = [
        Path(cli("submit", write_run(YAML, tasks, name=name), "--wait", "--json").json["submit_dir"])
        for name, tasks in (("one.yaml", TASKS), ("two.yaml", {"z": ("A", [])}))
    ]
    before = cli("report", "--id", runs[1], "--json").json["runs"][0]
    shutil.copy(runs[0] / "status.json", runs[1] / "status.json")
    after = cli("report", "--id", runs[1], "--json").json["runs"][0]
    assert (after["state"], after["counts"]) == (before["state"], before["counts"])
    assert cli("status", runs[1]).stdout == "SUCCEEDED\n"


def test_a_changed_card_is_named_by_each_look(cli: Cli, over: Path) -> None:
    card = over / "run.json"
    card.write_bytes(card.read_bytes().replace(b'"by": "submit"', b'"by": "submiT"'))
    for look in WORKFLOW_LOOKS[: len(LOOKS) + 1]:
        ran = cli(*look(over))
        assert f"'{card}': it does not fit its checksum" in ran.stderr + ran.stdout, (look(over), ran)
