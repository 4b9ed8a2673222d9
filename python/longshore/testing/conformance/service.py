"""Conformance of services: checks, rendered files, runs and their events, and a class for each capability."""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import ClassVar

import msgspec

from longshore.config.plugins import shipped_path, template_texts
from longshore.contract.capabilities import (
    LOAD_NAMES,
    AllocationReader,
    Amendable,
    BackendOptions,
    BriefEvents,
    Cancellable,
    HoldRules,
    JobProbe,
    LauncherLine,
    LivenessProbe,
    LoadReporter,
    LogDirectories,
    LogLocating,
    NoticeHost,
    PartialJournal,
    Queryable,
    Recoverable,
    Restartable,
    Resumable,
    RunMirroring,
    SiteAccess,
    StatusLines,
    Steerable,
    log_directories,
)
from longshore.contract.service import (
    Context,
    Intervention,
    JobSelection,
    Mark,
    Problem,
    RestartChanges,
    RunPaths,
    RunSearch,
    Site,
    StaleMarkError,
    Unreachable,
    WmsService,
)
from longshore.errors import ConfigError, LongshoreError, SubmissionRefusedError
from longshore.model.event import AttemptSucceeded, BriefEvent, Ended, Event, Finished
from longshore.model.notice import NoticeEvent, NoticeRule
from longshore.model.states import JobState
from longshore.model.submission import Submission
from longshore.model.tasks import Command, Dag
from longshore.model.workflow import MIB, Job, JobSettings, Request, Workflow, total_request
from longshore.rundir.job_table import JobTable
from longshore.rundir.journal import read_events as read_journal
from longshore.rundir.notices import encode_notice_rules
from longshore.rundir.run_directory import read_card, write_card
from longshore.runstate.open_run import event_source, is_alive
from longshore.runstate.replay import replay
from longshore.runstate.run_state import JOB_STATES, RunState
from longshore.system.atomic import create_file
from longshore.testing.conformance.executor import (
    HOSTILE_VALUES,
    BatchSizingConformance,
    EndRetentionConformance,
    ExecutorConformance,
    LateFactSourceConformance,
    NewsWaitConformance,
    ReprioritisableConformance,
    ResourceProbeConformance,
    SubmitWindowConformance,
    assert_capabilities_are_covered,
    assert_no_heartbeat,
    heartbeat_line,
)
from longshore.testing.runs import new_identity, write_run_directory

# Base of the conformance classes of services: prepares runs, submits them, and waits for their end.


class ServiceTestCase:
    """Base of all conformance classes of services.

    Fixtures of the subclass: ``service``, the service; and ``scratch``, the path of an empty directory that jobs can
    write to.
    """

    service_name: ClassVar[str] = ""
    """The service as in ``wmsServiceClass``; empty for the path of its class."""
    settings: ClassVar[Mapping[str, object]] = {}
    """`Context.settings` of the runs."""
    timeout_s: ClassVar[float] = 60.0
    """Longest wait for the end of a short run, in seconds."""

    def context(self, service: WmsService, root: Path) -> Context:
        """Return the context of a run in a directory; override it where the service needs a site."""
        templates = template_texts(type(service))
        ctx = Context(
            settings=self.settings,
            site=Site(name="conformance"),
            paths=RunPaths(root),
            templates=templates
            | {name: shipped_path("bin", name).read_text("utf-8") for name in ("longshore-job", "longshore-stage")},
        )
        return msgspec.structs.replace(ctx, probe=service.ping(ctx))

    def prepare(self, service: WmsService, workflow: Workflow, root: Path, **settings: object) -> RunPaths:
        """Write a run directory, as ``longshore prepare`` does; `settings` are added to those of the context."""
        ctx = self.context(service, root)
        ctx = msgspec.structs.replace(ctx, settings={**ctx.settings, **settings})
        assert not [problem for problem in service.check(workflow, ctx) if problem.fatal]
        kind = type(service)
        service_name = self.service_name or f"{kind.__module__}.{kind.__qualname__}"
        identity = new_identity(workflow, run_id="conf1", service=service_name, created_at=time.time())
        files = service.render(workflow, msgspec.structs.replace(ctx, run_token=identity.run_token))
        return write_run_directory(root, workflow, identity, files, folders=log_directories(service, workflow))

    def submit(self, service: WmsService, run: RunPaths) -> Submission:
        """Submit a prepared run, and record the submission."""
        return record_submission(run, service.submit(run))

    def start(self, service: WmsService, workflow: Workflow, root: Path) -> RunPaths:
        """Prepare a run and submit it."""
        run = self.prepare(service, workflow, root)
        self.submit(service, run)
        return run

    def wait_for_end(self, service: WmsService, run: RunPaths) -> RunState:
        """Wait until a run is over, and return its state."""
        deadline = time.monotonic() + self.timeout_s
        while True:
            alive = is_alive(service, run)
            state = replay_events(run, read_events(service, run))
            if state.finish_event and alive is False:
                return state
            assert time.monotonic() < deadline, (
                f"the run did not end in {self.timeout_s} seconds: {state.count_states()}"
            )
            time.sleep(0.05)

    def wait_until(self, is_met: Callable[[], bool], what: str) -> None:
        """Wait until a condition is met."""
        deadline = time.monotonic() + self.timeout_s
        while not is_met():
            assert time.monotonic() < deadline, f"{what} did not happen in {self.timeout_s} seconds"
            time.sleep(0.02)


