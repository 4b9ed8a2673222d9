"""Whatever is killed, at whichever event, nothing is lost and nothing is run twice; see `chaos.py` for how."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.command import compiled_modules
from tests.depth import rounds

import longshore
from longshore.contract.service import RunPaths
from longshore.model.event import Ended, Lost, Refused, Started, Submitting
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import read_events
from longshore.rundir.run_directory import read_card, write_card
from longshore.rundir.submissions import accept_changes, read_manifest
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JobCode

JOBS = 10
PACKAGE_PARENT = Path(longshore.__file__).resolve().parent.parent
PROGRAM = Path(__file__).with_name("chaos.py")
COMMAND = r"""
  n=$(( ${LONGSHORE_JOB_NAME#job_} )); echo start $n $LONGSHORE_JOB_ATTEMPT >> "$LONGSHORE_JOB_RUN_DIR/notes"
  sleep 0.0$(( n % 4 ))
  if [ $n = 3 ] && [ $LONGSHORE_JOB_ATTEMPT = 1 ]; then exit 7; fi
  echo done $n $LONGSHORE_JOB_ATTEMPT >> "$LONGSHORE_JOB_RUN_DIR/notes"
"""
YAML = f"""
wfformat: graph.json
resources: {{cpus: 3}}
requestMemory: 10
numberOfRetries: 90
retryOnLost: 90
killGrace: 1
runQuantumCommand: |{COMMAND}
"""
MOMENTS = (
    *("append:Sealed", "append:Submitting", "append:Submitted", "append:Started", "append:Ended", "append:Retry"),
    *("append:Finished", "before:write", "after:write", "before:fdatasync", "after:fdatasync", "before:link"),
    *("after:link", "before:fsync", "after:fsync", "before:fork_exec", "after:fork_exec", "before:replace"),
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is prepared and not handed over: short layers, each job with two parents."""
    folder = tmp_path_factory.mktemp("prepared")
    tasks: list[dict[str, Any]] = [
        {
            "name": "job",
            "id": f"job_{number}",
            "parents": [] if number < 4 else [f"job_{number - 4}", f"job_{(number - 1) % 4}"],
            "children": [],
        }
        for number in range(JOBS)
    ]
    graph = {"name": "layers", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": tasks}}}
    (folder / "graph.json").write_text(json.dumps(graph), "utf-8")
    (folder / "run.yaml").write_text(YAML, "utf-8")
    made = subprocess.run(
        [sys.executable, "-m", "longshore", "prepare", "run.yaml", "--json"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(PACKAGE_PARENT)} | compiled_modules(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return Path(json.loads(made.stdout)["submit_dir"])


def drive(prepared: Path, folder: Path, plan: dict[str, Any]) -> Path:
    """Take a copy of a prepared run through a plan, check it, and return where it is."""
    run = folder / "run"
    shutil.copytree(prepared, run)
    # Another run, so that nobody takes its jobs for those of the one before.
    card = read_card(RunPaths(run))
    write_card(RunPaths(run), msgspec.structs.replace(card, key=f"{card.key}{folder.name}"))
    manifest = read_manifest(RunPaths(run))
    assert manifest
    accept_changes(RunPaths(run), manifest)
    done = subprocess.run(
        [sys.executable, PROGRAM, run, json.dumps(plan)],
        # Keepers that are killed leave their folders behind.
        env={**os.environ, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{plan}\n{done.stdout}\n{done.stderr}\n{(run / 'engine.log').read_text('utf-8')}"
    check(run)
    return run


def check(root: Path) -> None:
    """Hold a run that succeeded to the promise, by what its jobs and its journal say."""
    run = RunPaths(root)
    table = JobTable(run)
    number = {int(table[job].name.removeprefix("job_")): job for job in range(len(table))}
    events = list(read_events(run.journal))
    state = replay(table, events)
    lines = [line.split() for line in (root / "notes").read_text("utf-8").splitlines()]
    said = [(what, number[int(name)], int(attempt)) for what, name, attempt in lines]

    assert all(code == JobCode.SUCCEEDED for code in state.code)
    assert sum(state.count_states().values()) == state.size == JOBS
    assert not {line: count for line, count in Counter(said).items() if count > 1}, "no attempt is started twice"

    ends = [event for event in events if isinstance(event, Ended | Lost)]
    accounted = Counter((end.j, end.a) for end in ends)
    assert set(accounted.values()) == {1}, "each attempt ends once"
    begun = {(job, attempt) for what, job, attempt in said if what == "start"}
    assert begun <= accounted.keys(), "no attempt is unaccounted"
    successes = {(end.j, end.a) for end in ends if isinstance(end, Ended) and end.cause is None}
    assert sorted(job for job, _ in successes) == list(range(JOBS)), "each job succeeds once"
    assert {(job, attempt) for what, job, attempt in said if what == "done"} >= successes
    for job, attempt in begun:
        assert attempt <= dict(successes)[job], "what succeeded never runs again"
    refused = {pair for event in events if isinstance(event, Refused) for pair in event.jobs or ()}
    whole = {event.b for event in events if isinstance(event, Refused) and event.jobs is None}
    intents = [event for event in events if isinstance(event, Submitting) and event.b not in whole]
    assert {pair for event in intents for pair in event.jobs} - refused <= accounted.keys()
    assert {(event.j, event.a) for event in events if isinstance(event, Started)} <= accounted.keys()
    where = {line: place for place, line in reversed(list(enumerate(said)))}
    for job, attempt in begun:
        for parent in state.parents[job]:
            last = where["done", parent, dict(successes)[parent]]
            assert last < where["start", job, attempt], "a child starts after its parents"


@pytest.mark.parametrize(
    "victims",
    [("engine", "keeper", "both"), ("guard", "keeper", "guard and keeper"), ("engine", "guard")],
    ids=["the guard lives", "the engine lives", "the keeper lives"],
)
@pytest.mark.parametrize("block", rounds(1, 2, 50))
def test_no_end_is_lost_while_engine_keeper_or_guard_lives(
    prepared: Path, tmp_path: Path, victims: tuple[str, ...], block: int
) -> None:
    for seed in range(3 * block, 3 * block + 3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = drive(prepared, folder, {"seed": seed, "deaths": 12, "victims": victims})
        lost = [event.why for event in read_events(RunPaths(run).journal) if isinstance(event, Lost)]
        # Nobody knows which attempt a process belongs to that was made this moment.
        assert set(lost) <= {"its keeper was killed while starting it"}
        assert (folder / "struck").exists()


@pytest.mark.full
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_engine_may_be_killed_at_every_kind_of_moment(prepared: Path, tmp_path: Path, moment: str) -> None:
    folder = tmp_path / moment.replace(":", "-")
    folder.mkdir()
    # Only a second life has anything to seal.
    first = ["append:Ended"] if moment == "append:Sealed" else []
    drive(prepared, folder, {"at": [*first, moment], "deaths": 3})
    struck = [json.loads(line) for line in (folder / "struck").read_text("utf-8").splitlines()]
    assert {each["moment"] for each in struck} == {*first, moment}


@pytest.mark.parametrize("block", rounds(0, 2, 50))
def test_deaths_at_random_lose_nothing_and_repeat_nothing(prepared: Path, tmp_path: Path, block: int) -> None:
    """Four runs, each of which dies up to a dozen times."""
    for seed in range(4 * block, 4 * block + 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        drive(prepared, folder, {"seed": seed, "deaths": 12, "orders": seed % 3})
