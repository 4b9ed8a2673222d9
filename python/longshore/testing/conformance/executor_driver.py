"""Executor driver: calls an executor as the engine does, and checks what it reports of each attempt."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from shlex import quote

import msgspec

from longshore.contract.batch import (
    Accepted,
    AttemptId,
    Batch,
    BatchMember,
    FindResult,
    Limits,
    PollResult,
    Rejected,
    Throttled,
)
from longshore.contract.context import Mark, RunPaths, Unreachable
from longshore.contract.executor import Executor
from longshore.engine.run.executor_capabilities import wait_for_news
from longshore.model.run.event import Ended, Lost, Started
from longshore.model.tasks.task import Command
from longshore.model.workflow.request import Request

HOSTILE_VALUES = (
    "",
    " two  words ",
    'it\'s "quoted" `so` $(so) ${HOME} $HOME',
    "a\nb\tc\r\n",
    "\\n \\t \\\\ %s %b",
    "* ? [a-z] ~ # ! ; & | < > ( ) { }",
    "-n",
    "<ENV:HOME> {visit} @last",
    "Grüße, 世界 🚢",
)
"""Values that must reach a job unchanged."""

_RECORDER = """
import json, os, sys
def text(words): return [os.fsencode(word).decode("utf-8", "surrogateescape") for word in words]
tmp = os.environ["TMPDIR"]
record = {
    "argv": text(sys.argv[2:]),
    "environment": dict(zip(text(os.environ), text(os.environ.values()))),
    "cwd": text([os.getcwd()])[0],
    "tmp": tmp,
    "tmp_files": os.listdir(tmp),
}
os.makedirs(tmp + "/deep/er")
open(tmp + "/deep/er/file", "w").close()
with open(sys.argv[1] + ".part", "w") as file:
    json.dump(record, file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
"""
"""Program that records its arguments and surroundings, and leaves a file in its temporary directory."""


class JobRecord(msgspec.Struct, frozen=True):
    """Arguments and surroundings of a job, as `ExecutorDriver.recording_member` records them."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    cwd: str
    tmp: str
    tmp_files: tuple[str, ...]


class ExecutorDriver:
    """One life of an engine, as an executor sees it.

    Parameters
    ----------
    executor
        The executor, not yet opened.
    run
        The run directory.
    life
        Number of the life.
    timeout_s
        Longest wait for an event or an answer, in seconds.
    """

    def __init__(self, executor: Executor, run: RunPaths, life: int, *, timeout_s: float) -> None:
        self.executor = executor
        self.run = run
        self.timeout_s = timeout_s
        self.starts: dict[AttemptId, int] = {}
        """Number of start events per attempt."""
        self.ends: dict[AttemptId, list[Ended | Lost]] = {}
        self.never_started: list[AttemptId] = []
        self._life = life
        self._jobs = count(10_000 * life)
        self._batches = count(1)
        self._mark: Mark = ""
        self._polled_at = self._submitted_at = -1e9
        self._waiting: set[AttemptId] = set()
        executor.open(run, life)

    def member(
        self,
        command: Command,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        name: str = "job",
        previous: BatchMember | None = None,
    ) -> BatchMember:
        """Return the first attempt of a new job, or the next attempt of the job of `previous`."""
        job, attempt = (previous.job, previous.attempt + 1) if previous else (next(self._jobs), 1)
        return BatchMember(
            job=job,
            attempt=attempt,
            name=name,
            command=command,
            environment=dict(environment or {}),
            working_directory=str(folder or self.run.root),
            log=str(self.run.log_of(job, f"{name}{job}", "conformance", attempt)),
        )

    def recording_member(
        self,
        path: Path,
        *words: str,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        previous: BatchMember | None = None,
    ) -> BatchMember:
        """Return an attempt that records its arguments and surroundings; see `read_record`."""
        command = (sys.executable, "-c", _RECORDER, str(path), *words)
        return self.member(command, environment=environment, folder=folder, previous=previous)

    def submit(self, *members: BatchMember) -> list[str]:
        """Submit attempts in batches of the size that the executor takes, and return the tags."""
        limits = self.executor.limits
        tags = []
        for first in range(0, len(members), limits.max_batch):
            number = next(self._batches)
            # Unique among all runs, as the contract promises.
            tag = f"c{time.time_ns():x}-{self._life}-{number}"
            batch = Batch(id=str(number), tag=tag, request=Request(), members=members[first : first + limits.max_batch])
            self._make_room(limits, len(batch.members))
            self._submit(batch, limits)
            self._waiting |= {(member.job, member.attempt) for member in batch.members}
            tags.append(tag)
        return tags

    def poll(self) -> None:
        """Poll once, and collect the events."""
        _sleep_until(self._polled_at + self.executor.limits.poll_floor_s)
        answer = self.executor.poll(self._mark)
        self._polled_at = time.monotonic()
        if isinstance(answer, Unreachable):
            return
        assert isinstance(answer, PollResult)
        self._mark = answer.mark
        self.never_started += answer.never_started
        for event in answer.events:
            attempt = (event.j, event.a)
            self._waiting.discard(attempt)
            if isinstance(event, Started):
                self.starts[attempt] = self.starts.get(attempt, 0) + 1
                assert attempt not in self.ends, f"the start of {attempt} is reported after its end"
            else:
                self.ends.setdefault(attempt, []).append(event)

    def poll_until(self, is_met: Callable[[], bool], what: str) -> None:
        """Poll until a condition is met."""
        deadline = time.monotonic() + self.timeout_s
        self.poll()
        while not is_met():
            assert time.monotonic() < deadline, f"{what} did not happen in {self.timeout_s} seconds"
            wait_for_news(self.executor, 0.25)
            self.poll()

    def wait_for_end(self, member: BatchMember) -> Ended:
        """Poll until an attempt ended, and return its end."""
        attempt = (member.job, member.attempt)
        self.poll_until(lambda: attempt in self.ends or attempt in self.never_started, f"the end of '{member.command}'")
        assert attempt not in self.never_started, f"'{member.command}' was never started"
        event = self.ends[attempt][0]
        assert isinstance(event, Ended), f"'{member.command}' is lost: {event}"
        return event

    def run_members(self, *members: BatchMember) -> list[Ended]:
        """Submit attempts, and return the end of each."""
        self.submit(*members)
        return [self.wait_for_end(member) for member in members]

    def read_log(self, member: BatchMember) -> str:
        """Return the log of an attempt."""
        return (self.run.root / member.log).read_text("utf-8")

    def find(self, *tags: str) -> Mapping[str, frozenset[AttemptId]]:
        """Look tags up until there is an answer."""
        deadline = time.monotonic() + self.timeout_s
        while isinstance(found := self.executor.find(tags), Unreachable):
            assert time.monotonic() < deadline, f"the tags cannot be looked up: {found.why}"
            wait_for_news(self.executor, 0.25)
        assert isinstance(found, FindResult)
        return found.taken

    def _make_room(self, limits: Limits, members: int) -> None:
        most = limits.max_waiting
        if most is not None:
            self.poll_until(lambda: len(self._waiting) + members <= max(most, members), "room for another batch")

    def _submit(self, batch: Batch, limits: Limits) -> None:
        deadline = time.monotonic() + self.timeout_s
        while time.monotonic() < deadline:
            _sleep_until(self._submitted_at + (1 / limits.submit_per_s if limits.submit_per_s else 0.0))
            answer = self.executor.submit(batch)
            self._submitted_at = time.monotonic()
            assert not isinstance(answer, Rejected), f"a batch is rejected: {answer.why}"
            if isinstance(answer, Accepted):
                assert answer.id, "a batch is accepted without an id"
                return
            if isinstance(answer, Throttled):
                time.sleep(answer.retry_after_s)
            elif batch.tag in self.find(batch.tag):
                return
        raise AssertionError(f"no batch was taken in {self.timeout_s} seconds")


def read_record(path: Path) -> JobRecord:
    """Return what an attempt of `ExecutorDriver.recording_member` recorded."""
    assert path.exists(), "the job recorded nothing: its program did not run"
    return msgspec.convert(json.loads(path.read_text("utf-8")), JobRecord)


def heartbeat_line(path: Path, *, first: str = "") -> str:
    """Return a line of shell whose grandchild writes to a file until it is killed; it begins with `first`."""
    beat = f"{first} while :; do echo x >> {quote(str(path))}; sleep 0.05; done"
    return f"{first} ( ( {beat} ) & wait ) & wait; while :; do sleep 0.05; done"


def assert_no_heartbeat(paths: list[Path]) -> None:
    """Check that no process writes to these files any more."""
    # A write that had begun when the end was reported may still arrive.
    time.sleep(0.1)
    before = [path.stat().st_size for path in paths]
    time.sleep(0.4)
    assert [path.stat().st_size for path in paths] == before, "a process of a job is left"


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
