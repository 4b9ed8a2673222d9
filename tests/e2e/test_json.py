"""JSON for programs: every command gives it, and what each really prints is what the schema of its kind says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from tests.command import Cli
from tests.workflows import Tasks, WriteRun

from longshore.cli.main import COMMANDS, longshore
from longshore.config.plugins import shipped_path

SCHEMAS = {
    path.name.removesuffix(".json"): json.loads(path.read_text("utf-8"))
    for path in Path(str(shipped_path("etc", "schema"))).iterdir()
}
OF_INPUTS = {"config", "site", "graph_file"}
"""Schemas of what is read; tests of the configuration, of sites and of graph files hold them."""

WITHOUT_JSON = {
    "config schema": "prints a JSON Schema as it is",
    "init": "writes a file",
    "completion": "prints a script for a shell",
    "dashboard": "serves pages until it is ended",
    "export": "prints a format of other programs",
}
"""Commands that do not take --json, each with the reason."""

MANY: Tasks = {"a": ("A", []), "b": ("B", ["a"]), "c": ("C", ["a"]), "d": ("D", ["b"])}
KINDS = (
    "pipetask: {B: {runQuantumCommand: 'echo oops; exit 3', numberOfRetries: 1}}\nrunQuantumCommand: 'echo {label}'\n"
)


def commands(
    group: click.Group, ctx: click.Context, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Every command with its words, those of groups included."""
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        assert command
        if isinstance(command, click.Group):
            yield from commands(command, ctx, (*words, name))
        else:
            yield " ".join((*words, name)), command


def all_commands() -> dict[str, click.Command]:
    return dict(commands(longshore, click.Context(longshore)))


def check(document: Any) -> str:
    """Hold a document to the schema of its kind, and return that."""
    kind: str = document.get("kind", "error")
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(SCHEMAS[kind], format_checker=checker).validate(document)
    return kind


def test_every_command_gives_json_or_says_why_not() -> None:
    without = {
        words for words, command in all_commands().items() if not any("--json" in each.opts for each in command.params)
    }
    assert without == WITHOUT_JSON.keys()
    assert {words.split()[0] for words in all_commands()} == COMMANDS.keys()


def test_what_every_command_prints_is_what_its_schema_says(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    """One run with a failure and a pruned job, and every command once at least."""
    path = write_run(KINDS, MANY).name
    seen: set[str] = set()
    used: set[str] = set()

    def ask(words: str, *arguments: str, status: int = 0) -> Any:
        ran = cli(*words.split(), *arguments, "--json")
        assert ran.returncode == status, ran.stderr
        used.add(words)
        seen.add(check(ran.json))
        return ran.json

    for stage in ("acquire", "cluster", "transform", "prepare"):
        ask(stage, path)
    run = ask("submit", path, "--wait", status=19)["id"]
    ask("report")
    ask("report", run)
    ask("status", run, status=19)
    ask("submit", path, "--reuse", run, "--dry-run")
    ask("restart", run, "--dry-run")
    for words in (["cancel", run], ["resume", run], ["resume", "--all"], ["ping"]):
        ask(*words)
    ask("config show", path)
    ask("config explain", path, "requestMemory")
    ask("config lint", path)
    for words in (
        ["site list"],
        ["site show", "local"],
        ["site init", "new", "--wms-service-class", "local", "--output", "profiles"],
        ["site check", "new", "--site-path", "profiles"],
        ["site match", path, "--compute-site", "local"],
        ["site set-state", "local", "nodes_free=1"],
    ):
        ask(*words)
    ask("logs", run, "--failed", "--tail", "2")
    for words in (["logs", run, "a"], ["verify", run], ["stats", run], ["suggest-resources", run]):
        ask(*words)
    for job in ("a", "b", "d"):
        for command in ("explain", "show-job"):
            ask(command, run, job)
    ask("draw", run)
    for words in (["doctor"], ["clean", run], ["archive", run]):
        ask(*words)
    (tmp_path / "rules.yaml").write_text("notify: {rule: {events: [end], command: 'true'}}\n", "utf-8")
    ask("notify", "rules.yaml", "--test")
    ask("submit", path, "--backend-options=-h", "--set", "wmsServiceClass=slurm")
    ask("logs", run, "nope", status=5)
    (tmp_path / "script.yaml").write_text("customJob: {executable: script.sh}\n", "utf-8")
    ask("submitcmd", "script.yaml", status=7)
    path = write_run("runQuantumCommand: 'sleep 60'\nresources: {cpus: 1}\n", MANY).name
    live = ask("submit", path)["id"]
    ask("pause", live, "--why", "a look")
    ask("unpause", live)
    ask("throttle", live, "--max", "1")
    ask("hold", live, "b")
    ask("release", live, "b")
    ask("set", live, "numberOfRetries=1", "--job", "b")
    ask("cancel", live)
    ask("prepare", path, "--backend-options=-h", "--set", "wmsServiceClass=slurm")
    place = ask("report", live)["runs"][0]["path"]
    ask("forget", live)
    ask("adopt", place)
    lines = cli("events", run, "--json").stdout.splitlines()
    seen |= {check(json.loads(line)) for line in lines}
    used.add("events")
    assert used == all_commands().keys() - WITHOUT_JSON.keys()
    assert seen == SCHEMAS.keys() - OF_INPUTS


@pytest.mark.parametrize(
    "words", [["events", "nope"], ["explain", "nope", "x"], ["show-job", "@last", "x"], ["logs", "x"]]
)
def test_errors_are_json_too(words: list[str], cli: Cli) -> None:
    ran = cli(*words, "--json")
    assert check(ran.json) == "error"
    assert ran.returncode == ran.json["error"]["exit_status"]
