"""Holds executors and services to their contracts, with real jobs; for the tests of whoever writes one.

Subclass the class for your kind under a name that pytest collects, and give it the fixtures that its docstring names::

    class TestMyExecutor(ExecutorConformance):
        patience_s = 120.0  # a scheduler takes its time

        @pytest.fixture
        def make_executor(self):
            return lambda: MyExecutor({"partition": "debug"})

        @pytest.fixture
        def run(self, tmp_path):
            return RunPaths(tmp_path)  # where jobs see it too

Attributes of the classes say what may be expected of a manager. pytest is not imported here, so tests loop where they
might be parametrized. It is one file because an author reads it from one end to the other.
"""

# ruff: noqa: D102 - as for all tests, the name says what is held

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Any, ClassVar, TypeAlias

import msgspec

from longshore import __version__
from longshore.contract.batch import Accepted, Batch, BatchMember, FindResult, Limits, PollResult, Rejected, Throttled
from longshore.contract.capabilities import (
    BriefEvents,
    LogDirectories,
)
from longshore.contract.context import Context, Mark, Problem, RunPaths, Site, Unreachable
from longshore.contract.executor import Executor, ResourceProbe
from longshore.contract.intervention import JobSelection, RestartChanges
from longshore.contract.service import StaleMarkError
from longshore.engine.run.executor_capabilities import wait_for_news
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.replay import replay
from longshore.engine.state.job_codes import JOB_STATES
from longshore.engine.state.run_state import RunState
from longshore.errors import LongshoreError, SubmissionRefusedError
from longshore.model.lines.codec import workflow_lines
from longshore.model.run.event import BriefEvent, Ended, Event, Finished, Lost, Started
from longshore.model.run.state import JobState
from longshore.model.run.submission import RunIdentity
from longshore.model.tasks.dag import Dag
from longshore.model.tasks.task import Command
from longshore.model.workflow.job import Job, JobSettings
from longshore.model.workflow.request import MIB, Request
from longshore.model.workflow.workflow import Workflow
from longshore.world.files.atomic import create_file
from longshore.world.plugins import template_texts
from longshore.world.runs.run_directory import RUN_FORMAT, create_run_directory, write_card, write_rendered
from longshore.world.shipped_files import shipped_path

Attempt: TypeAlias = tuple[int, int]
MakeExecutor: TypeAlias = Callable[[], Executor]

