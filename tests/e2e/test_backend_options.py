"""``--backend-options``: a workload manager's own words on the command line; needs no workload manager."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.command import Cli
from tests.workflows import WriteRun

from longshore.config.plugins import shipped_path
from longshore.services.slurm.service import BACKEND_HELP

SITE = "site: {pool: {service: slurm}}\ncomputeSite: pool\nrequestCpus: 1\nrunQuantumCommand: 'true'\n"


@pytest.mark.parametrize("command", [["submit"], ["prepare"], ["config", "lint"], ["config", "show"]])
def test_help_is_the_table(command: list[str], cli: Cli, write_run: WriteRun) -> None:
    done = cli(*command, write_run(SITE), "--backend-options=-h")
    assert (done.returncode, done.stdout.strip()) == (0, BACKEND_HELP)


def test_help_as_json(cli: Cli, write_run: WriteRun) -> None:
    done = cli("submit", write_run(SITE), "--backend-options=-p x -h", "--json")
    schema = json.loads(shipped_path("etc", "schema", "backend_options.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(done.json)
    assert done.json["text"] == BACKEND_HELP


def test_they_win_over_all_else(cli: Cli, write_run: WriteRun) -> None:
    path = write_run(SITE + "pipetask: {A: {requestCpus: 2}}\n")
    done = cli("config", "explain", path, "requestCpus", "--label", "A", "--backend-options", "-c 4", "--json")
    assert done.returncode == 0
    assert '"4"' in done.stdout
    assert "backendOptions" in done.stdout


def test_a_wrong_one_says_which_there_are(cli: Cli, write_run: WriteRun) -> None:
    done = cli("submit", write_run(SITE), "--backend-options", "--frobnicate=3")
    assert done.returncode == 3
    assert "there is no option '--frobnicate=3' of the back end" in done.stderr
    assert "--reservation=NAME" in done.stderr


def test_the_local_service_has_no_use_for_them(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    done = cli("prepare", write_run(), "--backend-options", "-p 3", cwd=tmp_path)
    assert done.returncode == 0
    assert "'backendOptions' has no effect" in done.stderr
