"""Writes a run of 100,172 jobs that is 94 % done, as an engine leaves it, without running a job."""

from __future__ import annotations

import fcntl
import json
import os
import random
import subprocess
import sys
import threading
import time
from array import array
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from longshore.contract.service import RunPaths
from longshore.model.event import (
    FORMAT,
    Ended,
    Event,
    Failed,
    Finished,
    Life,
    Retry,
    Started,
    Submitted,
    Submitting,
)
from longshore.model.json_lines import SEED, add_checksum, checksum_after, encode
from longshore.model.report import Snapshot
from longshore.model.states import Cause, JobState
from longshore.rundir.job_table import JobTable
from longshore.rundir.run_directory import read_snapshot, write_snapshot
from longshore.runstate.apply_events import apply_event
from longshore.runstate.replay import initial_state
from longshore.runstate.run_state import JobCode, RunState, count_states
from longshore.system.host import SystemClock, boot_id, host_name

SIZE = 100_172
LABELS = ("isr", "calibrate", "match", "warp", "assemble", "detect", "merge", "deblend", "measure", "force")
_COMMAND = (
    "${{CTRL_MPEXEC_DIR}}/bin/pipetask --long-log --log-level=VERBOSE run-qbb /repo/main/butler.yaml"
    " /data/submit/u/ada/DM-1/20251120T120000Z/run.qgraph --qgraph-node-id {number:032x} --no-versions"
)


def prepare(folder: Path, size: int = SIZE, *, name: str = "big") -> RunPaths:
    """Prepare a run directory of ten layers of jobs with two parents each."""
    width = size // len(LABELS)
    tasks = []
    for layer, label in enumerate(LABELS):
        here = width + (size - width * len(LABELS) if not layer else 0)
        for place in range(here):
            above = (place, (place + 1) % width) if layer else ()
            parents = [f"{LABELS[layer - 1]}_{each:06}" for each in above]
            tasks.append({"name": label, "id": f"{label}_{place:06}", "parents": parents})
    document = {"name": "big", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": tasks}}}
    (folder / "graph.json").write_text(json.dumps(document), "utf-8")
    lines = [
        "wfformat: graph.json",
        f"runQuantumCommand: {json.dumps(_COMMAND.format(number=1))}",
        f"submitPath: {name}",
    ]
    (folder / "big.yaml").write_text("\n".join(lines) + "\n", "utf-8")
    subprocess.run(
        [sys.executable, "-m", "longshore", "prepare", "big.yaml"], cwd=folder, capture_output=True, check=True
    )
    return RunPaths(folder / name)


def write_journal(run: RunPaths, *, done: float = 0.94, running: int = 64) -> RunState:
    """Write the journal and the snapshot of an engine at the given progress."""
    jobs = JobTable(run, "parents")
    state = initial_state(jobs)
    now = time.time() - 3600.0
    life = Life(v=FORMAT, life=1, t=now, host=host_name(), pid=os.getpid(), boot=boot_id(), by="submit")
    with (run.journal / "0001.jsonl").open("wb") as file:
        number, crc = 0, SEED
        for number, event in enumerate(_journal_events(state, jobs, life, int(len(jobs) * done), running)):
            if number:
                event = msgspec.structs.replace(event, n=number)  # noqa: PLW2901 - as the journal does
            line, crc = add_checksum(encode(event), crc)
            file.write(line)
            apply_event(state, event)
    write_current_snapshot(run, state, jobs, life, number)
    return state


def _journal_events(state: RunState, jobs: JobTable, life: Life, target: int, running: int) -> Iterator[Event]:
    """Yield events until ``target`` jobs have succeeded; some jobs fail once, some twice."""
    draw = random.Random(1)
    now = life.t
    yield life
    ready = array("l")
    place = successes = 0
    while successes < target:
        ready.extend(state.newly_ready)
        state.newly_ready.clear()
        if place == len(ready):
            break
        job = ready[place]
        place += 1
        now += 3000.0 / target
        number = state.attempts[job] + 1
        yield from _start_events(state, jobs, job, now)
        bad = draw.random() < (0.004 if number == 1 else 0.3) and target < len(jobs)
        seconds = draw.lognormvariate(3.0, 0.5)
        yield Ended(
            t=now,
            j=job,
            a=number,
            exit=draw.choice((1, 3, 139)) if bad else 0,
            cause=Cause.EXIT if bad else None,
            start=now,
            end=now + seconds,
            run_s=seconds,
            cpu_s=0.9 * seconds,
            rss_b=draw.randrange(2**28, 2**31),
        )
        if not bad:
            successes += 1
        elif number == 1:
            yield Retry(t=now, j=job, a=2, cause=Cause.EXIT)
        else:
            yield Failed(t=now, j=job, why="no attempt is left")
    for job in ready[place : place + running]:
        yield from _start_events(state, jobs, job, now)
    if state.is_over:
        yield Finished(t=now, state=JobState.SUCCEEDED)


def _start_events(state: RunState, jobs: JobTable, job: int, now: float) -> Iterator[Event]:
    number, batch = state.attempts[job] + 1, f"1.{job}"
    yield Submitting(t=now, b=batch, tag=f"k7f3aa-{batch}", jobs=((job, number),), request=jobs.settings(job).request)
    yield Submitted(t=now, b=batch, id=batch)
    yield Started(t=now, j=job, a=number, host="here", at=now)


def write_progress(run: RunPaths, state: RunState, stop: threading.Event, *, jobs_per_s: int = 100) -> None:
    """Write events and snapshots like a live engine, at a fixed rate, until stopped."""
    jobs = JobTable(run)
    snapshot = read_snapshot(run)
    assert snapshot
    assert state.life
    number, now = snapshot.n, time.time()
    ready = [job for job in range(len(jobs)) if state.code[job] == JobCode.READY]
    with (run.journal / "0001.jsonl").open("rb") as written:
        crc = checksum_after(deque(written, maxlen=1)[0])
    assert crc is not None
    with (run.journal / "0001.jsonl").open("ab", buffering=0) as file:
        while ready and not stop.wait(1.0):
            text = b""
            for job in ready[:jobs_per_s]:
                ended = Ended(t=now, j=job, a=state.attempts[job] + 1, exit=0, end=now, run_s=20.0)
                for event in (*_start_events(state, jobs, job, now), ended):
                    number += 1
                    numbered = msgspec.structs.replace(event, n=number)
                    line, crc = add_checksum(encode(numbered), crc)
                    text += line
                    apply_event(state, numbered)
            del ready[:jobs_per_s]
            file.write(text)
            write_current_snapshot(run, state, jobs, state.life, number)


def write_current_snapshot(run: RunPaths, state: RunState, jobs: JobTable, life: Life, number: int) -> None:
    """Write the snapshot of the current state."""
    labels = {label: count_states(row) for label, row in zip(jobs.labels, state.counts, strict=True)}
    snapshot = Snapshot(
        life=life.life,
        n=number,
        at=SystemClock().now(),
        pid=life.pid,
        host=life.host,
        boot=life.boot,
        state=state.finish_event.state if state.finish_event else JobState.RUNNING,
        counts=state.count_states(),
        labels=labels,
        finished=state.finish_event is not None,
    )
    write_snapshot(run, snapshot)


@contextmanager
def engine_lock(run: RunPaths) -> Iterator[None]:
    """Hold the lock of a live engine."""
    lock = os.open(run.engine_lock, os.O_RDWR | os.O_CREAT, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(lock)
