"""The site of a run among candidates: who matches, who is chosen, and what a submission counts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from longshore.config.layers import Overrides, read_layers
from longshore.config.schema import Severity
from longshore.contract.algorithms import SiteSelection, UnmetNeed
from longshore.contract.service import RunPaths
from longshore.errors import ConfigError, LongshoreError, SubmissionRefusedError, UsageError
from longshore.model.report import Snapshot
from longshore.model.sites import CLAIM_S, SiteDecision
from longshore.model.states import JobState
from longshore.model.submission import SubmissionChecks
from longshore.plan.lint_file import lint_file
from longshore.plan.resolved_run import ResolvedRun
from longshore.plan.script_run import prepare_script, submit_script
from longshore.plan.site_choice import (
    ask_for_site,
    change_site_state,
    choose,
    match_sites,
    release_site,
    resolve_at_chosen_site,
)
from longshore.plan.stages import Stage, run_stages
from longshore.plan.submission import submit
from longshore.progress import QuietProgress
from longshore.rundir.histories import read_site_states
from longshore.rundir.registry import RegistryEntry, state_folder, write_entry
from longshore.rundir.run_directory import write_snapshot
from longshore.rundir.submissions import find_changed_files, read_manifest
from longshore.system.reading import read_record
from longshore.system.sharing import is_locked

GRAPH = "resourceGraph: {subsystems: {software: {stack: '%s'}}, with: [{type: node, with: [{type: core, count: 4}]}]}"
SITES = f"""
site:
  small: {{service: local, limits: {{cpus: 1}}}}
  old: {{service: local, {GRAPH % "0.4.9"}}}
  a: {{service: local, siteState: {{cost: 3, nodes_free: 1}}, {GRAPH % "0.5.2"}}}
  b: {{service: local, siteState: {{cost: 1, nodes_free: 2}}, {GRAPH % "0.6.0"}}}
  off: {{service: local, disabled: being moved}}
  broken: {{service: local, resourceGraph: {{wth: []}}}}
"""
RUN = "pipeline: {tasks: {one: {command: 'true'}}}\nrequestCpus: 2\nsubmitPath: run\n"
REQUIRES = 'requires: [{subsystem: software, name: stack, range: {min: "0.5.1"}}]'
CHEAPEST = 'name: constraint, priorities: [[{filter: "nodes_free > 0"}, {sort_ascending: cost}, {select: first}]]'


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run.yaml"


def write(path: Path, select: str = CHEAPEST, *, wish: str = "auto", more: str = "") -> Path:
    """Write a run with candidates."""
    selection = f"siteSelection: {{match: {{{REQUIRES}}}, select: {{{select}}}}}\n"
    path.write_text(f"{RUN}computeSite: {wish}\n{selection}{more}{SITES}", "utf-8")
    return path


def resolve(path: Path, run_id: str = "r1", **options: str) -> ResolvedRun:
    return resolve_at_chosen_site(path, Overrides(options), now=100.0, progress=QuietProgress(), run_id=run_id)


def test_the_cheapest_site_that_matches_is_chosen_with_its_reasons(path: Path) -> None:
    run = resolve(write(path))
    assert run.configuration.site == "b"
    decision = run.decision
    assert decision is not None
    assert [each.name for each in decision.candidates if each.matches] == ["a", "b"]
    known = {each.name: each for each in decision.candidates}
    assert known["small"].unmet[0].asked == "2"
    assert known["old"].unmet[0].nearest == "0.4.9"
    assert known["off"].left_out == "disabled: being moved"
    assert "has no key 'wth'" in known["broken"].left_out
    assert decision.summary().startswith(
        "'b' was chosen by 'constraint' of 2 matching of 6 candidates; cost 1, nodes_free 2"
    )


def test_what_is_submitted_counts_at_once(path: Path) -> None:
    write(path)
    assert [resolve(path, f"r{i}").configuration.site for i in range(3)] == ["b", "b", "a"]
    with pytest.raises(SubmissionRefusedError, match=r"no site of 6 passes: small .*'limits.cpus': asked 2, nearest 1"):
        resolve(path, "r4")


def test_a_run_counts_for_a_day(path: Path) -> None:
    write(path)
    assert [resolve(path, f"r{i}").configuration.site for i in range(3)] == ["b", "b", "a"]
    (state,) = read_site_states(["b"]).values()
    counted = [len(state.counted_claims(100.0 + age_s)) for age_s in (0.0, CLAIM_S - 1, CLAIM_S)]
    assert counted == [2, 2, 0]
    later = resolve_at_chosen_site(path, Overrides({}), now=100.0 + CLAIM_S, progress=QuietProgress(), run_id="later")
    assert later.configuration.site == "b"


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_run_counts_until_it_ends(path: Path, is_finished: bool) -> None:
    write(path)
    run = RunPaths(path.parent / "r0run")
    run.root.mkdir()
    assert [resolve(path, f"r{i}").configuration.site for i in range(2)] == ["b", "b"]
    write_entry(RegistryEntry(id="r0", path=str(run.root), name="r0", service="local", created_at=0.0))
    snapshot = Snapshot(
        life=1,
        n=1,
        at=0.0,
        pid=1,
        host="h",
        boot="b",
        state=JobState.FAILED,
        counts={},
        labels={},
        finished=is_finished,
    )
    write_snapshot(run, snapshot)
    assert resolve(path, "r2").configuration.site == ("b" if is_finished else "a")
    assert ("r0" in claims()) is not is_finished


BROKEN = """
from longshore.contract.capabilities import LoadReporter
from longshore.services.local.service import LocalService

