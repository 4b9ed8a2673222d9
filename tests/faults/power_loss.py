"""Checks of what a power failure may leave: what reads it says nothing untrue, and a resume completes it."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import NamedTuple

from tests.faults.disk import Chosen, State, write_state
from tests.faults.scenarios import Recording
from tests.faults.small_run import JOBS, LIMIT_S, Effect, SmallRun, count_jobs

from longshore.errors import LongshoreError
from longshore.model.event import Ended, Submitting
from longshore.model.states import JobState
from longshore.reports.report import report_run
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import read_events
from longshore.runstate.open_run import OpenRun, open_run
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JobCode


class Case(NamedTuple):
    """One legal state of a recorded run's disk."""

    step: int
    """Calls that had returned."""
    number: int
    """Number of the state among those of its step."""
    chosen: Chosen
    state: State
    effects: Sequence[Effect]

    def __str__(self) -> str:
        """Name the state."""
        return f"step {self.step}, state {self.number} ({self.chosen.name.lower()})"


class Found(NamedTuple):
    """What reads as recorded."""

    succeeded: frozenset[str] = frozenset()
    is_final: bool = False


def cases(recording: Recording, *, every: int, rounds: int, seed: int = 0) -> Iterator[Case]:
    """Yield legal states after every `every`-th call: the least, the most, only names, and random ones.

    Consumes the recording's disk.
    """
    for number, step in enumerate(recording.steps, 1):
        recording.disk.apply(step)
        if number % every and number != len(recording.steps):
            continue
        effects = recording.effects_after(number)
        chosen = [Chosen.LEAST, Chosen.MOST, Chosen.NAMES, *[Chosen.RANDOM] * rounds]
        if recording.disk.is_durable:
            chosen = [Chosen.LEAST]
        for index, each in enumerate(chosen):
            dice = Random(f"{seed}.{number}.{index}")
            yield Case(number, index, each, recording.disk.state(each, dice), effects)


@contextmanager
def on_disk(case: Case, place: Path) -> Iterator[SmallRun]:
    """Write a state into a folder, for the time of a check."""
    folder = Path(mkdtemp(dir=place))
    run = SmallRun(folder)
    try:
        run.prepare_folders()
        shutil.rmtree(run.base)
        run.base.mkdir()
        write_state(case.state, run.base)
        yield run
    finally:
        shutil.rmtree(folder)


def read_case(case: Case, run: SmallRun) -> tuple[Found, list[str]]:
    """Read a state in this process; return what it says and what is wrong with it."""
    if not run.root.exists():
        return Found(), ["jobs had started, and there is no run"] if case.effects else []
    try:
        opened = open_run(str(run.root))
        found, wrong = _read_journal(case, opened)
        report = report_run(opened, details=True)
    except LongshoreError as error:
        # A run directory has its name only when it is complete.
        return Found(), [f"it cannot be read: {error}"]
    except Exception as error:  # noqa: BLE001 - whatever it is, no user should see it
        return Found(), [f"reading it fails: {error!r}"]
    counts = count_jobs(report)
    if sum(counts.values()) != len(JOBS):
        wrong.append(f"the counts do not add up: {counts}")
    if counts.get(JobState.SUCCEEDED, 0) != len(found.succeeded):
        wrong.append(f"reported {counts}, and the journal has {sorted(found.succeeded)} as succeeded")
    return found, wrong


def _read_journal(case: Case, opened: OpenRun) -> tuple[Found, list[str]]:
    table = JobTable(opened.run)
    names = [table[job].name for job in range(len(table))]
    events = list(read_events(opened.run.journal))
    state = replay(table, events)
    succeeded = frozenset(names[job] for job, code in enumerate(state.code) if code == JobCode.SUCCEEDED)
    done = {(effect.job, effect.attempt) for effect in case.effects if effect.what == "done"}
    begun = {(effect.job, effect.attempt) for effect in case.effects if effect.what == "start"}
    ends = {(names[event.j], event.a) for event in events if isinstance(event, Ended) and event.cause is None}
    intents = {
        (names[job], attempt) for event in events if isinstance(event, Submitting) for job, attempt in event.jobs
    }
    wrong = []
    if untrue := ends - done:
        wrong.append(f"recorded as succeeded, and never done: {sorted(untrue)}")
    if unknown := begun - intents:
        wrong.append(f"started without a record of the intent: {sorted(unknown)}")
    for job, _ in begun:
        if missing := set(JOBS[job][1]) - succeeded:
            wrong.append(f"'{job}' had started, and the success of its parents {sorted(missing)} is not recorded")
    return Found(succeeded, state.finish_event is not None), wrong


def resume_case(case: Case, run: SmallRun, found: Found) -> list[str]:
    """Resume a state on what looks like another boot of the machine; return what is wrong."""
    answer = run.command("resume", str(run.root), env=run.environment(boot_id=str(uuid.uuid4())))
    told = answer.output + answer.errors
    if answer.status is None:
        run.kill()
        return ["'resume' does not end"]
    if "Traceback" in told:
        return [f"'resume' fails: {told}"]
    if answer.status:
        if not case.effects or found.is_final:
            return [] if str(run.root) in told or "run" in told else [f"the refusal names nothing: {told}"]
        return [f"'resume' refuses a run whose jobs had started: {told}"]
    if not run.wait_for_end(LIMIT_S):
        return ["the run does not end after 'resume'"]
    return list(_check_end(case, run, found))


def _check_end(case: Case, run: SmallRun, found: Found) -> Iterator[str]:
    later = [effect for effect in run.effects() if effect.what == "start"]
    begun = {effect for effect in case.effects if effect.what == "start"}
    if again := begun.intersection(later):
        yield f"attempts ran twice: {sorted(again)}"
    if again_succeeded := found.succeeded & {effect.job for effect in later}:
        yield f"jobs that succeeded ran again: {sorted(again_succeeded)}"
    report = run.report()
    counts = count_jobs(report)
    if sum(counts.values()) != len(JOBS):
        yield f"the counts do not add up: {counts}"
    if report.state not in {JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED}:
        yield f"the run has not ended: {report.state} {counts}"
    elif report.state is not JobState.SUCCEEDED and not _may_fail(case):
        yield f"the run ended as {report.state}: {counts}"
    log = run.root / "engine.log"
    if log.exists() and "Traceback" in (text := log.read_text("utf-8", "replace")):
        yield f"the engine failed: {text}"


def _may_fail(case: Case) -> bool:
    """Return whether the run was cancelled, or a job may fail for good."""
    contents = {name: content for name, content in case.state.items() if isinstance(content, bytes)}
    return any(
        name.startswith("work/run/steer/")
        or ("/journal/" in name and (b'"steer"' in content or b'"failed"' in content))
        or (name.endswith("_config.yaml") and b"numberOfRetries: 0" in content)
        for name, content in contents.items()
    )
