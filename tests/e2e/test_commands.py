"""What holds for every command: help with an example, JSON; and what ``ping``, ``resume`` and ``cancel`` answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.command import Cli
from tests.workflows import Tasks, WriteRun

from longshore.cli.main import COMMANDS

LONG = "runQuantumCommand: 'sleep 60'\nresources: {cpus: 1}\n"
FOUR: Tasks = {f"t{number}": ("T", []) for number in range(4)}


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_has_an_example(command: str, option: str, cli: Cli) -> None:
    ran = cli(*command.split(), option)
    assert ran.returncode == 0
    assert ran.stderr == ""
    example = re.search(r"Examples?: (longshore .*)", ran.stdout)
    assert example, ran.stdout
    assert not command or f"longshore {command}" in example[1]
    assert max(map(len, ran.stdout.splitlines())) <= 100


def test_help_names_every_command(cli: Cli) -> None:
    text = cli("--help").stdout
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\S", text, re.MULTILINE)
    assert "drive" not in text


def test_help_groups_the_commands(cli: Cli) -> None:
    text = cli("--help").stdout
    groups = re.findall(r"^(\w+):\n((?:  .*\n)+)", text.partition("Show this message")[2], re.MULTILINE)
    commands = {group: re.findall(r"^  ([a-z-]+)  ", lines, re.MULTILINE) for group, lines in groups}
    assert list(commands) == ["Run", "Look", "Steer", "Configure", "Operate"]
    assert [name for names in commands.values() for name in names] == list(COMMANDS)
    member = {name: group for group, names in commands.items() for name in names}
    asked = ("submit", "report", "logs", "cancel", "restart", "init", "config", "ping", "verify")
    assert [member[name] for name in asked] == [
        *("Run", "Look", "Look", "Steer", "Steer", "Configure", "Configure", "Operate", "Operate"),
    ]


def test_nothing_at_all_is_a_call_for_help(cli: Cli) -> None:
    ran = cli()
    assert ran.returncode == 2
    assert "Example: longshore submit" in ran.stdout + ran.stderr


def test_version(cli: Cli) -> None:
    assert re.fullmatch(r"longshore, version \d+\.\d+\S*\n", cli("--version").stdout)


def test_ping(cli: Cli, write_run: WriteRun, own_environment: Path) -> None:
    ran = cli("ping")
    assert ran.returncode == 0
    for word in ("local: ok", "cpus", "memory", f"state: {own_environment}/.local/state/longshore", "engine: in "):
        assert word in ran.stdout
    document = cli("ping", "--json").json
    assert document["ok"] is True
    assert document["capacity"].keys() == {"cpus", "memory"}
    path = write_run("resources: {cpus: 3, licA: 2}\n")
    asked = cli("ping", "--config", path.name, "--json").json
    assert asked["capacity"].items() >= {"cpus": 3, "licA": 2}.items()
    assert cli("ping", "--config", "nope.yaml").returncode == 3


@pytest.mark.parametrize("name", ["lsst.ctrl.bps.parsl.ParslService", "lsst.ctrl.bps.panda.PanDAService"])
def test_ping_of_what_is_not_there(name: str, cli: Cli) -> None:
    ran = cli("ping", env={"BPS_WMS_SERVICE_CLASS": name})
    assert ran.returncode == 4
    assert f"'{name}' cannot be imported" in ran.stderr
    assert "pip install 'longshore[bps]'" in ran.stderr
    assert cli("ping", "--wms-service-class", "local", env={"BPS_WMS_SERVICE_CLASS": name}).returncode == 0


def test_a_live_run_is_not_resumed_but_can_be_cancelled(cli: Cli, write_run: WriteRun) -> None:
    run_id = cli("submit", write_run(LONG, FOUR).name, "--json").json["id"]
    refused = cli("resume", run_id)
    assert refused.returncode == 6
    assert "its engine is alive" in refused.stderr
    assert cli("status", run_id).returncode == 15
    cancelled = cli("cancel", run_id)
    assert cancelled.returncode == 0
    assert f"Successfully canceled job with id '{run_id}'" in cancelled.stdout
    status = cli("status", run_id)
    assert (status.returncode, status.stdout) == (16, "DELETED\n")
    assert cli("cancel", run_id).returncode == 0, "twice is no error"


def test_resume_of_a_failed_run_names_restart(cli: Cli, write_run: WriteRun) -> None:
    assert cli("submit", write_run("runQuantumCommand: 'false'\nnumberOfRetries: 0\n").name, "--wait").returncode == 19
    run_id = cli("status", "@last", "--json").json["id"]
    ran = cli("resume", "@last")
    assert ran.returncode == 0
    assert f"nothing to resume: every job of the run is over; to run again what failed: longshore restart {run_id}" in (
        ran.stderr
    )


def test_a_finished_run_has_nothing_to_resume(cli: Cli, write_run: WriteRun) -> None:
    cli("submit", write_run().name, "--wait")
    ran = cli("resume", "@last")
    assert ran.returncode == 0
    assert "nothing to resume: every job of the run is over\n" in ran.stderr
    document = cli("resume", "@last", "--json").json
    assert document["kind"] == "resume"
    assert "nothing to resume" in document["notes"][0]


def test_json_is_one_document(cli: Cli, write_run: WriteRun) -> None:
    name = write_run().name
    commands: list[tuple[list[str], str]] = [
        (["submit", name], "submit"),
        (["submit", name, "--wait"], "submit"),
        (["report"], "report"),
        (["report", "@last"], "report"),
        (["status", "@last"], "status"),
        (["ping"], "ping"),
    ]
    for words, kind in commands:
        ran = cli(*words, "--json")
        assert ran.returncode == 0, (words, ran.stderr)
        document = ran.json
        assert (document["schema_version"], document["kind"]) == (1, kind)
        assert document["as_of"].endswith("Z")


def test_logs_as_files(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    name = write_run("requestMemroy: 1\nrunQuantumCommand: 'true'\n").name
    ran = cli("--log-file", "a.json", "--log-file", "a.log", "--log-label", "n=1", "--no-log-tty", "submit", name)
    assert ran.returncode == 0
    assert ran.stderr == ""
    first = json.loads((tmp_path / "a.json").read_text("utf-8").splitlines()[0])
    assert (first["level"], first["labels"]) == ("WARNING", {"n": "1"})
    assert "requestMemroy" in first["message"]
    assert "requestMemroy" in (tmp_path / "a.log").read_text("utf-8")
