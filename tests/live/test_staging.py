"""Jobs whose files are staged, on real batch systems: a real workflow, jobs in pilots, kills at random moments."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.command import Cli
from tests.live.condor_runs import CondorSite
from tests.live.runs import DIALECT_SITES, DialectSite, until

pytestmark = pytest.mark.live

MONTAGE = str(Path(__file__).resolve().parents[2] / "doc" / "examples" / "montage" / "montage-2mass-005d")
GRAPH = """\
{"kind": "longshore-graph", "version": 1, "name": "staged", "tasks": 3, "edges": 2, "files": 5}
{"name": "raw", "path": "RAW", "transfer": true}
{"name": "upper"}
{"name": "size"}
{"name": "where"}
{"name": "both", "path": "made of it/both words"}
{"name": "up", "label": "up", "command": "tr a-z A-Z < <FILE:raw> > <FILE:upper>", "inputs": [0], "outputs": [1]}
{"name": "count", "label": "count", "command": "wc -c < <FILE:raw> > <FILE:size>; pwd > <FILE:where>", "inputs": [0], \
"outputs": [2, 3]}
{"name": "join", "label": "join", "command": "cat <FILE:upper> <FILE:size> > <FILE:both>", "inputs": [1, 2], \
"outputs": [4], "parents": [0, 1]}
"""
EPIGENOMICS = str(Path(__file__).resolve().parents[1] / "data" / "wfformat" / "epigenomics-57-001")
LAST_JOBS = {MONTAGE: ("mViewer_ID0000058", 3), EPIGENOMICS: ("pileup_00000041", 1)}
"""The last job of each workflow, and how many files it reads that other jobs made."""
SCRATCH = "fileSystem: scratch\nretryDelay: 0.1\n"
PACKED = "packing: pilot\npilot: {cpus: 2, memory: 200, count: 2, walltime: 600, idle: 10}\n"


@pytest.fixture(params=DIALECT_SITES.values())
def site(request: pytest.FixtureRequest) -> DialectSite:
    """A user's site on each batch system in turn."""
    found: DialectSite = request.getfixturevalue(request.param)
    return found


def outputs_of(run: Path) -> dict[str, int]:
    """Return the sizes of the files that a replayed workflow made, by their paths."""
    folder = run / "data"
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_a_real_workflow_gives_what_it_gives_here(site: DialectSite, cli: Cli) -> None:
    check_replay(site, cli, "")


@pytest.mark.parametrize("workflow", [MONTAGE, EPIGENOMICS], ids=["montage", "epigenomics"])
@pytest.mark.parametrize("site", ["bare_site", "sge_site"], indirect=True)
def test_a_real_workflow_is_staged_in_pilots(site: DialectSite, cli: Cli, workflow: str) -> None:
    check_replay(site, cli, PACKED, workflow)


@pytest.mark.parametrize("site", ["kept_site"], indirect=True)
def test_a_real_workflow_is_staged_without_an_engine(site: DialectSite, cli: Cli) -> None:
    check_replay(site, cli, "slurm: {mode: native}\n")


def test_htcondor_gives_what_this_machine_gives(condor_site: CondorSite) -> None:
    raw = condor_site.folder / "raw words.txt"
    raw.write_text("a few words\n", "utf-8")
    (condor_site.folder / "staged.jsonl").write_text(GRAPH.replace("RAW", str(raw)), "utf-8")
    runs = []
    heads = (f"{condor_site.head}fileSystem: scratch\n", f"{condor_site.head}fileSystem: transfer\n", SCRATCH)
    for number, head in enumerate(heads):
        path = condor_site.folder / f"staged{number}.yaml"
        path.write_text(f"{head}requestMemory: 50\ngraphFile: staged.jsonl\n", "utf-8")
        ran = condor_site.cli("submit", path, "--json", "--set", f"submitPath={condor_site.folder}/my runs/{number}")
        assert ran.returncode == 0, ran.stderr
        runs.append(Path(ran.json["submit_dir"]))
    for run in runs:
        assert condor_site.ended(run)["state"] == "SUCCEEDED"
        assert not (run / "where").read_text("utf-8").startswith(str(run)), "the job ran elsewhere"
        assert (run / "made of it" / "both words").read_text("utf-8") == "A FEW WORDS\n12\n"