def record_submission(run: RunPaths, submission: Submission) -> Submission:
    """Record a submission in ``run.json``, as ``longshore submit`` and ``longshore restart`` do."""
    card = read_card(run)
    write_card(run, msgspec.structs.replace(card, submissions=(*card.submissions, submission)))
    return submission


def make_workflow(
    commands: Mapping[str, Command], *, edges: Iterable[tuple[str, str]] = (), final: Command | None = None
) -> Workflow:
    """Return a workflow of jobs by name. The label of a job is its name up to the first ``_``."""

    def job(name: str, command: Command) -> Job:
        label = name.partition("_")[0]
        return Job(name=name, label=label, command=command, settings=JobSettings(label=label))

    return Workflow(
        "conformance",
        Dag.by_name([job(name, command) for name, command in commands.items()], list(edges)),
        final=job("final_1", final) if final else None,
    )


def read_events(service: WmsService, run: RunPaths) -> list[Event]:
    """Return all events of a run; none if the workload manager does not answer."""
    answer = event_source(service).events(run)
    return [] if isinstance(answer, Unreachable) else list(answer[0])


def replay_events(run: RunPaths, events: Iterable[BriefEvent]) -> RunState:
    """Return the state that events lead to."""
    jobs = JobTable(run, "parents")
    state = replay(jobs, events)
    assert sum(state.count_states().values()) == len(jobs)
    return state


def job_states(run: RunPaths, state: RunState) -> dict[str, JobState]:
    """Return the state of each job, by name."""
    return {name: JOB_STATES[code] for name, code in zip(JobTable(run, "names").names, state.code, strict=True)}


def assert_state(state: RunState, expected: JobState) -> None:
    """Check the state of a run that is over."""
    assert state.finish_event
    assert state.finish_event.state is expected


def list_files(folder: Path) -> list[Path]:
    """Return all files and folders below a folder."""
    return sorted(folder.rglob("*"))


