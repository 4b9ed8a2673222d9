"""Conformance of executors: jobs, their ends, logs, batches and cancellation, and a class for each capability."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from shlex import quote
from typing import ClassVar, TypeAlias

import msgspec
from msgspec import structs

from longshore.contract import capabilities, executor
from longshore.contract.executor import (
    Accepted,
    AttemptId,
    Batch,
    BatchMember,
    BatchSizing,
    EndRetention,
    Executor,
    FindResult,
    HostBound,
    JobPacking,
    LateFactSource,
    Limits,
    NewsWait,
    PollResult,
    ProcessCleanup,
    Rejected,
    Reprioritisable,
    ResourceProbe,
    SubmitWindow,
    Throttled,
    UnitHolder,
    Urgency,
)
from longshore.contract.service import Mark, RunPaths, Unreachable
from longshore.engine.run.loop import wait_for_news
from longshore.keeper.program.units import UnitFile
from longshore.model.event import Ended, FileStamp, Lost, OutputState, Started
from longshore.model.states import Cause
from longshore.model.tasks import Command
from longshore.model.workflow import MIB, Request
from longshore.system.files import files
from longshore.testing.runs import begin_changed_workflow

# Coverage of capabilities: each capability of a service or executor needs its conformance class in the test class.


_MODULES = (capabilities.__name__, executor.__name__)


def capabilities_of(kind: type) -> set[type]:
    """Return the capabilities that a service or executor derives from."""
    known = {parent for parent in kind.__mro__ if parent.__module__ in _MODULES}
    # An engine's service owns an executor by its base class: there is nothing more to test of that.
    return known - {executor.Executor, executor.ExecutorOwner}


def covered_capabilities(test_class: type) -> set[type]:
    """Return the capabilities whose conformance classes a test class derives from."""
    return {vars(parent)["capability"] for parent in test_class.__mro__ if "capability" in vars(parent)}


def assert_capabilities_are_covered(test_class: type, kind: type) -> None:
    """Check that a test class has the conformance class of each capability, and no other."""
    there, covered = capabilities_of(kind), covered_capabilities(test_class)
    missing = sorted(f"{each.__name__}Conformance" for each in there - covered)
    assert not missing, f"'{test_class.__name__}' must also derive from {', '.join(missing)}"
    wrong = sorted(f"{each.__name__}Conformance" for each in covered - there)
    assert not wrong, f"'{kind.__name__}' lacks the capabilities of {', '.join(wrong)}"


# Executor driver: calls an executor as the engine does, and checks what it reports of each attempt.


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


# Conformance of every executor: jobs, their ends, logs and surroundings, batches found by tag, and cancellation.


# ruff: noqa: D102 - the name of a test says what it checks


MakeExecutor: TypeAlias = Callable[[], Executor]

_CPU_AND_MEMORY = f"""
import time
block = bytearray(b"x" * ({64 * MIB}))
while time.process_time() < 0.3: pass
"""


class ExecutorTestCase:
    """Base of all conformance classes of executors.

    Fixtures of the subclass: ``make_executor``, a callable that returns a new executor, not yet opened; and ``run``,
    the `RunPaths` of an empty directory that jobs can write to.
    """

    timeout_s: ClassVar[float] = 30.0
    """Longest wait for the start or end of a short job, in seconds."""
    grace_s: ClassVar[float] = 1.0
    """Seconds between TERM and KILL of a cancelled job."""

    @contextmanager
    def open_driver(self, make_executor: MakeExecutor, run: RunPaths, life: int = 1) -> Iterator[ExecutorDriver]:
        """Open a new executor for one life of an engine, and close it at the end."""
        driver = ExecutorDriver(make_executor(), run, life, timeout_s=self.timeout_s)
        try:
            yield driver
        finally:
            driver.executor.close()


class ExecutorConformance(ExecutorTestCase):
    """Core of an executor: `longshore.contract.executor.Executor`."""

    small_jobs: ClassVar[int] = 200
    """Number of small jobs that are submitted at once."""
    reports_all_starts: ClassVar[bool] = True
    """Whether the start of a job is reported even if the job has ended by then."""
    sends_term: ClassVar[bool] = True
    """Whether a cancelled job receives TERM before it is killed."""

    def test_the_test_class_covers_all_capabilities(self, make_executor: MakeExecutor) -> None:
        assert_capabilities_are_covered(type(self), type(make_executor()))

    def test_a_job_starts_and_ends_once(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            member = driver.member(("/bin/sh", "-c", "exit 0"))
            event = driver.run_members(member)[0]
            assert (event.exit, event.signal, event.cause) == (0, None, None)
            for _ in range(3):
                wait_for_news(driver.executor, 0.05)
                driver.poll()
            attempt = (member.job, member.attempt)
            assert len(driver.ends[attempt]) == 1, "an end is reported more than once"
            starts = driver.starts.get(attempt, 0)
            assert starts == 1 if self.reports_all_starts else starts <= 1, f"its start is reported {starts} times"

    def test_an_empty_run_has_no_news(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            driver.poll()
            wait_for_news(driver.executor, 0.0)
            driver.poll()
            assert [driver.starts, driver.ends, driver.never_started] == [{}, {}, []]

    def test_exit_codes_are_reported(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        codes = (0, 1, 3, 126, 127, 200, 255)
        with self.open_driver(make_executor, run) as driver:
            events = driver.run_members(*[driver.member(("/bin/sh", "-c", f"exit {code}")) for code in codes])
            assert tuple(event.exit for event in events) == codes
            assert [event.cause is None for event in events] == [code == 0 for code in codes]

    def test_declared_outputs_are_checked_or_left_to_the_engine(
        self, make_executor: MakeExecutor, run: RunPaths
    ) -> None:
        paths = tuple(str(run.root / name) for name in ("it's there", "not there", "empty", "stale"))
        (run.root / "stale").write_text("as before", "utf-8")
        with self.open_driver(make_executor, run) as driver:
            command = f"echo x > {quote(paths[0])}; : > {quote(paths[2])}"
            members = [
                msgspec.structs.replace(driver.member(line), outputs=these)
                for line, these in ((command, paths), (command, paths[:1]), ("exit 3", paths[1:2]))
            ]
            first, second, third = (driver.run_members(member)[0] for member in members)
            assert third.cause is Cause.EXIT
            assert (first.exit, second.exit, third.exit) == (0, 0, 3)
            if first.outputs is not None:
                states = [(finding.output, finding.state) for finding in first.outputs]
                assert states == [(1, OutputState.MISSING), (2, OutputState.EMPTY), (3, OutputState.STALE)]
                assert [finding.state for finding in second.outputs or ()] == []
                status = (run.root / "it's there").stat()
                assert first.stamps == ()
                assert second.stamps in [(), (FileStamp(status.st_size, status.st_mtime_ns),)]

    def test_signals_are_reported(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            for number in (9, 15, 6):
                event = driver.run_members(driver.member(("/bin/sh", "-c", f"ulimit -c 0; kill -{number} $$")))[0]
                assert event.cause is not None
                # A shell in between turns the signal into an exit code.
                assert event.signal == number or event.exit == 128 + number, event

    def test_the_log_has_all_output_in_order(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            member = driver.member("echo first; echo second >&2; echo third; printf fourth", name="a/b 'c' \"d\"\n世")
            driver.run_members(member)
            text = driver.read_log(member)
            places = [text.find(word) for word in ("first\n", "second\n", "third\n", "fourth")]
            assert -1 < places[0] < places[1] < places[2] < places[3], text

    def test_each_attempt_has_its_own_log(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            first = driver.member("echo one; exit 1")
            driver.run_members(first)
            second = driver.member("echo two", previous=first)
            driver.run_members(second)
            assert "one" in driver.read_log(first)
            assert "one" not in driver.read_log(second)
            assert "two" in driver.read_log(second)

    def test_arguments_reach_the_program_unchanged(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            path = run.root / "record"
            driver.run_members(driver.recording_member(path, *HOSTILE_VALUES))
            assert tuple(read_record(path).argv) == HOSTILE_VALUES

    def test_variables_reach_the_program_unchanged(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        # Names that a wrapper may use itself, and values that it must not interpret.
        variables = {f"HOSTILE_{number}": value for number, value in enumerate(HOSTILE_VALUES)}
        variables |= dict.fromkeys(("command", "log", "status", "i", "line", "IFS", "CDPATH", "PS4"), "x y")
        with self.open_driver(make_executor, run) as driver:
            path = run.root / "record"
            driver.run_members(driver.recording_member(path, environment=variables))
            found = read_record(path).environment
            assert {name: found.get(name) for name in variables} == variables

    def test_a_job_starts_in_its_directory(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            for number, name in enumerate(("plain", ' it\'s "a" $HOME ', "new\nline", "世界", "-n")):
                folder = run.root / name
                folder.mkdir()
                path = run.root / f"record{number}"
                driver.run_members(driver.recording_member(path, folder=folder))
                assert Path(read_record(path).cwd).samefile(folder)

    def test_each_attempt_has_an_empty_temporary_directory(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            first = driver.recording_member(run.root / "record1")
            second = driver.recording_member(
                run.root / "record2", previous=first, environment={"TMPDIR": "/nonexistent"}
            )
            driver.run_members(first)
            driver.run_members(second)
            records = [read_record(run.root / name) for name in ("record1", "record2")]
            assert [record.tmp_files for record in records] == [(), ()]
            assert records[0].tmp != records[1].tmp
            driver.poll_until(lambda: not any(Path(record.tmp).exists() for record in records), "the removal of TMPDIR")

    def test_a_command_line_runs_in_a_shell(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            line = "printf '%s' \"$GREETING,  $(echo you)\" | tr a-z A-Z > out; exit 7 # not more"
            event = driver.run_members(driver.member(line, environment={"GREETING": "it's"}))[0]
            assert event.exit == 7
            assert (run.root / "out").read_text("utf-8") == "IT'S,  YOU"

    def test_standard_input_is_empty(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert driver.run_members(driver.member(("cat",)))[0].exit == 0

    def test_a_command_that_cannot_start_fails_with_a_reason(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        (run.root / "readable").write_text("#!/bin/sh\n", "utf-8")
        (run.root / "lost").write_text("#!/no/such/interpreter\n", "utf-8")
        (run.root / "lost").chmod(0o755)
        with self.open_driver(make_executor, run) as driver:
            members = [
                driver.member(("no-such-program-anywhere", "x")),
                driver.member((str(run.root / "no-such-file"),)),
                driver.member((str(run.root / "readable"),)),
                driver.member((str(run.root / "lost"),)),
                driver.member((str(run.root),)),
                driver.member(("true",), folder=run.root / "no-such-folder"),
            ]
            driver.submit(*members)
            for member in members:
                event = driver.wait_for_end(member)
                assert event.cause is not None, member
                assert event.exit != 0, member
                assert event.reason or driver.read_log(member).strip(), (
                    f"there is no reason why {member.command} did not start"
                )

    def test_batches_are_found_by_tag(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            members = [driver.member("sleep 0.3"), driver.member(("true",))]
            tags = driver.submit(*members)
            # At once, as after a submission whose answer was lost.
            found = driver.find(*tags, "c0-no-such-tag")
            assert set(found) == set(tags)
            all_attempts = frozenset((member.job, member.attempt) for member in members)
            assert frozenset().union(*found.values()) == all_attempts
            assert driver.find("c0-no-such-tag") == {}
            for member in members:
                driver.wait_for_end(member)
        with self.open_driver(make_executor, run, 2) as driver:
            assert frozenset().union(*driver.find(*tags).values()) == all_attempts

    def test_a_new_life_reports_ends_of_earlier_jobs(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            line = "echo begun >> {0}; sleep {1}; echo done >> {0}; exit {2}"
            members = [driver.member(line.format(f"note{code}", code * 0.3, code)) for code in (1, 2, 4)]
            driver.submit(*members)
            notes = [run.root / f"note{code}" for code in (1, 2, 4)]
            driver.poll_until(lambda: all(note.exists() for note in notes), "the start of all jobs")
        time.sleep(0.5)
        with self.open_driver(make_executor, run, 2) as driver:
            assert [driver.wait_for_end(member).exit for member in members] == [1, 2, 4]
            assert all(len(ends) == 1 for ends in driver.ends.values())
            assert [note.read_text("utf-8") for note in notes] == ["begun\ndone\n"] * 3

    def test_attempts_of_an_earlier_workflow_are_forgotten(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            member = driver.member("exit 3")
            driver.run_members(member)
        begin_changed_workflow(run, life=1)
        with self.open_driver(make_executor, run, 2) as driver:
            assert driver.run_members(driver.member("true"))[0].exit == 0
            assert (member.job, member.attempt) not in driver.ends, "its number means another job now"

    def test_a_cancelled_job_receives_term_first(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            note = run.root / "note"
            line = "trap 'echo bye >> note; exit 3' TERM; echo ready > note; while :; do sleep 0.05; done"
            member = driver.member(line)
            other = driver.member("sleep 0.7")
            driver.submit(member, other)
            driver.poll_until(note.exists, "the start of the job")
            outcome = driver.executor.cancel([(member.job, member.attempt)], grace_s=self.timeout_s)
            assert outcome.ended == 1, f"it is not confirmed: {outcome.alive}"
            driver.wait_for_end(member)
            # Both the workload manager and the wrapper may send TERM.
            words = note.read_text("utf-8").split()
            answers = {"bye"} if self.sends_term else set()
            assert (words[0], {*words[1:]}) == ("ready", answers), f"the job did not receive TERM: {words}"
            assert driver.wait_for_end(other).exit == 0, "another job was cancelled too"

    def test_cancel_ends_all_processes_of_a_job(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            notes = [run.root / name for name in ("obedient", "deaf")]
            members = [
                driver.member(heartbeat_line(notes[0])),
                driver.member(heartbeat_line(notes[1], first="trap '' TERM HUP INT;")),
            ]
            driver.submit(*members)
            driver.poll_until(lambda: all(note.exists() for note in notes), "the start of all jobs")
            attempts = [(member.job, member.attempt) for member in members]
            assert driver.executor.cancel(attempts, grace_s=self.grace_s).ended == len(members)
            # A second call is no error, nor an unknown attempt.
            driver.executor.cancel([*attempts, (77, 7)], grace_s=self.grace_s)
            assert all(driver.wait_for_end(member).cause is not None for member in members)
            assert_no_heartbeat(notes)
            assert driver.executor.cancel([*attempts, (77, 7)], grace_s=self.grace_s).ended == 0

    def test_background_processes_end_with_their_job(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            note = run.root / "note"
            line = f"( {heartbeat_line(note)} ) & while ! test -e {quote(str(note))}; do sleep 0.02; done"
            assert driver.run_members(driver.member(line))[0].exit == 0
            assert_no_heartbeat([note])

    def test_a_new_life_can_cancel_earlier_jobs(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        note = run.root / "note"
        with self.open_driver(make_executor, run) as driver:
            member = driver.member(heartbeat_line(note, first="trap '' TERM;"))
            driver.submit(member)
            driver.poll_until(note.exists, "the start of the job")
        with self.open_driver(make_executor, run, 2) as driver:
            driver.poll()
            assert driver.executor.cancel([(member.job, member.attempt)], grace_s=self.grace_s).ended == 1
            assert driver.wait_for_end(member).cause is not None
            assert_no_heartbeat([note])

    def test_each_of_many_small_jobs_has_one_end(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            members = [driver.member(("/bin/sh", "-c", f"exit {number % 3}")) for number in range(self.small_jobs)]
            events = driver.run_members(*members)
            assert [event.exit for event in events] == [number % 3 for number in range(self.small_jobs)]
            assert {len(ends) for ends in driver.ends.values()} == {1}
            assert len(driver.ends) == self.small_jobs

    def test_reported_usage_is_plausible(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            event = driver.run_members(driver.member((sys.executable, "-c", _CPU_AND_MEMORY)))[0]
            assert event.exit == 0
            if event.rss_b is not None:
                assert 64 * MIB <= event.rss_b <= 512 * MIB
            if event.cpu_s is not None:
                assert 0.25 <= event.cpu_s <= 5.0
            if event.run_s is not None:
                assert 0.25 <= event.run_s <= self.timeout_s
            if event.start is not None and event.end is not None:
                assert 0.0 <= event.end - event.start <= self.timeout_s


# Conformance of the capabilities of executors, a class for each; see `longshore.contract.executor`.


# ruff: noqa: D102 - the name of a test says what it checks


class ResourceProbeConformance(ExecutorTestCase):
    """Executors that know what resources there are."""

    capability: ClassVar[type] = ResourceProbe
    probe_timeout_s: ClassVar[float] = 10.0

    def test_a_probe_answers_soon(self, make_executor: MakeExecutor) -> None:
        executor = make_executor()
        assert isinstance(executor, ResourceProbe)
        begin = time.monotonic()
        report = executor.probe()
        assert time.monotonic() < begin + self.probe_timeout_s
        assert report.ok, report.message
        assert report.service
        assert "\n" not in report.message.strip()
        assert all(amount >= 0 for amount in (report.capacity or {}).values())


class NewsWaitConformance(ExecutorTestCase):
    """Executors that notice news by themselves."""

    capability: ClassVar[type] = NewsWait

    def test_news_ends_the_wait(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, NewsWait)
            member = driver.member("sleep 0.3")
            driver.submit(member)
            begin = time.monotonic()
            while (member.job, member.attempt) not in driver.ends:
                driver.executor.wait(self.timeout_s)
                driver.poll()
                assert time.monotonic() < begin + self.timeout_s, "the end of a job did not end the wait"

    def test_a_wait_without_news_ends_in_time(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, NewsWait)
            member = driver.member("sleep 600")
            driver.submit(member)
            driver.poll()
            begin = time.monotonic()
            for _ in range(5):
                driver.executor.wait(0.05)
            assert time.monotonic() < begin + self.timeout_s, "the wait did not end in time"
            driver.executor.cancel([(member.job, member.attempt)], grace_s=0.0)
            attempt = (member.job, member.attempt)
            # An executor with a queue of its own may not have started it yet.
            driver.poll_until(lambda: attempt in driver.ends or attempt in driver.never_started, "its end")


class SubmitWindowConformance(ExecutorTestCase):
    """Executors that take only so many batches at a time."""

    capability: ClassVar[type] = SubmitWindow

    def test_the_window_opens_again(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            executor = driver.executor
            assert isinstance(executor, SubmitWindow)

            def has_room() -> bool:
                free = executor.free_submissions()
                return free is None or free > 0

            assert has_room(), "a new executor takes no batch"
            driver.run_members(*[driver.member("true") for _ in range(3)])
            driver.poll_until(has_room, "room for another batch")


class BatchSizingConformance(ExecutorTestCase):
    """Executors that take batches of some jobs only up to a smaller size."""

    capability: ClassVar[type] = BatchSizing

    def test_the_size_is_within_the_limit(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, BatchSizing)
            assert 1 <= driver.executor.max_batch_for({}) <= driver.executor.limits.max_batch


class JobPackingConformance(ExecutorTestCase):
    """Executors that run some jobs in allocations of their own."""

    capability: ClassVar[type] = JobPacking

    def test_a_job_that_asks_for_nothing_is_not_packed(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, JobPacking)
            assert not driver.executor.packs({}, {}, Request())
            assert driver.executor.packed_limits.max_batch >= 1


class ReprioritisableConformance(ExecutorTestCase):
    """Executors that can change the order in which waiting batches start."""

    capability: ClassVar[type] = Reprioritisable

    def test_urgencies_do_no_harm(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, Reprioritisable)
            member = driver.member("true")
            urgency = Urgency(pressure_s=100.0, end_at=time.time() + 100.0)
            driver.executor.reprioritise(dict.fromkeys([*driver.submit(member), "c0-no-such-tag"], urgency))
            assert driver.wait_for_end(member).exit == 0


class LateFactSourceConformance(ExecutorTestCase):
    """Executors that know facts of attempts only after their ends."""

    capability: ClassVar[type] = LateFactSource

    def test_facts_are_of_attempts_that_ended(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            executor = driver.executor
            assert isinstance(executor, LateFactSource)
            members = [driver.member("true") for _ in range(2)]
            assert not executor.take_facts()
            assert not executor.awaited_facts()
            driver.run_members(*members)
            ended = {(member.job, member.attempt) for member in members}
            found = _take_all_facts(executor, self.timeout_s)
            assert ended.issuperset(found)
            assert len(found) == len(set(found)), "facts were returned twice"


def _take_all_facts(executor: LateFactSource, timeout_s: float) -> list[tuple[int, int]]:
    """Take facts until none are awaited; return the attempts that they are of."""
    deadline = time.monotonic() + timeout_s
    found: list[tuple[int, int]] = []
    while executor.awaited_facts() and time.monotonic() < deadline:
        found += [(facts.j, facts.a) for facts in executor.take_facts()]
        time.sleep(0.1)
    return found


class EndRetentionConformance(ExecutorTestCase):
    """Executors that keep the ends of attempts until the engine has recorded them."""

    capability: ClassVar[type] = EndRetention

    def test_ends_are_reported_again_until_they_are_discarded(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            member = driver.member("exit 3")
            driver.run_members(member)
        attempt = (member.job, member.attempt)
        with self.open_driver(make_executor, run, 2) as driver:
            assert isinstance(driver.executor, EndRetention)
            assert driver.wait_for_end(member).exit == 3
            if isinstance(driver.executor, LateFactSource):
                _take_all_facts(driver.executor, self.timeout_s)
            driver.executor.discard_ends([attempt])
        with self.open_driver(make_executor, run, 3) as driver:
            other = driver.member("true")
            driver.run_members(other)
            assert attempt not in driver.ends, "an end that was discarded is reported again"


class ProcessCleanupConformance(ExecutorTestCase):
    """Executors that can end processes that jobs of a cancelled run left behind."""

    capability: ClassVar[type] = ProcessCleanup

    def test_nothing_is_left_after_the_cleanup(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.open_driver(make_executor, run) as driver:
            assert isinstance(driver.executor, ProcessCleanup)
            note = run.root / "note"
            member = driver.member(f"setsid sh -c {quote(heartbeat_line(note))} & sleep 600")
            driver.submit(member)
            driver.poll_until(note.exists, "the start of the job")
            driver.executor.cancel([(member.job, member.attempt)], grace_s=self.grace_s)
            driver.wait_for_end(member)
            assert driver.executor.end_leftovers().alive == ()
            assert_no_heartbeat([note])
            assert driver.executor.end_leftovers().ended == 0


class UnitHolderConformance(ExecutorTestCase):
    """Executors whose attempts hold units of a machine and of limits."""

    capability: ClassVar[type] = UnitHolder

    def test_units_are_held_while_an_attempt_runs(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        path = run.root / "units"
        seen = UnitFile(files.open(path, os.O_RDWR | os.O_CREAT, 0o600), files)
        try:
            with self.open_driver(make_executor, run) as driver:
                assert isinstance(driver.executor, UnitHolder)
                driver.executor.hold_units(path)
                first = structs.replace(driver.member("sleep 1"), units=((0, 2, 3),))
                second = structs.replace(driver.member("true"), units=((0, 2, 3),))
                driver.submit(first)
                driver.poll_until(lambda: (first.job, first.attempt) in driver.starts, "the start of the first")
                assert seen.count_locked(0, 3) == 2
                driver.submit(second)
                driver.poll_until(lambda: (second.job, second.attempt) in driver.never_started, "the second is refused")
                driver.wait_for_end(first)
                assert seen.count_locked(0, 3) == 0
        finally:
            files.close(seen.file)


class HostBoundConformance(ExecutorTestCase):
    """Executors that start processes which are visible only from their host."""

    capability: ClassVar[type] = HostBound

    def test_no_process_of_this_host_is_unseen(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        executor = make_executor()
        assert isinstance(executor, HostBound)
        assert executor.unseen_processes(run) == ""
        with self.open_driver(make_executor, run) as driver:
            member = driver.member("sleep 0.5")
            driver.submit(member)
            assert executor.unseen_processes(run) == ""
            driver.wait_for_end(member)
