"""Base of the conformance classes of services: prepares runs, submits them, and waits for their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import msgspec

from longshore.contract.context import Context, RunPaths, Site, Unreachable
from longshore.contract.service import WmsService
from longshore.engine.run.service_capabilities import event_source, is_alive, log_directories
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.replay import replay
from longshore.engine.state.job_codes import JOB_STATES
from longshore.engine.state.run_state import RunState
from longshore.errors import LongshoreError, SubmissionRefusedError
from longshore.model.run.event import BriefEvent, Event
from longshore.model.run.states import JobState
from longshore.model.run.submission import Submission
from longshore.model.tasks.dag import Dag
from longshore.model.tasks.task import Command
from longshore.model.workflow.job import Job, JobSettings
from longshore.model.workflow.workflow import Workflow
from longshore.testing.runs import new_identity, write_run_directory
from longshore.world.plugins import template_texts
from longshore.world.runs.run_directory import read_card, write_card
from longshore.world.shipped_files import shipped_path


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