class Broken(LocalService, LoadReporter):
    def query_load(self, ctx):
        return {ANSWER}
"""


@pytest.mark.parametrize("answer", ["1 / 0", "{'nodes_free': 'many'}", "None"])
def test_a_plug_in_that_fails_is_a_note_on_its_site(path: Path, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    name = f"broken_load_{abs(hash(answer))}"
    (path.parent / f"{name}.py").write_text(BROKEN.replace("{ANSWER}", answer), "utf-8")
    monkeypatch.syspath_prepend(str(path.parent))
    selection = "computeSite: [x, y]\nsiteSelection: {select: {name: least_loaded}}\n"
    path.write_text(f"{RUN}{selection}site: {{x: {{service: {name}.Broken}}, y: {{service: local}}}}\n", "utf-8")
    question = ask_for_site(read_layers(path, Overrides({}), now=100.0))
    assert question is not None
    decision = choose(question, run_id="", now=100.0)
    assert decision.site
    (note,) = [each for each in decision.warnings if "failed" in each]
    assert note.startswith("the load of the site 'x' is not known: its service failed with ")


def test_a_run_that_is_not_submitted_does_not_count(path: Path) -> None:
    write(path)
    for number in range(5):
        run = resolve(path, f"r{number}")
        assert run.configuration.site == "b"
        release_site(run)


def claims() -> list[str]:
    return [claim.run for state in read_site_states(["a", "b"]).values() for claim in state.claims]


REFUSED: dict[str, Callable[[Path], object]] = {
    "checks": lambda path: submit(path, checks=SubmissionChecks(strict=True), progress=QuietProgress()),
    "plan": lambda path: submit(path, progress=QuietProgress()),
    "write": lambda path: submit(path, progress=QuietProgress()),
    "prepare": lambda path: run_stages(path, Stage.PREPARE, progress=QuietProgress()),
    "script": lambda path: submit_script(path, progress=QuietProgress()),
    "prepared script": lambda path: prepare_script(path, progress=QuietProgress()),
}


@pytest.mark.parametrize("stage", REFUSED)
def test_a_run_that_is_refused_after_the_choice_does_not_count(path: Path, stage: str) -> None:
    more = {
        "plan": "finalJob: {whenRun: ALWAYS, command1: 'echo {nosuch}'}\n",
        "script": "customJob: {executable: gone}\n",
        "prepared script": "customJob: {executable: gone}\n",
    }
    warns = "name: constraint, priorities: [[{sort_ascending: cost}, {select: random}]]"
    write(path, warns if stage == "checks" else CHEAPEST, more=more.get(stage, ""))
    if stage in {"write", "prepare"}:
        Path("run").mkdir()
        Path("run", "other").touch()
    with pytest.raises(LongshoreError):
        REFUSED[stage](path)
    assert claims() == []


def test_the_record_of_a_choice_is_confirmed_by_the_manifest(path: Path) -> None:
    write(path)
    run_stages(path, Stage.PREPARE, progress=QuietProgress())
    run = RunPaths(Path("run").absolute())
    record = read_record(run.site_choice, SiteDecision)
    assert record is not None
    assert record.site == "b"
    chosen = next(each for each in record.candidates if each.name == "b")
    assert chosen.state["cost"].value == 1
    manifest = read_manifest(run)
    assert manifest is not None
    assert not [*find_changed_files(run, manifest)]
    run.site_choice.write_text(run.site_choice.read_text("utf-8").replace('"b"', '"a"'), "utf-8")
    assert [change.path for change in find_changed_files(run, manifest)] == ["site-choice.json"]


def test_a_run_without_an_id_does_not_count(path: Path) -> None:
    write(path)
    assert [resolve(path, "").configuration.site for _ in range(4)] == ["b"] * 4


def test_candidates_are_matched_while_no_other_choice_waits(path: Path) -> None:
    question = ask_for_site(read_layers(write(path), now=100.0))
    assert question is not None
    settings, lock = question.settings, state_folder() / "sites" / "lock"
    seen: list[tuple[str, bool]] = []

    def match(*arguments: Any) -> tuple[UnmetNeed, ...]:
        seen.append(("match", lock.exists() and is_locked(lock)))
        return settings.backend(*arguments)

    def select(*arguments: Any) -> SiteSelection:
        seen.append(("select", is_locked(lock)))
        return settings.select(*arguments)

    spied = replace(question, settings=replace(settings, backend=match, select=select))
    assert choose(spied, run_id="r1", now=100.0).site == "b"
    assert seen == [*[("match", False)] * (len(seen) - 1), ("select", True)]


@pytest.mark.parametrize(("wish", "site"), [("[a, b]", "b"), ('"[ab]"', "b"), ("[old, a]", "a"), ('["o*", "a*"]', "a")])
def test_lists_and_patterns_are_candidates(path: Path, wish: str, site: str) -> None:
    assert resolve(write(path, wish=wish)).configuration.site == site


def test_a_named_site_is_not_chosen(path: Path) -> None:
    run = resolve(write(path), computeSite="a")
    assert (run.configuration.site, run.decision) == ("a", None)
    assert resolve(write(path, wish="a"), computeSite="auto").configuration.site == "b"


def test_the_chosen_site_is_recorded_as_a_set_value(path: Path) -> None:
    # A restart reads these options again, so that the site stays.
    overrides = resolve(write(path)).configuration.layers.overrides
    assert overrides.sets == ('computeSite="b"',)


def test_a_seed_decides_a_random_choice(path: Path) -> None:
    write(path, "name: random, seed: 3")
    assert len({match_sites(path).site for _ in range(5)}) == 1
    assert {match_sites(path, seed=seed).site for seed in range(20)} == {"a", "b"}


def test_a_job_specification_replaces_what_jobs_ask_for(path: Path) -> None:
    (path.parent / "request.yaml").write_text(
        "version: 1\nresources: [{type: node, with: [{type: core, count: 5}]}]\n", "utf-8"
    )
    path.write_text(f"{RUN}computeSite: auto\nsiteSelection: {{match: {{jobSpecification: request.yaml}}}}{SITES}")
    decision = match_sites(path)
    known = {each.name: each for each in decision.candidates}
    # Nothing is known of the resources of `small`, and a limit holds for jobs.
    assert decision.site == "small"
    assert (known["a"].unmet[0].what, known["a"].unmet[0].nearest) == ("'core' in all", "4 in all")


def test_state_from_outside_is_newer_than_the_profile(path: Path, own_environment: Path) -> None:
    folder = own_environment / ".config" / "longshore" / "sites"
    folder.mkdir(parents=True)
    for name, cost in (("x", 1), ("y", 2)):
        (folder / f"{name}.yaml").write_text(f"service: local\nsiteState: {{cost: {cost}}}\n", "utf-8")
    path.write_text(f"{RUN}computeSite: auto\nsiteSelection: {{select: {{name: cheapest}}}}\n", "utf-8")
    assert match_sites(path).site == "x"
    state = change_site_state("x", ["cost=5", "kind=gpu"])
    assert {name: value.value for name, value in state.values.items()} == {"cost": 5, "kind": "gpu"}
    assert match_sites(path).site == "y"
    assert set(change_site_state("x", ["cost="]).values) == {"kind"}
    assert match_sites(path).site == "x"
    with pytest.raises(ConfigError, match="there is no site 'z'"):
        change_site_state("z", ["a=1"])
    for pair in ("a", "=1", "a=nan", "a b=1"):
        with pytest.raises(UsageError):
            change_site_state("x", [pair])


def test_auto_without_a_described_site_is_an_error(path: Path) -> None:
    path.write_text(f"{RUN}computeSite: auto\n", "utf-8")
    with pytest.raises(ConfigError, match="no site is described"):
        resolve(path)


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("3", "'siteSelection' must be a map"),
        ("{mtach: {}}", "'siteSelection' has no key 'mtach'"),
        ("{match: {require: []}}", "'siteSelection.match' has no key 'require'"),
        ("{select: 3}", "'siteSelection.select' must be a map"),
        ("{select: {name: nosuch}}", "there is no algorithm of selection 'nosuch'"),
        ("{select: {name: constraint}}", "'priorities' must be a list"),
        ("{match: {graph: nosuch}}", "there is no backend of graphs 'nosuch'"),
        ("{match: {jobSpecification: gone.yaml}}", "gone.yaml"),
        ("{match: {jobSpecification: {version: 2}}}", "must have 'version: 1'"),
        ("{match: {requires: [{name: io, macth: x}]}}", "a requirement has no key 'macth'"),
        ("{probe: {timeout: soon}}", "'siteSelection.probe.timeout' must be a time span"),
    ],
)
def test_a_wrong_setting_is_told_by_submit_and_lint(path: Path, selection: str, message: str) -> None:
    path.write_text(f"{RUN}computeSite: auto\nsiteSelection: {selection}\n{SITES}", "utf-8")
    with pytest.raises(LongshoreError, match=message):
        resolve(path)
    errors = [each.message for each in lint_file(path, now=0).findings if each.severity is Severity.ERROR]
    assert errors


def test_lint_judges_the_first_site_that_matches(path: Path) -> None:
    found = [each for each in lint_file(write(path), now=0).findings if each.severity is Severity.ERROR]
    assert found == []
    path.write_text(path.read_text("utf-8").replace('min: "0.5.1"', 'min: "9"'), "utf-8")
    (error,) = [each for each in lint_file(path, now=0).findings if each.severity is Severity.ERROR]
    assert "no site of 6 passes" in error.message


def test_a_graph_in_files_is_read_beside_the_profile(path: Path) -> None:
    def graph(nodes: dict[str, Any], *edges: tuple[str, str]) -> str:
        members = {name: {"metadata": metadata} for name, metadata in nodes.items()}
        pairs = [{"source": one, "target": other} for one, other in edges]
        return json.dumps({"graph": {"nodes": members, "edges": pairs}})

    (path.parent / "c.json").write_text(graph({"c": {"type": "cluster"}, "n": {"type": "node"}}, ("c", "n")), "utf-8")
    (path.parent / "io.json").write_text(graph({"s": {"type": "shm"}}, ("n", "s")), "utf-8")
    requires = "siteSelection: {match: {requires: [{name: io, match: {type: shm}}]}}\n"
    site = "site: {x: {service: local, resourceGraph: {file: c.json, subsystemFiles: {io: io.json}}}}\n"
    path.write_text(f"{RUN}computeSite: [x]\n{requires}{site}".replace("requestCpus: 2\n", ""), "utf-8")
    assert match_sites(path).site == "x"
    (path.parent / "io.json").write_text("{", "utf-8")
    assert "cannot be read" in match_sites(path).candidates[0].left_out


def test_a_site_that_does_not_answer_is_passed_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = path.parent / "bin"
    programs.mkdir()
    for name in ("sbatch", "sinfo", "squeue", "sacct", "scontrol", "sacctmgr"):
        (programs / name).write_text("#!/bin/sh\nexec sleep 15\n", "utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    sites = "site: {dead: {service: slurm}, here: {service: local}}\n"
    path.write_text(f"{RUN}computeSite: [dead, here]\nsiteSelection: {{probe: {{timeout: 1}}}}\n{sites}", "utf-8")
    run = resolve(path)
    assert run.configuration.site == "here"
    assert run.decision is not None
    assert run.decision.candidates[0].left_out == "'slurm' does not answer within 1 s"
    # The run that was not sent there does not count there.
    assert [len(state.claims) for state in read_site_states(["dead", "here"]).values()] == [0, 1]
    assert match_sites(path).site == "here"
    assert match_sites(path, with_probe=False).site == "dead"
