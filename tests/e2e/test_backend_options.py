"""``--backend-options``: a workload manager's own words on the command line; needs no workload manager."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from tests.command import Cli
from tests.workflows import WriteRun

from longshore.config.plugins import shipped_path
from longshore.services.lsf.options import BACKEND_HELP as LSF_HELP
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


@pytest.mark.parametrize("options", ["-p 3", "-h"])
@pytest.mark.parametrize("service", ["local", "htcondor"])
@pytest.mark.parametrize("command", ["submit", "prepare"])
def test_where_a_service_takes_none_they_are_an_error(
    command: str, service: str, options: str, cli: Cli, write_run: WriteRun, tmp_path: Path
) -> None:
    path = write_run(f"wmsServiceClass: {service}\nsite: {{here: {{}}}}\ncomputeSite: here\n")
    done = cli(command, path, "--backend-options", options, "--set", "submitPath=run", cwd=tmp_path)
    assert done.returncode == 2
    assert f"'--backend-options' has no effect: the service '{service}' takes no options" in done.stderr
    assert not (tmp_path / "run").exists()


def test_the_key_without_effect_is_a_note(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    done = cli("prepare", write_run("wmsServiceClass: local\nbackendOptions: -p 3\n"), cwd=tmp_path)
    assert done.returncode == 0
    assert (
        "run.yaml:3:1: 'backendOptions' has no effect: it is for the services 'slurm', 'sge' and 'lsf'" in done.stderr
    )


def test_lsf_takes_those_of_bsub(cli: Cli, write_run: WriteRun, tmp_path: Path) -> None:
    path = write_run(SITE.replace("slurm", "lsf"))
    shown = cli("submit", path, "--backend-options", "-h", "--set", "submitPath=run", cwd=tmp_path)
    assert (shown.returncode, shown.stdout.strip()) == (0, LSF_HELP)
    assert not (tmp_path / "run").exists()
    done = cli("prepare", path, "--backend-options", "-q long -W 1:30", "--set", "submitPath=run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    workflow = (tmp_path / "run" / "workflow.jsonl").read_text("utf-8")
    assert '"queue":"long"' in workflow
    assert '"walltime_s":5400.0' in workflow
