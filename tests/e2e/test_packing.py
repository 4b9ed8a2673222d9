"""``packing`` from a configuration to the run: pilots, jobs of their own, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.command import Cli
from tests.workflows import WriteRun

SITE = "computeSite: far\nsite: {far: {slurm: {wckey: mine}}}\nwmsServiceClass: slurm\n"


def prepared(cli: Cli, path: Path, *more: str) -> tuple[dict[str, Any], str]:
    """Prepare a run; return the executor's settings, and what was told."""
    ran = cli("prepare", path.name, "--json", *more)
    assert ran.returncode == 0, ran.stderr
    settings = json.loads((Path(ran.json["submit_dir"]) / "wms" / "engine.json").read_text("utf-8"))
    return settings.get("executor", {}), ran.stderr


def test_a_run_without_packed_jobs_knows_no_pilots(cli: Cli, write_run: WriteRun) -> None:
    settings, _ = prepared(cli, write_run(f"{SITE}packing: job\npilot: {{cpus: 2}}\n"))
    assert "pilot" not in settings


def test_settings_reach_the_engine(cli: Cli, write_run: WriteRun) -> None:
    settings, _ = prepared(cli, write_run(f"{SITE}packing: pilot\npilot: {{cpus: 2, idle: 1m}}\nqueue: long\n"))
    assert settings["pilot"] == {"cpus": 2, "idle_s": 60.0}, "the rest follows from these and the site's ceilings"
    assert settings["pilot_attributes"] == {"queue": "long"}


def test_a_job_that_no_pilot_holds_is_told(cli: Cli, write_run: WriteRun) -> None:
    _, told = prepared(cli, write_run(f"{SITE}packing: pilot\npilot: {{cpus: 2}}\nrequestCpus: 3\n"))
    assert "run as jobs of their own: 3 processors are more than a pilot's 2" in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("packing: pilots\n", "'packing'"),
        ("packing: pilot\npilot: {cpu: 2}\n", "Did you mean 'cpus'?"),
        ("packing: pilot\npilot: {cpus: none}\n", "'pilot.cpus'"),
        ("packing: pilot\npilot: {lease: 1}\n", "'pilot.lease' must be at least 30 s"),
    ],
)
def test_what_is_wrong_is_refused(cli: Cli, write_run: WriteRun, text: str, words: str) -> None:
    ran = cli("prepare", write_run(f"{SITE}{text}").name)
    assert ran.returncode == 3
    assert words in ran.stderr


def test_other_services_say_that_they_have_no_pilots(cli: Cli, write_run: WriteRun) -> None:
    ran = cli("prepare", write_run("packing: pilot\n").name)
    assert ran.returncode == 0
    assert "'packing' has no effect: it is for the services 'slurm', 'sge' and 'lsf'" in ran.stderr


def test_short_jobs_of_earlier_runs_are_packed(cli: Cli, write_run: WriteRun) -> None:
    text = "payloadName: short\nproject: mine\npacking: auto\nrunQuantumCommand: 'true'\n"
    first, _ = prepared_jobs(cli, write_run(f"{SITE}{text}"))
    ran = cli("submit", write_run(text).name, "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    then, _ = prepared_jobs(cli, write_run(f"{SITE}{text}"))
    never, _ = prepared_jobs(cli, write_run(f"{SITE}{text}pilot: {{shortJob: 0}}\n"))
    assert (first, then, never) == (False, True, False)


def prepared_jobs(cli: Cli, path: Path) -> tuple[bool, str]:
    """Prepare a run; return whether its jobs run in pilots, and what was told."""
    ran = cli("prepare", path.name, "--json")
    assert ran.returncode == 0, ran.stderr
    text = (Path(ran.json["submit_dir"]) / "workflow.jsonl").read_text("utf-8")
    assert '"auto"' not in text
    return '"packing":"pilot"' in text, ran.stderr