@contextmanager
def assert_refused(what: str, kind: type[LongshoreError] = SubmissionRefusedError) -> Iterator[None]:
    """Check that the block raises an error."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{what} is not refused")


# Conformance of every service: name, ping, check, rendered files, runs, and their events.


# ruff: noqa: D102 - the name of a test says what it checks


class ServiceConformance(ServiceTestCase):
    """Core of a service: `WmsService`, with `EventSource` or `ReportSource`."""

    ping_timeout_s: ClassVar[float] = 10.0
    impossible_request: ClassVar[Request] = Request(cpus=1_000_000)
    """A request that no machine can grant."""

    def break_run(self, run: RunPaths) -> None:
        """Damage a prepared run so that it cannot be submitted."""
        shutil.rmtree(run.wms, ignore_errors=True)
        run.workflow.unlink()

    def test_the_test_class_covers_all_capabilities(self, service: WmsService) -> None:
        assert_capabilities_are_covered(type(self), type(service))

    def test_it_has_a_name(self, service: WmsService) -> None:
        assert service.name
        assert service.name == service.name.strip().lower()

    def test_a_ping_answers_soon(self, service: WmsService, scratch: Path) -> None:
        begin = time.monotonic()
        report = self.context(service, scratch / "run").probe
        assert time.monotonic() < begin + self.ping_timeout_s
        assert report
        assert report.ok, report.message
        assert report.message
        assert report.service == service.name

    def test_check_is_pure_and_finds_impossible_requests(self, service: WmsService, scratch: Path) -> None:
        ctx = self.context(service, scratch / "run")
        before = list_files(scratch)

        def fatal_problems(workflow: Workflow) -> list[Problem]:
            first, second = (service.check(workflow, ctx) for _ in range(2))
            assert first == second, "a second check has another result"
            return [problem for problem in first if problem.fatal]

        assert not fatal_problems(make_workflow({"small_1": ("true",)}))
        settings = JobSettings(label="big", request=self.impossible_request)
        big = Workflow("big", Dag.by_name([Job(name="big_1", label="big", command=("true",), settings=settings)]))
        if ctx.probe and ctx.probe.capacity is not None:
            problems = fatal_problems(big)
            assert problems, f"{self.impossible_request} is not refused"
            assert problems[0].job == "big_1"
            assert "big_1" in problems[0].message
        assert list_files(scratch) == before

    def test_rendering_is_pure(self, service: WmsService, scratch: Path) -> None:
        commands = {f"job_{number}": ("echo", value) for number, value in enumerate(HOSTILE_VALUES)}
        workflow = make_workflow(commands, final=("true",))
        ctx = self.context(service, scratch / "run")
        before = list_files(scratch)
        first = list(service.render(workflow, ctx))
        texts = [(file.path, file.mode, "".join(file.chunks())) for file in first]
        # A time of day in a text would be another one by then.
        time.sleep(1.1)
        second = list(service.render(workflow, ctx))
        assert [(file.path, file.mode, "".join(file.chunks())) for file in second] == texts
        assert ["".join(file.chunks()) for file in first] == [text for _, _, text in texts]
        assert list_files(scratch) == before
        paths = [path for path, _, _ in texts]
        assert len(set(paths)) == len(paths)
        assert not [path for path in paths if path.is_absolute() or ".." in path.parts]

    def test_jobs_run_in_the_order_of_the_workflow(self, service: WmsService, scratch: Path) -> None:
        note = scratch / "note"
        commands = {f"job_{number}": f"echo {number} >> {quote(str(note))}" for number in range(4)}
        workflow = make_workflow(commands, edges=[("job_0", "job_1"), ("job_0", "job_2"), ("job_1", "job_3")])
        run = self.prepare(service, workflow, scratch / "run")
        assert is_alive(service, run) is False
        submission = self.submit(service, run)
        assert submission.id
        assert submission.by == "submit"
        state = self.wait_for_end(service, run)
        assert_state(state, JobState.SUCCEEDED)
        assert state.count_states()[JobState.SUCCEEDED] == 4
        words = note.read_text("utf-8").split()
        assert sorted(words) == list("0123")
        assert words.index("0") < words.index("1") < words.index("3")

    def test_events_can_be_read_in_parts(self, service: WmsService, scratch: Path) -> None:
        workflow = make_workflow({f"job_{number}": "sleep 0.1" for number in range(5)})
        run = self.start(service, workflow, scratch / "run")
        mark: Mark = ""
        events: list[Event] = []
        deadline = time.monotonic() + self.timeout_s
        while not any(isinstance(event, Finished) for event in events):
            mark, events = _read_more(service, run, mark, events)
            assert time.monotonic() < deadline, f"the run did not end in {self.timeout_s} seconds"
            time.sleep(0.02)
        self.wait_for_end(service, run)
        # The record of a run that is over may differ from that of a live one.
        for _ in range(2):
            mark, events = _read_more(service, run, mark, events)
        assert events == read_events(service, run)
        assert sorted(event.j for event in events if isinstance(event, Ended)) == list(range(5))

    def test_a_failed_submission_leaves_nothing_running(self, service: WmsService, scratch: Path) -> None:
        note = scratch / "note"
        run = self.prepare(service, make_workflow({"job_1": f"echo x > {quote(str(note))}"}), scratch / "run")
        self.break_run(run)
        with assert_refused("a damaged run", LongshoreError):
            service.submit(run)
        assert is_alive(service, run) is not True
        time.sleep(0.3)
        assert not note.exists()


def _read_more(service: WmsService, run: RunPaths, mark: Mark, known: list[Event]) -> tuple[Mark, list[Event]]:
    """Return the mark and all events after one more call; none where the mark is stale."""
    try:
        answer = event_source(service).events(run, mark)
    except StaleMarkError:
        return "", []
    if isinstance(answer, Unreachable):
        return mark, known
    return answer[1], [*known, *answer[0]]


# Conformance of the capabilities of services, a class for each; see `longshore.contract.capabilities`.


# ruff: noqa: D102 - the name of a test says what it checks


class LivenessProbeConformance(ServiceTestCase):
    """Services that know whether something still moves a run."""

    capability: ClassVar[type] = LivenessProbe

    def test_a_run_is_alive_until_its_jobs_end(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, LivenessProbe)
        begun, go = scratch / "begun", scratch / "go"
        run = self.prepare(service, make_workflow({"job_1": _waiting_line(begun, go)}), scratch / "run")
        assert service.is_alive(run) is False
        self.submit(service, run)
        self.wait_until(begun.exists, "the start of the job")
        assert service.is_alive(run) is True
        go.touch()
        assert_state(self.wait_for_end(service, run), JobState.SUCCEEDED)
        assert service.is_alive(run) is False


class CancellableConformance(ServiceTestCase):
    """Services that end runs."""

    capability: ClassVar[type] = Cancellable
    cancels_single_jobs: ClassVar[bool] = True
    """Whether jobs of a run can be cancelled alone; otherwise that is refused."""

    def test_cancel_ends_all_processes_of_a_run(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Cancellable)
        note = scratch / "note"
        commands = {
            "long_1": heartbeat_line(note, first="trap '' TERM;"),
            "next_1": f"echo no > {quote(str(scratch / 'no'))}",
        }
        run = self.start(service, make_workflow(commands, edges=[("long_1", "next_1")]), scratch / "run")
        self.wait_until(note.exists, "the start of the job")
        service.cancel(run, JobSelection())
        service.cancel(run, JobSelection())
        state = self.wait_for_end(service, run)
        assert_state(state, JobState.DELETED)
        assert not state.count_states()[JobState.SUCCEEDED]
        assert_no_heartbeat([note])
        assert not (scratch / "no").exists()
        assert service.cancel(run, JobSelection()).ended == 0

    def test_single_jobs_can_be_cancelled(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Cancellable)
        note = scratch / "note"
        commands = {"long_1": heartbeat_line(note), "next_1": "true", "other_1": "sleep 0.5"}
        run = self.start(service, make_workflow(commands, edges=[("long_1", "next_1")]), scratch / "run")
        self.wait_until(note.exists, "the start of the job")
        selection = JobSelection(jobs=("long_1",))
        if not self.cancels_single_jobs:
            with assert_refused("a single job of the run"):
                service.cancel(run, selection)
            service.cancel(run, JobSelection())
            self.wait_for_end(service, run)
            return
        service.cancel(run, selection)
        states = job_states(run, self.wait_for_end(service, run))
        assert states == {"long_1": JobState.DELETED, "next_1": JobState.PRUNED, "other_1": JobState.SUCCEEDED}
        assert_no_heartbeat([note])

    def test_cancel_of_a_run_that_is_over_does_nothing(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Cancellable)
        run = self.start(service, make_workflow({"job_1": "true"}), scratch / "run")
        self.wait_for_end(service, run)
        assert service.cancel(run, JobSelection()).ended == 0
        assert_state(self.wait_for_end(service, run), JobState.SUCCEEDED)


class RestartableConformance(ServiceTestCase):
    """Services that run again what did not succeed."""

    capability: ClassVar[type] = Restartable

    def test_a_restart_runs_what_did_not_succeed(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Restartable)
        note, cure = scratch / "note", scratch / "cure"
        commands = {
            "good_1": f"echo good >> {quote(str(note))}",
            "bad_1": f"echo bad >> {quote(str(note))}; test -e {quote(str(cure))}",
            "below_1": f"echo below >> {quote(str(note))}",
        }
        workflow = make_workflow(commands, edges=[("bad_1", "below_1")], final=f"echo final >> {quote(str(note))}")
        run = self.start(service, workflow, scratch / "run")
        state = self.wait_for_end(service, run)
        assert_state(state, JobState.FAILED)
        assert job_states(run, state) == {
            "good_1": JobState.SUCCEEDED,
            "bad_1": JobState.FAILED,
            "below_1": JobState.PRUNED,
            "final_1": JobState.SUCCEEDED,
        }
        assert sorted(note.read_text("utf-8").split()) == ["bad", "final", "good"]
        cure.touch()
        assert record_submission(run, service.restart(run, RestartChanges())).id
        assert_state(self.wait_for_end(service, run), JobState.SUCCEEDED)
        words = note.read_text("utf-8").split()
        assert (words.count("good"), words.count("bad"), words.count("below")) == (1, 2, 1), "a success ran again"
        with assert_refused("a restart of a run that succeeded"):
            service.restart(run, RestartChanges())

    def test_a_live_run_is_not_restarted(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Restartable)
        begun, go = scratch / "begun", scratch / "go"
        run = self.start(service, make_workflow({"job_1": _waiting_line(begun, go)}), scratch / "run")
        self.wait_until(begun.exists, "the start of the job")
        with assert_refused("a restart of a live run"):
            service.restart(run, RestartChanges())
        go.touch()
        assert_state(self.wait_for_end(service, run), JobState.SUCCEEDED)


class AmendableConformance(ServiceTestCase):
    """Services that restart runs with a changed workflow."""

    capability: ClassVar[type] = Amendable

    def test_a_reason_against_another_workflow_is_a_clause(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Amendable)
        run = self.start(service, make_workflow({"job_1": "true"}), scratch / "run")
        self.wait_for_end(service, run)
        before = list_files(run.root)
        reason = service.why_not_amended(run)
        assert reason == reason.strip().rstrip("."), "the caller ends the sentence"
        assert list_files(run.root) == before, "a question changed the run"


class ResumableConformance(ServiceTestCase):
    """Services that continue runs whose controller died."""

    capability: ClassVar[type] = Resumable

    def test_only_a_run_without_a_controller_is_resumed(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Resumable)
        begun, go = scratch / "begun", scratch / "go"
        run = self.start(service, make_workflow({"job_1": _waiting_line(begun, go)}), scratch / "run")
        self.wait_until(begun.exists, "the start of the job")
        with assert_refused("a resume of a live run"):
            service.resume(run)
        go.touch()
        assert_state(self.wait_for_end(service, run), JobState.SUCCEEDED)
        assert service.resume(run) is None, "a run that is over is resumed"


class RecoverableConformance(ServiceTestCase):
    """Services that find out whether a submission arrived."""

    capability: ClassVar[type] = Recoverable

    def test_recovery_submits_nothing_twice(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Recoverable)
        note = scratch / "note"
        run = self.prepare(service, make_workflow({"job_1": f"echo x >> {quote(str(note))}"}), scratch / "run")
        assert service.recover(run) is None, "a run that was never submitted is found"
        # As if the process had been killed before it recorded the submission.
        submission = service.submit(run)
        recovered = service.recover(run)
        assert recovered is None or recovered.id == submission.id
        record_submission(run, submission)
        assert service.recover(run) is None, "a submission that is recorded is found again"
        assert_state(self.wait_for_end(service, run), JobState.SUCCEEDED)
        assert note.read_text("utf-8") == "x\n"


class SteerableConformance(ServiceTestCase):
    """Services that take interventions."""

    capability: ClassVar[type] = Steerable
    pauses: ClassVar[bool] = True
    """Whether runs can be paused; otherwise that is refused."""
    pause_s: ClassVar[float] = 0.0
    """Longest time from a pause to its effect, in seconds, where `Steerable.steer` does not wait for it."""

    def test_a_paused_run_starts_no_job(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Steerable)
        begun, go, note = scratch / "begun", scratch / "go", scratch / "note"
        commands = {"first_1": _waiting_line(begun, go), "next_1": f"echo x > {quote(str(note))}"}
        run = self.start(service, make_workflow(commands, edges=[("first_1", "next_1")]), scratch / "run")
        self.wait_until(begun.exists, "the start of the job")
        pause = Intervention(act="pause", set={"why": "conformance"})
        if not self.pauses:
            with assert_refused("a pause"):
                service.steer(run, pause)
        else:
            if not service.steer(run, pause):
                time.sleep(self.pause_s)
            assert isinstance(service.unreached_notes(run, pause), tuple)
            go.touch()
            time.sleep(1.0)
            assert not note.exists(), "a job of a paused run started"
            service.steer(run, Intervention(act="unpause"))
        go.touch()
        assert_state(self.wait_for_end(service, run), JobState.SUCCEEDED)
        assert note.exists()
        with assert_refused("a pause of a run that is over"):
            service.steer(run, pause)


class QueryableConformance(ServiceTestCase):
    """Services that know runs by ids of their own."""

    capability: ClassVar[type] = Queryable

    def test_a_run_is_found_by_its_id_and_cancelled(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, Queryable)
        note = scratch / "note"
        run = self.prepare(service, make_workflow({"long_1": heartbeat_line(note)}), scratch / "run")
        reference = self.submit(service, run).id
        self.wait_until(note.exists, "the start of the job")
        found = service.find_run(reference)
        assert found
        assert found.samefile(run.root)
        reports = service.query_runs(RunSearch(reference=reference)).reports
        assert [Path(report.path).resolve() for report in reports] == [run.root.resolve()]
        assert service.query_runs(RunSearch(user="no-such-user-anywhere")).reports == ()
        assert service.cancel_remote(RunSearch(reference=reference)).ended
        assert_state(self.wait_for_end(service, run), JobState.DELETED)
        assert_no_heartbeat([note])


class BriefEventsConformance(ServiceTestCase):
    """Services that report events in short."""

    capability: ClassVar[type] = BriefEvents

    def test_brief_events_lead_to_the_same_state(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, BriefEvents)
        commands = {"good_1": "true", "bad_1": "exit 3", "below_1": "true"}
        run = self.start(service, make_workflow(commands, edges=[("bad_1", "below_1")]), scratch / "run")
        state = self.wait_for_end(service, run)
        # Neither call may depend on what the other left in the cache.
        shutil.rmtree(run.cache, ignore_errors=True)
        answer = service.brief_events(run)
        assert not isinstance(answer, Unreachable)
        assert job_states(run, replay_events(run, answer[0])) == job_states(run, state)
        shutil.rmtree(run.cache, ignore_errors=True)
        detailed = service.brief_events(run, with_attempts=True)
        assert not isinstance(detailed, Unreachable)
        assert all(event.host for event in detailed[0] if isinstance(event, AttemptSucceeded))


class PartialJournalConformance(ServiceTestCase):
    """Services whose journal lacks events at times."""

    capability: ClassVar[type] = PartialJournal

    def test_a_complete_journal_has_all_events(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, PartialJournal)
        run = self.start(service, make_workflow({"good_1": "true", "bad_1": "exit 3"}), scratch / "run")
        self.wait_for_end(service, run)
        if service.journal_is_complete(run):
            assert list(read_journal(run.journal)) == read_events(service, run)


class LogLocatingConformance(ServiceTestCase):
    """Services that name logs in their own way."""

    capability: ClassVar[type] = LogLocating

    def test_logs_are_located(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, LogLocating)
        run = self.start(service, make_workflow({"job_1": "echo from the job"}), scratch / "run")
        self.wait_for_end(service, run)
        locator = service.log_locator(run)
        if locator is None:
            log = str(run.log_of(0, "job_1", "job", 1))
        else:
            assert locator.attempts(0) == 1
            log = locator.path(0, "job_1", "job", 1)
        assert "from the job" in (run.root / log).read_text("utf-8")


class LogDirectoriesConformance(ServiceTestCase):
    """Services that need directories before jobs write to them."""

    capability: ClassVar[type] = LogDirectories

    def test_log_directories_are_pure(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, LogDirectories)
        workflow = make_workflow({f"job_{number}": ("echo", value) for number, value in enumerate(HOSTILE_VALUES)})
        before = list_files(scratch)
        folders = list(service.log_directories(workflow))
        assert folders == list(service.log_directories(workflow)), "a second call has another result"
        paths = [PurePosixPath(folder) for folder in folders]
        assert not [path for path in paths if path.is_absolute() or ".." in path.parts]
        assert list_files(scratch) == before


class StatusLinesConformance(ServiceTestCase):
    """Services that have facts on the controller of a run."""

    capability: ClassVar[type] = StatusLines

    def test_facts_are_a_line_each(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, StatusLines)
        run = self.prepare(service, make_workflow({"job_1": "true"}), scratch / "run")
        lines = list(service.status_lines(run))
        self.submit(service, run)
        lines += service.status_lines(run)
        self.wait_for_end(service, run)
        lines += service.status_lines(run)
        assert not [line for line in lines if not line.strip() or "\n" in line]


class HoldRulesConformance(ServiceTestCase):
    """Services that hold jobs by themselves."""

    capability: ClassVar[type] = HoldRules

    def test_no_hold_of_a_run_that_is_over_is_released(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, HoldRules)
        run = self.start(service, make_workflow({"job_1": "true"}), scratch / "run")
        self.wait_for_end(service, run)
        assert service.releases_holds(run) is False


class LauncherLineConformance(ServiceTestCase):
    """Services that start the command of a job with a program of their own."""

    capability: ClassVar[type] = LauncherLine
    launcher_settings: ClassVar[Mapping[str, object]] = {}
    """Settings of a job that has a launcher."""

    def test_the_launcher_is_one_line_of_shell(self, service: WmsService) -> None:
        assert isinstance(service, LauncherLine)
        for settings in ({}, self.launcher_settings):
            line = service.launcher_line(settings)
            assert line == service.launcher_line(settings), "a second call has another result"
            assert "\n" not in line
            subprocess.run(["/bin/sh", "-n", "-c", f"{line} true"], check=True)


class BackendOptionsConformance(ServiceTestCase):
    """Services that take options of the workload manager as one string."""

    capability: ClassVar[type] = BackendOptions
    known_options: ClassVar[str] = ""
    """Options that the service takes, such as ``--qos=debug``."""
    unknown_option: ClassVar[str] = "--no-such-option-anywhere=1"

    def test_known_options_become_keys(self, service: WmsService) -> None:
        assert isinstance(service, BackendOptions)
        values = service.backend_options(self.known_options)
        assert values == service.backend_options(self.known_options), "a second call has another result"
        assert bool(values) == bool(self.known_options)

    def test_an_unknown_option_is_refused(self, service: WmsService) -> None:
        assert isinstance(service, BackendOptions)
        with assert_refused(self.unknown_option, ConfigError):
            service.backend_options(self.unknown_option)


def _waiting_line(begun: Path, go: Path) -> str:
    """Return a line of shell that makes one file, and waits for another."""
    return f"touch {quote(str(begun))}; while ! test -e {quote(str(go))}; do sleep 0.05; done"


class AllocationReaderConformance(ServiceTestCase):
    """Services that count what jobs ask for in the workload manager's own words."""

    capability: ClassVar[type] = AllocationReader

    def test_a_request_is_counted(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, AllocationReader)
        ctx = self.context(service, scratch / "run")
        request = Request(cpus=3, memory_b=500 * MIB, walltime_s=600.0)
        job = JobSettings(label="job", request=request)
        asked = total_request(service.allocations(job, ctx.settings.get("executor", {})))
        assert (asked.cpus, asked.walltime_s) == (3, 600.0)
        assert asked.memory_b in (None, 500 * MIB)