def check_replay(site: DialectSite, cli: Cli, more: str, workflow: str = MONTAGE) -> None:
    """Replay a workflow there, staged, and here, and compare what they made."""
    staged = site.replay(workflow, SCRATCH + more)
    assert site.report(staged)["state"] == "SUCCEEDED"
    last, files_in = LAST_JOBS[workflow]
    (attempt,) = site.attempts(staged, last)
    assert attempt["staged"]["files_in"] == files_in
    assert attempt["staged"]["files_out"] == 1
    here = site.folder / "here.yaml"
    text = (site.folder / "run.yaml").read_text("utf-8").replace(site.head, "").replace(more, "")
    here.write_text(text.replace(SCRATCH, ""), "utf-8")
    ran = cli("submit", here, "--wait", "--json", timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert outputs_of(staged) == outputs_of(Path(ran.json["submit_dir"])) != {}


@pytest.mark.parametrize("site", ["bare_site"], indirect=True)
def test_without_an_engine_the_end_of_the_run_removes_what_kills_left(site: DialectSite) -> None:
    go, noted, out = site.folder / "go", site.folder / "noted", site.folder / "out"
    half = f'head -c 1 {{source}} > {{target}}; echo $PPID > "{noted}.new"; mv {noted}.new {noted}; sleep 60'
    path = site.folder / "staged.yaml"
    path.write_text(
        f"{site.head}{SCRATCH}requestMemory: 20\npayloadName: staged\nslurm: {{mode: native}}\n"
        f"transferCommand: {{out: '{half}'}}\npipeline:\n  tasks:\n"
        "    killed: {command: 'printf 77 > {o}', outputs: {o: out/o}}\n"
        f"    waits: {{command: 'until test -e {go}; do sleep 0.2; done'}}\n",
        "utf-8",
    )
    ran = site.cli("submit", path, "--no-probe", "--json")
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    until(noted.exists, "a transfer")
    kill_process(noted)
    until(lambda: site.counts(run).get("FAILED") == 1, "the end of the job")
    assert list(out.glob(".longshore-stage*")), "a report changes nothing"
    go.touch()
    assert site.ended(run)["state"] == "FAILED"
    until(lambda: list(out.iterdir()) == [], "the work of the job that comes last")


@pytest.mark.parametrize("site", ["bare_site", "sge_site"], indirect=True)
def test_killed_transfers_leave_no_half_file(site: DialectSite) -> None:
    """Stage programs are killed at random moments; each output is whole under its name, or not there."""
    seen = site.folder / "seen"
    seen.mkdir()
    halves = f'head -c 1 {{source}} > {{target}}; echo $PPID > "{seen}/$$"; sleep 1; cp {{source}} {{target}}'
    tasks = "\n".join(
        f"    t{number}: {{command: 'printf %0100d 7 > {{o{number}}}', outputs: {{o{number}: out/{number}}}}}"
        for number in range(8)
    )
    path = site.folder / "staged.yaml"
    # Late rounds meet the same few jobs again, whose delays would double each time.
    path.write_text(
        f"{site.head}{SCRATCH}retryDelayMax: 0.2\nrequestMemory: 20\nnumberOfRetries: 30\nretryOnTransfer: 30\n"
        f"payloadName: staged\ntransferCommand: {{out: '{halves}'}}\npipeline:\n  tasks:\n{tasks}\n",
        "utf-8",
    )
    ran = site.cli("submit", path, "--no-probe", "--json")
    assert ran.returncode == 0, ran.stderr
    run = Path(ran.json["submit_dir"])
    chosen, known, out = random.Random(5), set[Path](), site.folder / "out"
    for _ in range(5):
        fresh = until(partial(new_notes, seen, frozenset(known), lambda: site.report(run)["state"]), "a transfer")
        if fresh == "over":
            break
        known |= fresh
        for note in chosen.sample(sorted(fresh), (len(fresh) + 1) // 2):
            time.sleep(chosen.random() * 0.3)
            kill_process(note)
            assert all(len(file.read_bytes()) == 100 for file in out.glob("[0-9]*"))
    assert site.ended(run)["state"] == "SUCCEEDED"
    assert sorted(file.name for file in out.iterdir()) == sorted(map(str, range(8))), "whole, and nothing beside them"
    assert all(len(file.read_bytes()) == 100 for file in out.iterdir())
    assert sum(len(site.attempts(run, f"t{number}")) for number in range(8)) > 8, "some were killed"


def new_notes(folder: Path, known: frozenset[Path], state: Callable[[], str]) -> set[Path] | str:
    """Return the notes of transfers that are not known yet; ``over`` at the end of the run."""
    return set(folder.iterdir()) - known or ("over" if state() == "SUCCEEDED" else "")


def kill_process(note: Path) -> None:
    """Kill the stage program that a transfer noted, if it still runs."""
    try:
        pid = int(note.read_text("utf-8"))
        if b"longshore-stage" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        pass
