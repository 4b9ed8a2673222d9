"""Conformance of the capabilities of services, a class for each; see `longshore.contract.capabilities`."""

# ruff: noqa: D102 - the name of a test says what it checks

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import ClassVar

from longshore.contract.capabilities import (
    AllocationReader,
    Amendable,
    BackendOptions,
    BriefEvents,
    Cancellable,
    HoldRules,
    LauncherLine,
    LivenessProbe,
    LogDirectories,
    LogLocating,
    PartialJournal,
    Queryable,
    Recoverable,
    Restartable,
    Resumable,
    StatusLines,
    Steerable,
)
from longshore.contract.context import Unreachable
from longshore.contract.intervention import Intervention, JobSelection, RestartChanges
from longshore.contract.search import RunSearch
from longshore.contract.service import WmsService
from longshore.engine.journal.read_journal import read_events as read_journal
from longshore.errors import ConfigError
from longshore.model.run.event import AttemptSucceeded
from longshore.model.run.states import JobState
from longshore.model.workflow.allocation import total_request
from longshore.model.workflow.job import JobSettings
from longshore.model.workflow.request import MIB, Request
from longshore.testing.conformance.executor_driver import HOSTILE_VALUES, assert_no_heartbeat, heartbeat_line
from longshore.testing.conformance.service_test_case import (
    ServiceTestCase,
    assert_refused,
    assert_state,
    job_states,
    list_files,
    make_workflow,
    read_events,
    record_submission,
    replay_events,
)


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
