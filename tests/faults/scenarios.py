"""Runs whose calls are recorded: plain, with failures, cancelled, killed and resumed, restarted."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.disk import Disk
from tests.faults.shim import CallClass, Fault
from tests.faults.small_run import Effect, SmallRun, parse_effect
from tests.faults.trace import Kind, Step, read_trace
from tests.waiting import engine_of, eventually


class Recording(NamedTuple):
    """A recorded run: the disk before, and all calls since."""

    run: SmallRun
    disk: Disk
    steps: list[Step]

    def effects_after(self, number: int) -> list[Effect]:
        """Return what jobs had done when so many calls had returned."""
        path = str(self.run.shim.effects)
        writes = (step.data for step in self.steps[:number] if step.kind is Kind.WRITE and step.path == path)
        return [parse_effect(line) for line in b"".join(writes).decode().splitlines()]


def _submit(run: SmallRun, fault: Fault | None = None) -> None:
    answer = run.command("submit", "run.yaml", env=run.environment(fault))
    assert answer.status == 0, answer


def _await(run: SmallRun, effect: Effect) -> None:
    eventually(lambda: effect in run.effects())


def _plain(run: SmallRun) -> None:
    run.write()
    _submit(run)


def _retries(run: SmallRun) -> None:
    run.write(failing=["a", "c"])
    _submit(run)


def _cancelled(run: SmallRun) -> None:
    run.write(slow=["b"])
    _submit(run)
    _await(run, Effect("start", "b", 1))
    answer = run.command("cancel", str(run.root))
    assert answer.status == 0, answer


def _killed(run: SmallRun) -> None:
    run.write(slow=["b"])
    _submit(run)
    _await(run, Effect("start", "b", 1))
    run.kill()
    answer = run.command("resume", str(run.root))
    assert answer.status == 0, answer


def _engine_killed(run: SmallRun) -> None:
    run.write(slow=["c"], failing=["c"])
    _submit(run)
    _await(run, Effect("start", "c", 1))
    with run.recording_stopped():
        os.kill(engine_of(run.root), signal.SIGKILL)
    answer = run.command("resume", str(run.root))
    assert answer.status == 0, answer


def _restarted(run: SmallRun) -> None:
    run.write(failing=["b"], retries=0)
    _submit(run)
    assert run.wait_for_end()
    answer = run.command("restart", str(run.root))
    assert answer.status == 0, answer


def _sync_failed(run: SmallRun) -> None:
    run.write(slow=["c"])
    _submit(run, Fault(CallClass.SYNC, 4, errno.EIO, where="/journal/0001.jsonl"))


SCENARIOS: Final[dict[str, Callable[[SmallRun], None]]] = {
    "plain": _plain,
    "retries": _retries,
    "cancelled": _cancelled,
    "killed": _killed,
    "engine-killed": _engine_killed,
    "restarted": _restarted,
    "sync-failed": _sync_failed,
}


def record(name: str, place: Path) -> Recording:
    """Take a run through a scenario to its end, and return what was recorded."""
    run = SmallRun(place)
    run.prepare_folders()
    disk = Disk(run.base)
    try:
        SCENARIOS[name](run)
        assert run.wait_for_end(), "the run does not end"
    finally:
        run.kill()
    return Recording(run, disk, list(read_trace(run.shim.trace)))
