"""Conformance of every service: name, ping, check, rendered files, runs, and their events."""

# ruff: noqa: D102 - the name of a test says what it checks

from __future__ import annotations

import shutil
import time
from pathlib import Path
from shlex import quote
from typing import ClassVar

from longshore.contract.context import Mark, Problem, RunPaths, Unreachable
from longshore.contract.service import StaleMarkError, WmsService
from longshore.engine.run.service_capabilities import event_source, is_alive
from longshore.errors import LongshoreError
from longshore.model.run.event import Ended, Event, Finished
from longshore.model.run.states import JobState
from longshore.model.tasks.dag import Dag
from longshore.model.workflow.job import Job, JobSettings
from longshore.model.workflow.request import Request
from longshore.model.workflow.workflow import Workflow
from longshore.testing.conformance.capability import assert_capabilities_are_covered
from longshore.testing.conformance.executor_driver import HOSTILE_VALUES
from longshore.testing.conformance.service_test_case import (
    ServiceTestCase,
    assert_refused,
    assert_state,
    list_files,
    make_workflow,
    read_events,
)


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
