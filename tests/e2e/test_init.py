"""`longshore init` writes what runs, or lints clean, as it is, and overwrites nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Cli


@pytest.mark.parametrize("kind", ["pipeline", "script", "lsst", "site"])
def test_a_start_lints_clean(cli: Cli, tmp_path: Path, kind: str) -> None:
    ran = cli("init", "--kind", kind)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == f"Wrote {kind}.yaml"
    # What LSST's set-up puts into the environment.
    pipelines = tmp_path / "drp_pipe" / "pipelines" / "INSTRUMENT"
    pipelines.mkdir(parents=True)
    (pipelines / "PIPELINE.yaml").write_text("description: d\ntasks: {STEP: a.Task}\n", "utf-8")
    lint = cli("config", "lint", f"{kind}.yaml", "--strict", env={"DRP_PIPE_DIR": str(tmp_path / "drp_pipe")})
    assert lint.returncode == 0, lint.stdout
    assert lint.stdout.startswith(f"{kind}.yaml: 0 errors, 0 warnings, 0 notes\n")


@pytest.mark.parametrize(("kind", "command"), [("pipeline", "submit"), ("script", "submitcmd")])
def test_a_start_runs_as_it_is(cli: Cli, tmp_path: Path, kind: str, command: str) -> None:
    assert cli("init", *(("--kind", kind) if kind != "pipeline" else ())).returncode == 0
    ran = cli(command, f"{kind}.yaml", "--wait", "--json")
    assert ran.returncode == 0, ran.stderr
    assert ran.json["state"] == "SUCCEEDED"


def test_a_site_can_be_run_at(cli: Cli, tmp_path: Path) -> None:
    assert cli("init", "--kind", "site", "sites").returncode == 0
    assert cli("init").returncode == 0
    shown = cli("site", "show", "site", "--site-path", "sites", "--json")
    assert shown.json["service"] == "local"
    ran = cli("submit", "pipeline.yaml", "--site-path", "sites", "--compute-site", "site", "--wait", "--json")
    assert (ran.returncode, ran.json["state"], ran.json["site"]) == (0, "SUCCEEDED", "site"), ran.stderr


def test_a_pipeline_of_lssts_says_what_it_needs(cli: Cli, tmp_path: Path) -> None:
    assert cli("init", "--kind", "lsst").returncode == 0
    text = (tmp_path / "lsst.yaml").read_text("utf-8")
    for need in ("LSST Science Pipelines", "DRP_PIPE_DIR", "Butler repository"):
        assert need in text
    ran = cli("submit", "lsst.yaml", env={"DRP_PIPE_DIR": "/nowhere"})
    assert ran.returncode == 7
    assert "lsst.yaml:" in ran.stderr
    assert "'/nowhere/pipelines/INSTRUMENT/PIPELINE.yaml', which does not exist" in ran.stderr
    for line in text.splitlines():
        if line.startswith("#     longshore "):
            ran = cli(*line.split()[2:])
            # As submit does, lint refuses a pipeline that is not there.
            assert ran.returncode == (7 if "lint" in line else 0), ran.stderr


def test_nothing_is_overwritten(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "script.sh").write_text("mine", "utf-8")
    ran = cli("init", "--kind", "script")
    assert ran.returncode == 7
    assert "'script.sh' exists already" in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["script.sh"]
    assert (tmp_path / "script.sh").read_text("utf-8") == "mine"


def test_a_folder_that_cannot_be(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    ran = cli("init", "file/below")
    assert ran.returncode == 7
    assert "cannot be written" in ran.stderr


def test_a_profile_is_held_to_its_own_schema(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "campus.yaml").write_text("service: local\nlimits: {cpus: many}\n", "utf-8")
    ran = cli("config", "lint", "campus.yaml")
    assert ran.returncode == 3
    assert "campus.yaml:2:16: error: 'limits.cpus'" in ran.stdout