# Conformance of capabilities for sites, runs of other tools and notices; see `longshore.contract.capabilities`.


# ruff: noqa: D102 - the name of a test says what it checks


class LoadReporterConformance(ServiceTestCase):
    """Services that know how busy their workload manager is."""

    capability: ClassVar[type] = LoadReporter

    def test_what_is_free_is_part_of_the_whole(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, LoadReporter)
        ctx = self.context(service, scratch / "run")
        before = list_files(scratch)
        load = service.query_load(ctx)
        assert list_files(scratch) == before
        assert load.get("cpus_total"), f"no processors are reported: {load}"
        assert load.keys() <= LOAD_NAMES
        assert all(math.isfinite(value) and value >= 0 for value in load.values()), load
        for kind in ("cpus", "nodes"):
            assert load.get(f"{kind}_free", 0) <= load.get(f"{kind}_total", math.inf), load


class JobProbeConformance(ServiceTestCase):
    """Services that check jobs by what their workload manager answers now."""

    capability: ClassVar[type] = JobProbe
    unmet_settings: ClassVar[JobSettings] = JobSettings(label="absent", attributes={"queue": "no_such_queue"})
    """Settings of a job that names what the workload manager does not have."""

    def knows_names(self, ctx: Context) -> bool:
        """Whether the service knows which names there are; nothing is found otherwise."""
        return True

    def test_a_job_that_names_nothing_has_no_problem(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, JobProbe)
        job = Job(name="plain_1", label="plain", command=("true",), settings=JobSettings(label="plain"))
        assert not service.probe_jobs([job], self.context(service, scratch / "run"))

    def test_a_job_that_names_what_is_not_there_is_found(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, JobProbe)
        ctx = self.context(service, scratch / "run")
        before = list_files(scratch)
        job = Job(name="absent_1", label="absent", command=("true",), settings=self.unmet_settings)
        problems = service.probe_jobs([job], ctx)
        assert list_files(scratch) == before
        assert bool(problems) is self.knows_names(ctx), f"{self.unmet_settings} has the problems {problems}"
        assert {problem.job for problem in problems} <= {"absent_1"}
        assert all(problem.message and problem.hint for problem in problems), problems


