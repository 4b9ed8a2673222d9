"""Conformance of every executor: jobs, their ends, logs and surroundings, batches found by tag, and cancellation."""

# ruff: noqa: D102 - the name of a test says what it checks

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import ClassVar, TypeAlias

import msgspec

from longshore.contract.context import RunPaths
from longshore.contract.executor import Executor
from longshore.engine.run.executor_capabilities import wait_for_news
from longshore.model.run.event import FileStamp, OutputState
from longshore.model.run.states import Cause
from longshore.model.workflow.request import MIB
from longshore.testing.conformance.capability import assert_capabilities_are_covered
from longshore.testing.conformance.executor_driver import (
    HOSTILE_VALUES,
    ExecutorDriver,
    assert_no_heartbeat,
    heartbeat_line,
    read_record,
)
from longshore.testing.runs import begin_changed_workflow

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
