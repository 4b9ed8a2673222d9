"""A run whose configuration names candidates: its report says why it is where it is, and a restart keeps the site."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from tests.command import Cli
from tests.waiting import eventually

from longshore.config.plugins import shipped_path

REFUSED, FAILED = 6, 19
TEXT = """
pipeline: {tasks: {one: {command: 'test -e ok && until test -e go; do sleep 0.05; done'}}}
computeSite: auto
requestCpus: 2
numberOfRetries: 0
siteSelection: {select: {name: constraint, priorities: [[{filter: "nodes_free > 0"}, {select: first}]]}}
site:
  small: {service: local, limits: {cpus: 1}}
  first: {service: local, siteState: {nodes_free: 1}}
  second: {service: local, siteState: {nodes_free: 1}}
"""


def test_a_run_at_a_chosen_site(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(TEXT, "utf-8")
    explained = cli("site", "match", "run.yaml", "--explain")
    assert explained.returncode == 0
    assert "'requestCpus' of 'one' in 'limits.cpus': asked 2, nearest 1" in explained.stdout
    assert explained.stdout.splitlines()[-1] == "site: first"
    document = json.loads(cli("site", "match", "run.yaml", "--json").stdout)
    jsonschema.validate(document, json.loads(shipped_path("etc", "schema", "site_match.json").read_text("utf-8")))
    assert document["site"] == "first"

    failed = cli("submit", "run.yaml", "--wait")
    assert failed.returncode == FAILED
    report = json.loads(cli("report", "@last", "--json").stdout)
    (run,) = report["runs"]
    assert run["site"] == "first"
    choice = "Choice: 'first' was chosen by 'constraint' of 2 matching of 3 candidates; nodes_free 1"
    assert any(line.startswith(choice) for line in run["specifics"])

    # While the run goes on, its site has no free node left, and the run stays there.
    (tmp_path / "ok").touch()
    again = cli("restart", "@last", "--set", "requestCpus=1")
    assert again.returncode == 0, again.stderr
    assert json.loads(cli("report", "@last", "--json").stdout)["runs"][0]["site"] == "first"
    assert cli("site", "match", "run.yaml").stdout == "second\n"
    (tmp_path / "go").touch()
    eventually(lambda: cli("status", "@last").returncode == 0)
    assert cli("site", "match", "run.yaml").stdout == "first\n", "what is over takes no node"


def test_no_site_passes(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(TEXT.replace("requestCpus: 2", "requestCpus: 2\nrequestResources: {x: 1}"))
    (tmp_path / "run.yaml").write_text(TEXT.replace("nodes_free > 0", "nodes_free > 5"), "utf-8")
    refused = cli("submit", "run.yaml")
    assert refused.returncode == REFUSED
    assert "did not pass the selection" in refused.stderr
    assert "longshore site match run.yaml --explain" in refused.stderr
    assert cli("site", "match", "run.yaml").returncode == REFUSED


def test_the_state_of_a_site_from_outside(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "campus.yaml").write_text("service: local\n", "utf-8")
    done = cli("site", "set-state", "campus", "nodes_free=12", "--site-path", str(tmp_path))
    assert done.stdout.startswith("nodes_free: 12 (0 s ago, by set)")
    shown = json.loads(cli("site", "set-state", "campus", "--site-path", str(tmp_path), "--json").stdout)
    jsonschema.validate(shown, json.loads(shipped_path("etc", "schema", "site_state.json").read_text("utf-8")))
    assert shown["values"]["nodes_free"]["value"] == 12
    wrong = cli("site", "set-state", "campus", "nodes_free", "--site-path", str(tmp_path))
    assert (wrong.returncode, "NAME=VALUE" in wrong.stderr) == (2, True)


ALONE = """
pipeline:
  dimensions: {n: [1, 2, 3, 4]}
  tasks: {one: {dimensions: [n], command: 'mkdir busy && sleep 0.1 && rmdir busy'}}
computeSite: campus
numberOfRetries: 0
requestCpus: 1
pipetask: {one: {slurm: {gres: 'nosuch:1'}}}
site: {campus: {service: slurm}}
"""


def test_a_run_without_its_workload_manager(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(ALONE + "fallback: local\nreqestDisk: 1\n", "utf-8")
    done = cli("submit", "run.yaml", "--wait", env={"SLURM_CONF": "/nonexistent"})
    assert done.returncode == 0, done.stderr
    # The configuration is resolved at both sites.
    assert done.stderr.count("nothing knows the key 'reqestDisk'") == 1
    assert "the run falls back to 'local'" in done.stderr
    assert "jobs wait until it answers" not in done.stderr
    assert "jobs of 'one' run one at a time on this machine: 'nosuch' is not a resource here" in done.stderr
    (run,) = json.loads(cli("report", "@last", "--json").stdout)["runs"]
    assert (run["site"], run["service"]) == ("local", "local")
    assert any(line.startswith("Choice: the run falls back to 'local'") for line in run["specifics"])


def test_this_machine_in_any_case(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(ALONE, "utf-8")
    assert cli("site", "match", "run.yaml", "--local").stdout == "local\n"
    assert "'--local'" in cli("site", "match", "run.yaml", "--local", "--explain").stdout
    document = json.loads(cli("site", "match", "run.yaml", "--local", "--json").stdout)
    jsonschema.validate(document, json.loads(shipped_path("etc", "schema", "site_match.json").read_text("utf-8")))
    assert (document["site"], document["wished"]) == ("local", ["campus"])
    done = cli("submit", "run.yaml", "--local", "--wait")
    assert done.returncode == 0, done.stderr
    again = cli("restart", "@last", "--with-changes", "--dry-run")
    assert "nothing changed that changes a job" in again.stderr
    wrong = cli("submit", "run.yaml", "--set", "fallback=x")
    assert (wrong.returncode, "'fallback' must be 'local' or 'always', not 'x'" in wrong.stderr) == (3, True)


def test_the_fastest_start_follows_earlier_runs(cli: Cli, tmp_path: Path) -> None:
    text = """
pipeline: {dimensions: {n: [1, 2, 3, 4, 5]}, tasks: {one: {dimensions: [n], command: 'true'}}}
computeSite: auto
siteSelection: {select: {name: fastest_start}}
site: {never: {service: local}, used: {service: local}}
"""
    (tmp_path / "run.yaml").write_text(text, "utf-8")
    before = cli("site", "match", "run.yaml", "--explain").stdout
    assert "no site has enough earlier jobs: the least loaded is selected" in before
    assert cli("submit", "run.yaml", "--compute-site", "used", "--wait").returncode == 0
    after = cli("site", "match", "run.yaml", "--explain").stdout
    assert "the median wait needs 5 earlier jobs: 'never' has 0" in after
    assert after.splitlines()[-1] == "site: used"