class SiteAccessConformance(ServiceTestCase):
    """Services that know how their programs find the cluster."""

    capability: ClassVar[type] = SiteAccess

    def test_a_new_profile_gets_plain_values(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, SiteAccess)
        report = self.context(service, scratch / "run").probe
        assert report is not None
        for inventory in (None, report.inventory):
            found = service.site_access(inventory)
            assert found == service.site_access(inventory), "a second call has another result"
            assert msgspec.json.decode(msgspec.json.encode(found)) == found
            assert "" not in found.values()


class RunMirroringConformance(ServiceTestCase):
    """Services that read run directories of other tools."""

    capability: ClassVar[type] = RunMirroring

    def test_a_directory_of_no_known_tool_is_left_alone(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, RunMirroring)
        before = list_files(scratch)
        for folder in (scratch, scratch / "absent"):
            assert service.mirror_run(folder) is None
        assert list_files(scratch) == before


class NoticeHostConformance(ServiceTestCase):
    """Services that start the notifier of their runs."""

    capability: ClassVar[type] = NoticeHost

    def test_the_notifier_is_started_with_the_run(self, service: WmsService, scratch: Path) -> None:
        assert isinstance(service, NoticeHost)
        rule = NoticeRule(name="file", events=(NoticeEvent.END,), command="true")
        notices = msgspec.to_builtins([rule])
        run = self.prepare(service, make_workflow({"job_1": "true"}), scratch / "run", notify=notices)
        create_file(run.notice_rules, [encode_notice_rules([rule])], below=run.root)
        self.submit(service, run)
        # Of some runs it does not, such as those that its workload manager drives alone.
        is_host = service.hosts_notices(run)
        self.wait_for_end(service, run)
        if is_host:
            self.wait_until(run.notifier_log.exists, "the start of the notifier")
        else:
            assert not run.notifier_log.exists(), "the service started the notifier of a run that it does not host"