HOSTILE = (
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
"""Values that must reach a job exactly as they are."""

_TELL = """
import json, os, sys
def text(words): return [os.fsencode(word).decode("utf-8", "surrogateescape") for word in words]
tmp = os.environ["TMPDIR"]
said = {
    "argv": text(sys.argv[2:]),
    "environment": dict(zip(text(os.environ), text(os.environ.values()))),
    "cwd": text([os.getcwd()])[0],
    "tmp": tmp,
    "found": os.listdir(tmp),
}
os.makedirs(tmp + "/deep/er")
open(tmp + "/deep/er/file", "w").close()
with open(sys.argv[1] + ".part", "w") as file:
    json.dump(said, file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
"""
"""Writes down what it was given, and leaves something in its temporary directory."""

_WORK = f"""
import time
block = bytearray(b"x" * ({64 * MIB}))
while time.process_time() < 0.3: pass
"""


def _beating(path: Path, *, first: str = "") -> str:
    """A line for the shell that lets a child of a child write to a file again and again, for ever."""
    beat = f"{first} while :; do echo x >> {quote(str(path))}; sleep 0.05; done"
    return f"{first} ( ( {beat} ) & wait ) & wait; while :; do sleep 0.05; done"


class Life:
    """One life of an engine, as far as an executor can tell.

    Parameters
    ----------
    executor
        The executor, not yet opened.
    run
        The run directory.
    number
        Number of the life.
    patience_s
        Seconds in which everything has to come about.
    ctx
        What `Executor.script` is given.
    """

    def __init__(self, executor: Executor, run: RunPaths, number: int, *, patience_s: float, ctx: Context) -> None:
        self.executor = executor
        self.run = run
        self.patience_s = patience_s
        self.starts: dict[Attempt, int] = {}
        """How often the start of each attempt was told."""
        self.ends: dict[Attempt, list[Ended | Lost]] = {}
        self.never: list[Attempt] = []
        self._ctx = ctx
        self._number = number
        self._jobs = count(10_000 * number)
        self._batches = count(1)
        self._mark: Mark = ""
        self._polled_at = self._submitted_at = -1e9
        self._waiting: set[Attempt] = set()
        executor.open(run, number)

    def job(
        self,
        command: Command,
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        name: str = "job",
        again: BatchMember | None = None,
    ) -> BatchMember:
        """An attempt of a new job, or the next one of a job."""
        number, attempt = (again.job, again.attempt + 1) if again else (next(self._jobs), 1)
        return BatchMember(
            job=number,
            attempt=attempt,
            name=name,
            command=command,
            environment=dict(environment or {}),
            working_directory=str(folder or self.run.root),
            log=str(self.run.log_of(number, f"{name}{number}", "conformance", attempt)),
        )

    def telling(self, path: Path, *words: str, **kwargs: Any) -> BatchMember:
        """A job that writes to a file what it was given."""
        return self.job((sys.executable, "-c", _TELL, str(path), *words), **kwargs)

    def hand_over(self, *members: BatchMember) -> list[str]:
        """Hand attempts over in batches of the size that the executor takes, and return their tags."""
        limits = self.executor.limits
        tags = []
        for first in range(0, len(members), limits.max_batch):
            number = next(self._batches)
            # Unique among all runs there ever were, as the contract promises.
            tag = f"c{time.time_ns():x}-{self._number}-{number}"
            these = members[first : first + limits.max_batch]
            self._make_room(limits, len(these))
            self._submit(Batch(id=str(number), tag=tag, request=Request(), members=these), limits)
            self._waiting |= {(member.job, member.attempt) for member in these}
            tags.append(tag)
        return tags

    def poll(self) -> None:
        """Take in what is new."""
        self._pause_until(self._polled_at + self.executor.limits.poll_floor_s)
        answer = self.executor.poll(self._mark)
        self._polled_at = time.monotonic()
        if isinstance(answer, Unreachable):
            return
        assert isinstance(answer, PollResult)
        self._mark = answer.mark
        self.never += answer.never_started
        for event in answer.events:
            attempt = (event.j, event.a)
            self._waiting.discard(attempt)
            if isinstance(event, Started):
                self.starts[attempt] = self.starts.get(attempt, 0) + 1
                assert attempt not in self.ends, f"the start of {attempt} is told after its end"
            else:
                self.ends.setdefault(attempt, []).append(event)

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Poll until something has come about."""
        deadline = time.monotonic() + self.patience_s
        self.poll()
        while not done():
            assert time.monotonic() < deadline, f"in {self.patience_s} seconds {what} did not come about"
            wait_for_news(self.executor, 0.25)
            self.poll()

    def end_of(self, member: BatchMember) -> Ended:
        """Wait until an attempt ended, and return how."""
        attempt = (member.job, member.attempt)
        self.until(lambda: attempt in self.ends or attempt in self.never, f"the end of '{member.command}'")
        assert attempt not in self.never, f"'{member.command}' was never started"
        event = self.ends[attempt][0]
        assert isinstance(event, Ended), f"'{member.command}' is lost: {event}"
        return event

    def run_through(self, *members: BatchMember) -> list[Ended]:
        """Hand attempts over, and return how each ended."""
        self.hand_over(*members)
        return [self.end_of(member) for member in members]

    def text_of(self, member: BatchMember) -> str:
        """The log of an attempt."""
        return (self.run.root / member.log).read_text("utf-8")

    def find(self, *tags: str) -> Mapping[str, frozenset[Attempt]]:
        """Look tags up until there is an answer."""
        deadline = time.monotonic() + self.patience_s
        while isinstance(found := self.executor.find(tags), Unreachable):
            assert time.monotonic() < deadline, f"nothing was found out about tags: {found.why}"
            wait_for_news(self.executor, 0.25)
        assert isinstance(found, FindResult)
        return found.taken

    def _make_room(self, limits: Limits, more: int) -> None:
        most = limits.max_waiting
        if most is not None:
            self.until(lambda: len(self._waiting) + more <= max(most, more), "room for another batch")

    def _submit(self, batch: Batch, limits: Limits) -> None:
        if script := self.executor.script(batch, self._ctx):
            write_rendered(self.run, [script])
        deadline = time.monotonic() + self.patience_s
        while time.monotonic() < deadline:
            self._pause_until(self._submitted_at + (1 / limits.submit_per_s if limits.submit_per_s else 0.0))
            answer = self.executor.submit(batch)
            self._submitted_at = time.monotonic()
            assert not isinstance(answer, Rejected), f"a batch is refused: {answer.why}"
            if isinstance(answer, Accepted):
                return
            if isinstance(answer, Throttled):
                self._pause_until(time.monotonic() + answer.retry_after_s)
            elif batch.tag in self.find(batch.tag):
                return
        raise AssertionError(f"in {self.patience_s} seconds no batch was taken")

    def _pause_until(self, moment: float) -> None:
        time.sleep(max(0.0, moment - time.monotonic()))


class ExecutorConformance:
    """What every executor has to do.

    Fixtures of the subclass: ``make_executor``, a callable that returns a new executor, not yet opened; and ``run``,
    the `RunPaths` of an empty directory that jobs can write to.
    """

    patience_s: ClassVar[float] = 30.0
    """Seconds in which a job is started, or a message comes through."""
    grace_s: ClassVar[float] = 1.0
    """Seconds between asking a job to end and killing it."""
    probe_s: ClassVar[float] = 10.0
    many: ClassVar[int] = 200
    """Number of small jobs that are handed over at once."""
    tells_starts: ClassVar[bool] = True
    """Whether the start of a job is told even if it is over by then."""
    wakes: ClassVar[bool] = True
    """Whether `wait` returns when there is news, and not only when its time is over."""

    def context(self, run: RunPaths) -> Context:
        """What `Executor.script` is given; override it where templates or settings are needed."""
        return Context(settings={}, site=Site(name="conformance"), paths=run, templates={})

    @contextmanager
    def life(self, make_executor: MakeExecutor, run: RunPaths, number: int = 1) -> Iterator[Life]:
        """Open an executor, and end all it started when the test is over."""
        life = Life(make_executor(), run, number, patience_s=self.patience_s, ctx=self.context(run))
        try:
            yield life
        finally:
            life.executor.close()

    def test_a_job_starts_and_ends_once(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            member = life.job(("/bin/sh", "-c", "exit 0"))
            event = life.run_through(member)[0]
            assert (event.exit, event.signal, event.cause) == (0, None, None)
            for _ in range(3):
                wait_for_news(life.executor, 0.05)
                life.poll()
            attempt = (member.job, member.attempt)
            assert len(life.ends[attempt]) == 1, "an end is told more than once"
            told = life.starts.get(attempt, 0)
            assert told == 1 if self.tells_starts else told <= 1, f"its start is told {told} times"

    def test_an_empty_run_has_no_news(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            life.poll()
            wait_for_news(life.executor, 0.0)
            life.poll()
            assert [life.starts, life.ends, life.never] == [{}, {}, []]

    def test_exit_codes_are_told(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        codes = (0, 1, 3, 126, 127, 200, 255)
        with self.life(make_executor, run) as life:
            events = life.run_through(*[life.job(("/bin/sh", "-c", f"exit {code}")) for code in codes])
            assert tuple(event.exit for event in events) == codes
            assert [event.cause is None for event in events] == [code == 0 for code in codes]

    def test_signals_are_told(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            for number in (9, 15, 6):
                event = life.run_through(life.job(("/bin/sh", "-c", f"ulimit -c 0; kill -{number} $$")))[0]
                assert event.cause is not None
                # What passes through a shell on its way has no signal any more.
                assert event.signal == number or event.exit == 128 + number, event

    def test_all_output_is_in_the_log_in_order(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            member = life.job("echo first; echo second >&2; echo third; printf fourth", name="a/b 'c' \"d\"\n世")
            life.run_through(member)
            text = life.text_of(member)
            places = [text.find(word) for word in ("first\n", "second\n", "third\n", "fourth")]
            assert -1 < places[0] < places[1] < places[2] < places[3], text

    def test_every_attempt_has_a_log_of_its_own(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            first = life.job("echo one; exit 1")
            life.run_through(first)
            second = life.job("echo two", again=first)
            life.run_through(second)
            assert "one" in life.text_of(first)
            assert "one" not in life.text_of(second)
            assert "two" in life.text_of(second)

    def test_words_reach_the_program_exactly(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            path = run.root / "said"
            life.run_through(life.telling(path, *HOSTILE))
            assert tuple(_said(path)["argv"]) == HOSTILE

    def test_variables_reach_the_program_exactly(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        # Names that a careless wrapper uses for itself, and values that it must not read.
        given = {f"HOSTILE_{number}": value for number, value in enumerate(HOSTILE)}
        given |= dict.fromkeys(("command", "log", "status", "i", "line", "IFS", "CDPATH", "PS4"), "x y")
        with self.life(make_executor, run) as life:
            path = run.root / "said"
            life.run_through(life.telling(path, environment=given))
            found = _said(path)["environment"]
            assert {name: found.get(name) for name in given} == given

    def test_a_job_starts_in_its_directory(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            for number, name in enumerate(("plain", ' it\'s "a" $HOME ', "new\nline", "世界", "-n")):
                folder = run.root / name
                folder.mkdir()
                path = run.root / f"said{number}"
                life.run_through(life.telling(path, folder=folder))
                assert Path(_said(path)["cwd"]).samefile(folder)

    def test_every_attempt_has_an_empty_temporary_directory(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            first = life.telling(run.root / "said1")
            second = life.telling(run.root / "said2", again=first, environment={"TMPDIR": "/nonexistent"})
            life.run_through(first)
            life.run_through(second)
            said = [_said(run.root / name) for name in ("said1", "said2")]
            assert [each["found"] for each in said] == [[], []]
            assert said[0]["tmp"] != said[1]["tmp"]
            life.until(lambda: not any(Path(each["tmp"]).exists() for each in said), "the removal of TMPDIR")

    def test_lines_are_for_a_shell(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            line = "printf '%s' \"$GREETING,  $(echo you)\" | tr a-z A-Z > out; exit 7 # not more"
            event = life.run_through(life.job(line, environment={"GREETING": "it's"}))[0]
            assert event.exit == 7
            assert (run.root / "out").read_text("utf-8") == "IT'S,  YOU"

    def test_no_job_waits_for_input(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            assert life.run_through(life.job(("cat",)))[0].exit == 0

    def test_what_cannot_be_started_ends_badly_and_says_why(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        (run.root / "readable").write_text("#!/bin/sh\n", "utf-8")
        (run.root / "lost").write_text("#!/no/such/interpreter\n", "utf-8")
        (run.root / "lost").chmod(0o755)
        with self.life(make_executor, run) as life:
            members = [
                life.job(("no-such-program-anywhere", "x")),
                life.job((str(run.root / "no-such-file"),)),
                life.job((str(run.root / "readable"),)),
                life.job((str(run.root / "lost"),)),
                life.job((str(run.root),)),
                life.job(("true",), folder=run.root / "no-such-folder"),
            ]
            life.hand_over(*members)
            for member in members:
                event = life.end_of(member)
                assert event.cause is not None, member
                assert event.exit != 0, member
                assert event.reason or life.text_of(member).strip(), f"nobody says why {member.command} did not start"

    def test_tags_are_found(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            members = [life.job("sleep 0.3"), life.job(("true",))]
            tags = life.hand_over(*members)
            # At once, when the answer to the submission may just have been lost.
            found = life.find(*tags, "c0-no-such-tag")
            assert set(found) == set(tags)
            everybody = frozenset((member.job, member.attempt) for member in members)
            assert frozenset().union(*found.values()) == everybody
            assert life.find("c0-no-such-tag") == {}
            for member in members:
                life.end_of(member)
        with self.life(make_executor, run, 2) as life:
            assert frozenset().union(*life.find(*tags).values()) == everybody

    def test_a_new_life_learns_how_jobs_ended(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            line = "echo begun >> {0}; sleep {1}; echo done >> {0}; exit {2}"
            members = [life.job(line.format(f"note{code}", code * 0.3, code)) for code in (1, 2, 4)]
            life.hand_over(*members)
            notes = [run.root / f"note{code}" for code in (1, 2, 4)]
            life.until(lambda: all(note.exists() for note in notes), "the start of all jobs")
        time.sleep(0.5)
        with self.life(make_executor, run, 2) as life:
            assert [life.end_of(member).exit for member in members] == [1, 2, 4]
            assert all(len(ends) == 1 for ends in life.ends.values())
            assert [note.read_text("utf-8") for note in notes] == ["begun\ndone\n"] * 3

    def test_a_cancelled_job_is_asked_first(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            note = run.root / "note"
            line = "trap 'echo bye >> note; exit 3' TERM; echo ready > note; while :; do sleep 0.05; done"
            member = life.job(line)
            other = life.job("sleep 0.7")
            life.hand_over(member, other)
            life.until(note.exists, "the start of the job")
            outcome = life.executor.cancel([(member.job, member.attempt)], grace_s=self.patience_s)
            assert outcome.ended == 1
            life.end_of(member)
            # More than once, where both the manager and the wrapper that it told too tell the job.
            said = note.read_text("utf-8").split()
            assert (said[0], {*said[1:]}) == ("ready", {"bye"}), f"the job was not asked to end: {said}"
            assert life.end_of(other).exit == 0, "another job was cancelled too"

    def test_no_process_of_a_cancelled_job_is_left(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            notes = [run.root / name for name in ("obedient", "deaf")]
            members = [life.job(_beating(notes[0])), life.job(_beating(notes[1], first="trap '' TERM HUP INT;"))]
            life.hand_over(*members)
            life.until(lambda: all(note.exists() for note in notes), "the start of all jobs")
            attempts = [(member.job, member.attempt) for member in members]
            assert life.executor.cancel(attempts, grace_s=self.grace_s).ended == len(members)
            # Twice, and what was never there, is no error.
            life.executor.cancel([*attempts, (77, 7)], grace_s=self.grace_s)
            assert all(life.end_of(member).cause is not None for member in members)
            _no_longer_growing(notes)
            assert life.executor.cancel([*attempts, (77, 7)], grace_s=self.grace_s).ended == 0

    def test_what_a_job_leaves_running_ends_with_it(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            note = run.root / "note"
            line = f"( {_beating(note)} ) & while ! test -e {quote(str(note))}; do sleep 0.02; done"
            assert life.run_through(life.job(line))[0].exit == 0
            _no_longer_growing([note])

    def test_a_new_life_can_cancel(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        note = run.root / "note"
        with self.life(make_executor, run) as life:
            member = life.job(_beating(note, first="trap '' TERM;"))
            life.hand_over(member)
            life.until(note.exists, "the start of the job")
        with self.life(make_executor, run, 2) as life:
            life.poll()
            assert life.executor.cancel([(member.job, member.attempt)], grace_s=self.grace_s).ended == 1
            assert life.end_of(member).cause is not None
            _no_longer_growing([note])

    def test_many_small_jobs_are_all_accounted_for(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            members = [life.job(("/bin/sh", "-c", f"exit {number % 3}")) for number in range(self.many)]
            events = life.run_through(*members)
            assert [event.exit for event in events] == [number % 3 for number in range(self.many)]
            assert {len(ends) for ends in life.ends.values()} == {1}
            assert len(life.ends) == self.many

    def test_what_a_job_used_is_plausible(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            event = life.run_through(life.job((sys.executable, "-c", _WORK)))[0]
            assert event.exit == 0
            if event.rss_b is not None:
                assert 64 * MIB <= event.rss_b <= 512 * MIB
            if event.cpu_s is not None:
                assert 0.25 <= event.cpu_s <= 5.0
            if event.run_s is not None:
                assert 0.25 <= event.run_s <= self.patience_s
            if event.start is not None and event.end is not None:
                assert 0.0 <= event.end - event.start <= self.patience_s

    def test_waiting_is_over_when_there_is_news(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            member = life.job("sleep 0.3")
            life.hand_over(member)
            began = time.monotonic()
            while (member.job, member.attempt) not in life.ends:
                wait_for_news(life.executor, self.patience_s if self.wakes else 0.5)
                life.poll()
                assert time.monotonic() < began + self.patience_s, "it slept through the end of a job"

    def test_waiting_is_over_when_its_time_is(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            member = life.job("sleep 600")
            life.hand_over(member)
            life.poll()
            began = time.monotonic()
            for _ in range(5):
                wait_for_news(life.executor, 0.05)
            assert time.monotonic() < began + self.patience_s, "it waited for news, and not for a time"
            life.executor.cancel([(member.job, member.attempt)], grace_s=0.0)
            life.end_of(member)

    def test_a_probe_answers_soon(self, make_executor: MakeExecutor) -> None:
        executor = make_executor()
        if not isinstance(executor, ResourceProbe):
            return
        began = time.monotonic()
        report = executor.probe()
        assert time.monotonic() < began + self.probe_s
        assert report.ok, report.message
        assert report.service
        assert "\n" not in report.message.strip()
        assert all(amount >= 0 for amount in (report.capacity or {}).values())

    def test_scripts_are_pure(self, make_executor: MakeExecutor, run: RunPaths) -> None:
        with self.life(make_executor, run) as life:
            members = tuple(life.job(word) for word in HOSTILE[: life.executor.limits.max_batch])
            batch = Batch(id="1", tag="c0-1-1", request=Request(cpus=2, memory_b=MIB), members=members)
            before = _names(run.root)
            scripts = [life.executor.script(batch, self.context(run)) for _ in range(2)]
            texts = [script and (script.path, script.mode, "".join(script.chunks())) for script in scripts]
            assert texts[0] == texts[1]
            assert not any(script and (script.path.is_absolute() or ".." in script.path.parts) for script in scripts)
            assert _names(run.root) == before


FullService: TypeAlias = Any


class ServiceConformance:
    """What every service has to do, with or without an engine of ours.

    Fixtures of the subclass: ``service``, the service; and ``scratch``, the path of a directory that jobs can write to.
    """

    service_name: ClassVar[str] = ""
    """How ``wmsServiceClass`` names it; empty for the path of its class."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """The service's own map of the configuration."""
    patience_s: ClassVar[float] = 60.0
    ping_s: ClassVar[float] = 10.0
    cancels_parts: ClassVar[bool] = True
    """Whether single jobs of a run can be cancelled; where they cannot, that is refused."""
    too_much: ClassVar[Request] = Request(cpus=1_000_000)
    """A request that no machine there can ever grant."""

    def context(self, service: FullService, root: Path) -> Context:
        """What the service is told of the world; override it where a site is needed."""
        ctx = Context(
            settings=self.settings,
            site=Site(name="conformance"),
            paths=RunPaths(root),
            templates=template_texts(type(service))
            | {"longshore-job": shipped_path("bin", "longshore-job").read_text("utf-8")},
        )
        return msgspec.structs.replace(ctx, probe=service.ping(ctx))

    def break_run(self, run: RunPaths) -> None:
        """Damage a prepared run so that it cannot be handed over."""
        shutil.rmtree(run.wms, ignore_errors=True)
        run.workflow.unlink()

    def prepare(self, service: FullService, workflow: Workflow, root: Path) -> RunPaths:
        """Write a run directory, as preparing a run does."""
        ctx = self.context(service, root)
        assert not [problem for problem in service.check(workflow, ctx) if problem.fatal]
        kind = type(service)
        card = RunIdentity(
            format=RUN_FORMAT,
            id="conf1",
            name=workflow.name,
            service=self.service_name or f"{kind.__module__}.{kind.__qualname__}",
            longshore=__version__,
            created_at=time.time(),
            expected=len(workflow),
            labels=workflow.counts(),
        )
        with create_run_directory(root) as draft:
            create_file(draft.workflow, workflow_lines(workflow), durable=True)
            draft.journal.mkdir()
            if isinstance(service, LogDirectories):
                for folder in service.log_directories(workflow):
                    (draft.root / folder).mkdir(parents=True, exist_ok=True)
            write_rendered(draft, service.render(workflow, msgspec.structs.replace(ctx, run_token=card.run_token)))
            write_card(draft, card)
        return RunPaths(root)

    def finished(self, service: FullService, run: RunPaths) -> RunState:
        """Wait until nothing of a run moves any more, and return its state."""
        deadline = time.monotonic() + self.patience_s
        while True:
            alive = service.is_alive(run)
            state = _folded(run, _events(service, run))
            if state.finished and alive is False:
                return state
            assert time.monotonic() < deadline, f"in {self.patience_s} seconds the run did not end: {state.totals()}"
            time.sleep(0.05)

    def test_it_has_a_name(self, service: FullService) -> None:
        assert service.name
        assert service.name == service.name.strip().lower()

    def test_a_ping_answers_soon(self, service: FullService, scratch: Path) -> None:
        began = time.monotonic()
        report = self.context(service, scratch / "run").probe
        assert time.monotonic() < began + self.ping_s
        assert report
        assert report.ok, report.message
        assert report.message
        assert report.service == service.name

    def test_check_is_pure_and_finds_what_can_never_be(self, service: FullService, scratch: Path) -> None:
        ctx = self.context(service, scratch / "run")
        before = _names(scratch)

        def fatal(workflow: Workflow) -> list[Problem]:
            found = [service.check(workflow, ctx) for _ in range(2)]
            assert found[0] == found[1], "the same question has two answers"
            return [problem for problem in found[0] if problem.fatal]

        assert not fatal(_workflow({"small_1": ("true",)}))
        settings = JobSettings(label="big", request=self.too_much)
        big = Workflow("big", Dag.by_name([Job(name="big_1", label="big", command=("true",), settings=settings)]))
        if ctx.probe and ctx.probe.capacity is not None:
            problems = fatal(big)
            assert problems, f"{self.too_much} is not refused"
            assert problems[0].job == "big_1"
            assert "big_1" in problems[0].message
        assert _names(scratch) == before

    def test_rendering_is_pure(self, service: FullService, scratch: Path) -> None:
        workflow = _workflow(
            {f"job_{number}": ("echo", value) for number, value in enumerate(HOSTILE)}, final=("true",)
        )
        ctx = self.context(service, scratch / "run")
        before = _names(scratch)
        first = list(service.render(workflow, ctx))
        texts = [(file.path, file.mode, "".join(file.chunks())) for file in first]
        # Long enough for a time of day in it to become another.
        time.sleep(1.1)
        again = list(service.render(workflow, ctx))
        assert [(file.path, file.mode, "".join(file.chunks())) for file in again] == texts
        assert ["".join(file.chunks()) for file in first] == [text for _, _, text in texts]
        assert _names(scratch) == before
        paths = [path for path, _, _ in texts]
        assert len(set(paths)) == len(paths)
        assert not [path for path in paths if path.is_absolute() or ".." in path.parts]

    def test_a_run_comes_to_its_end(self, service: FullService, scratch: Path) -> None:
        note = scratch / "note"
        commands = {f"job_{number}": f"echo {number} >> {quote(str(note))}" for number in range(4)}
        workflow = _workflow(commands, edges=[("job_0", "job_1"), ("job_0", "job_2"), ("job_1", "job_3")])
        run = self.prepare(service, workflow, scratch / "run")
        assert service.is_alive(run) is False
        submission = service.submit(run)
        assert submission.id
        assert submission.by == "submit"
        state = self.finished(service, run)
        assert state.finished
        assert state.finished.state is JobState.SUCCEEDED
        assert state.totals()[JobState.SUCCEEDED] == 4
        said = note.read_text("utf-8").split()
        assert sorted(said) == list("0123")
        assert said.index("0") < said.index("1") < said.index("3")
        assert service.resume(run) is None, "there is nothing to take up"
        with _refused("a run that succeeded"):
            service.restart(run, RestartChanges())
        assert service.cancel(run, JobSelection()).ended == 0

    def test_events_can_be_read_bit_by_bit(self, service: FullService, scratch: Path) -> None:
        run = self.prepare(service, _workflow({f"job_{number}": "sleep 0.1" for number in range(5)}), scratch / "run")
        service.submit(run)
        mark: Mark = ""
        pieces: list[Event] = []
        deadline = time.monotonic() + self.patience_s
        while not any(isinstance(event, Finished) for event in pieces):
            mark, pieces = _read_on(service, run, mark, pieces)
            assert time.monotonic() < deadline, f"in {self.patience_s} seconds the run did not end"
            time.sleep(0.02)
        self.finished(service, run)
        # What was seen of a run may be written down otherwise when it is over.
        for _ in range(2):
            mark, pieces = _read_on(service, run, mark, pieces)
        assert pieces == _events(service, run)
        ended = [event for event in pieces if isinstance(event, Ended)]
        assert sorted(event.j for event in ended) == list(range(5))
        # In short it comes to the same, whatever was kept before.
        shutil.rmtree(run.cache, ignore_errors=True)
        answer = service.brief_events(run) if isinstance(service, BriefEvents) else service.events(run)
        assert not isinstance(answer, Unreachable)
        assert _folded(run, answer[0]).totals() == _folded(run, pieces).totals()

    def test_what_failed_can_be_run_again(self, service: FullService, scratch: Path) -> None:
        note, cure = scratch / "note", scratch / "cure"
        commands = {
            "good_1": f"echo good >> {quote(str(note))}",
            "bad_1": f"echo bad >> {quote(str(note))}; test -e {quote(str(cure))}",
            "below_1": f"echo below >> {quote(str(note))}",
        }
        workflow = _workflow(commands, edges=[("bad_1", "below_1")], final=f"echo final >> {quote(str(note))}")
        run = self.prepare(service, workflow, scratch / "run")
        service.submit(run)
        state = self.finished(service, run)
        assert state.finished
        assert state.finished.state is JobState.FAILED
        assert _states(run, state) == {
            "good_1": JobState.SUCCEEDED,
            "bad_1": JobState.FAILED,
            "below_1": JobState.PRUNED,
            "final_1": JobState.SUCCEEDED,
        }
        assert sorted(note.read_text("utf-8").split()) == ["bad", "final", "good"]
        cure.touch()
        assert service.restart(run, RestartChanges()).id
        state = self.finished(service, run)
        assert state.finished
        assert state.finished.state is JobState.SUCCEEDED
        said = note.read_text("utf-8").split()
        assert (said.count("good"), said.count("bad"), said.count("below")) == (1, 2, 1), "a success ran again"

    def test_a_cancelled_run_leaves_nothing(self, service: FullService, scratch: Path) -> None:
        note = scratch / "note"
        commands = {
            "long_1": _beating(note, first="trap '' TERM;"),
            "next_1": f"echo no > {quote(str(scratch / 'no'))}",
        }
        run = self.prepare(service, _workflow(commands, edges=[("long_1", "next_1")]), scratch / "run")
        service.submit(run)
        _eventually(note.exists, self.patience_s, "the start of the job")
        for refused in (service.resume, lambda run: service.restart(run, RestartChanges())):
            with _refused("a run that is alive"):
                refused(run)
        service.cancel(run, JobSelection())
        service.cancel(run, JobSelection())
        state = self.finished(service, run)
        assert state.finished
        assert state.finished.state is JobState.DELETED
        assert not state.totals()[JobState.SUCCEEDED]
        _no_longer_growing([note])
        assert not (scratch / "no").exists()
        assert service.cancel(run, JobSelection()).ended == 0

    def test_a_part_can_be_cancelled(self, service: FullService, scratch: Path) -> None:
        note = scratch / "note"
        commands = {"long_1": _beating(note), "next_1": "true", "other_1": "sleep 0.5"}
        run = self.prepare(service, _workflow(commands, edges=[("long_1", "next_1")]), scratch / "run")
        service.submit(run)
        _eventually(note.exists, self.patience_s, "the start of the job")
        part = JobSelection(jobs=("long_1",))
        if not self.cancels_parts:
            with _refused("a part of the run"):
                service.cancel(run, part)
            service.cancel(run, JobSelection())
            self.finished(service, run)
            return
        service.cancel(run, part)
        states = _states(run, self.finished(service, run))
        assert states == {"long_1": JobState.DELETED, "next_1": JobState.PRUNED, "other_1": JobState.SUCCEEDED}
        _no_longer_growing([note])

    def test_what_cannot_be_handed_over_leaves_nothing_running(self, service: FullService, scratch: Path) -> None:
        note = scratch / "note"
        run = self.prepare(service, _workflow({"job_1": f"echo x > {quote(str(note))}"}), scratch / "run")
        self.break_run(run)
        with _refused("a damaged run", LongshoreError):
            service.submit(run)
        assert service.is_alive(run) is not True
        time.sleep(0.3)
        assert not note.exists()


def _read_on(service: FullService, run: RunPaths, mark: Mark, known: list[Event]) -> tuple[Mark, list[Event]]:
    """What is known of a run after one more question: what is new, or all where what was told holds no longer."""
    try:
        answer = service.events(run, mark)
    except StaleMarkError:
        return "", []
    if isinstance(answer, Unreachable):
        return mark, known
    events, mark = answer
    return mark, [*known, *events]


def _said(path: Path) -> Any:
    assert path.exists(), "the job did not get as far as to say what it was given"
    return json.loads(path.read_text("utf-8"))


def _names(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def _eventually(done: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"in {seconds} seconds {what} did not come about"
        time.sleep(0.02)


def _no_longer_growing(notes: list[Path]) -> None:
    """Hold that nobody writes to these files any more."""
    # What was being written when the end was told may still arrive.
    time.sleep(0.1)
    before = [note.stat().st_size for note in notes]
    time.sleep(0.4)
    assert [note.stat().st_size for note in notes] == before, "a process of a job is left"


def _workflow(
    commands: Mapping[str, Command], *, edges: list[tuple[str, str]] | None = None, final: Command | None = None
) -> Workflow:
    """A workflow of jobs whose labels are their names up to the first ``_``."""

    def job(name: str, command: Command) -> Job:
        label = name.partition("_")[0]
        return Job(name=name, label=label, command=command, settings=JobSettings(label=label))

    return Workflow(
        "conformance",
        Dag.by_name([job(name, command) for name, command in commands.items()], edges or []),
        final=job("final_1", final) if final else None,
    )


def _events(service: FullService, run: RunPaths) -> list[Event]:
    answer = service.events(run)
    return [] if isinstance(answer, Unreachable) else list(answer[0])


def _folded(run: RunPaths, events: Iterable[BriefEvent]) -> RunState:
    jobs = JobTable(run, "parents")
    state = replay(jobs, events)
    assert sum(state.totals().values()) == len(jobs)
    return state


def _states(run: RunPaths, state: RunState) -> dict[str, JobState]:
    return {name: JOB_STATES[code] for name, code in zip(JobTable(run, "names").names, state.code, strict=True)}


@contextmanager
def _refused(what: str, kind: type[LongshoreError] = SubmissionRefusedError) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what} is not refused")