# Conformance of services with Longshore's engine: the core and the capabilities of `EngineService`.


class EngineServiceConformance(
    ServiceConformance,
    LivenessProbeConformance,
    CancellableConformance,
    RestartableConformance,
    AmendableConformance,
    ResumableConformance,
    SteerableConformance,
    LogLocatingConformance,
    NoticeHostConformance,
):
    """A service derived from `longshore.engine.run.engine_service.EngineService`."""


# Conformance of services with a dialect: the capabilities of the kit's executor and of its service.


class BatchExecutorConformance(
    ExecutorConformance,
    ResourceProbeConformance,
    SubmitWindowConformance,
    BatchSizingConformance,
    ReprioritisableConformance,
    EndRetentionConformance,
    LateFactSourceConformance,
    NewsWaitConformance,
):
    """The kit's executor, with the dialect of a test class."""


class BatchServiceConformance(
    EngineServiceConformance,
    RecoverableConformance,
    PartialJournalConformance,
    AllocationReaderConformance,
    JobProbeConformance,
):
    """A service derived from `longshore.services.batch.service.BatchService`."""

    def knows_names(self, ctx: Context) -> bool:
        """Whether the dialect lists the partitions of the cluster."""
        inventory = ctx.probe.inventory if ctx.probe else None
        return inventory is not None and inventory.partitions is not None
