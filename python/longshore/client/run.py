"""A submitted run as an object: look at it, wait for it, change it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from longshore.app import api
from longshore.client.event_stream import EventStream
from longshore.client.notebook import frame, show_live
from longshore.client.run_jobs import RunJobs, read_jobs
from longshore.client.terminal_progress import StateLine
from longshore.contract.intervention import Intervention, JobSelection, RestartChanges
from longshore.model.run.report import RunReport
from longshore.model.run.states import JobState

if TYPE_CHECKING:
    from longshore.app.job.job_details import JobDetails
    from longshore.app.job.job_explanation import JobExplanation
    from longshore.app.runs.open_run import OpenRun

Names = str | Iterable[str]
"""One name, or several."""
Requests = Mapping[str, str | float]
"""Values per key of a request: text, or a number."""


class Run:
    """A submitted run.

    It goes on without this process. Every method reads the present state; nothing is cached but the name.

    Attributes
    ----------
    notes
        Notes of the submission, which the command prints.
    """

    def __init__(self, opened: OpenRun, *, notes: Sequence[str] = ()) -> None:
        self._opened = opened
        self.notes = tuple(notes)

    def __repr__(self) -> str:
        """Return id, name and state."""
        return f"<Run {self.id} {self.name} {self.state.value}>"

    def _repr_html_(self) -> str:
        """Return the run as a cell of a notebook shows it: state, failures, labels and timeline."""
        return frame(api.html_report(self._opened, is_cell=True))

    def show(self, *, every: float = 2.0) -> None:
        """Show the run in a cell of a notebook, and update it until the run is over; the kernel is not blocked.

        Parameters
        ----------
        every
            Seconds between two looks; at least 1.

        Raises
        ------
        ImportError
            IPython is not installed.
        """
        show_live(
            lambda: api.html_report(self._opened, is_cell=True),
            lambda: api.is_over(self._opened, api.status(self._opened)),
            pause_s=every,
        )

    @property
    def id(self) -> str:
        """Id of the run, as the commands take it."""
        return self._opened.card.shown_id

    @property
    def name(self) -> str:
        """Name of the run."""
        return self._opened.card.name

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._opened.directory

    @property
    def service(self) -> str:
        """Name of its workload manager."""
        return self._opened.card.service

    @property
    def state(self) -> JobState:
        """State of the run now."""
        return api.status(self._opened).state

    @property
    def counts(self) -> Mapping[JobState, int]:
        """Number of jobs per state now."""
        return api.status(self._opened).counts

    def report(self, *, details: bool = False) -> RunReport:
        """Return the report of the run: counts, times, failures, and with `details` every job."""
        return api.report(self._opened, details=details)

    def jobs(self) -> RunJobs:
        """Return every job with its tags, request, state and newest attempt."""
        return read_jobs(self._opened)

    def wait(self, *, progress: bool = False, timeout: float | None = None) -> JobState:
        """Wait until the run is over, and return its state.

        Parameters
        ----------
        progress
            Print the number of jobs per state to standard error when it changes.
        timeout
            Longest wait in seconds; without it, there is no limit.

        Raises
        ------
        TimeoutError
            The run is not over after `timeout` seconds; it goes on.
        """
        line = StateLine() if progress else None
        deadline = None if timeout is None else time.monotonic() + timeout

        def show(report: RunReport) -> None:
            if line is not None:
                line.show(report)
            if deadline is not None and time.monotonic() > deadline and not api.is_over(self._opened, report):
                raise TimeoutError(f"run '{self.id}' is {report.state.value} after {timeout:g} s; it goes on")

        return api.wait(self._opened, show).state

    def events(self, *, follow: bool = False, since: str | None = None) -> EventStream:
        """Return the events of the run, for ``for`` and ``async for``.

        Parameters
        ----------
        follow
            Also new events, until the run is over.
        since
            Only events after this mark.
        """
        return EventStream(self._opened, follow=follow, since=since)

    def logs(self, job: str, *, attempt: int | None = None, tail: int | None = None) -> str:
        """Return the log of a job as text; bytes that are not UTF-8 are replaced.

        Parameters
        ----------
        job
            Its name, a unique beginning of it, or its number in the order of the workflow, from 0, as text.
        attempt
            Number of the attempt; by default the newest with a log.
        tail
            Only the last lines.

        Raises
        ------
        RunNotFoundError
            There is no such job, or it has no log.
        """
        (log, *_) = reversed(api.logs(self._opened, job=job, attempt=attempt).logs)
        return b"".join(api.read_log(log.path, tail=tail)).decode("utf-8", "replace")

    def explain(self, job: str) -> JobExplanation:
        """Explain why a job is in its state, with its attempts and events; `job` is as in `logs`."""
        return api.explain(self._opened, job)

    def show_job(self, job: str, *, attempt: int | None = None) -> JobDetails:
        """Return command, environment, request and files of a job, of its newest attempt or of `attempt`."""
        return api.show_job(self._opened, job, attempt=attempt)

    def cancel(self, *, jobs: Names = (), labels: Names = (), wait: float = 60.0) -> RunReport:
        """Cancel the run, or some of its jobs, and wait up to `wait` seconds for the end; return the report then."""
        return api.cancel(self._opened, _selection(jobs, labels), wait_s=wait)

    def restart(
        self,
        *,
        set: Requests | None = None,  # noqa: A002 - the name of the option
        from_labels: Names = (),
        with_changes: bool = False,
    ) -> None:
        """Start the jobs that did not succeed again, and return; `wait` waits for their end.

        Parameters
        ----------
        set
            Requests of these jobs, such as ``{"requestMemory": "4 GiB", "numberOfRetries": 2}``.
        from_labels
            Labels whose jobs, and their descendants, run again even if they succeeded.
        with_changes
            Take the present content of the files that the run was made from; without it, they stay as they were.

        Raises
        ------
        SubmissionRefusedError
            The run is live, has nothing to run again, or is refused.
        """
        pairs = tuple(f"{key}={value}" for key, value in (set or {}).items())
        changes = RestartChanges(set=api.parse_changes(pairs) if pairs else {}, from_labels=_names(from_labels))
        comparison = api.compare_run(self._opened) if with_changes else None
        api.restart(self._opened, api.plan_restart(self._opened, changes, comparison))
        self._opened = api.open_run(str(self._opened.run.root))

    def pause(self, reason: str = "") -> RunReport:
        """Start no more jobs until the run is unpaused."""
        return self._steer("pause", set={"why": reason} if reason else {})

    def unpause(self) -> RunReport:
        """Continue a paused run."""
        return self._steer("unpause")

    def throttle(self, most: int | None, *, labels: Names = ()) -> RunReport:
        """Limit the number of jobs that run or wait at the workload manager at once; ``None`` lifts the limit."""
        return self._steer("throttle", labels=labels, set={} if most is None else {"max": str(most)})

    def hold(self, *, jobs: Names = (), labels: Names = ()) -> RunReport:
        """Hold jobs, without names all of them: they do not start until they are released."""
        return self._steer("hold", jobs=jobs, labels=labels)

    def release(self, *, jobs: Names = (), labels: Names = ()) -> RunReport:
        """Release held jobs, without names all of them."""
        return self._steer("release", jobs=jobs, labels=labels)

    def set_requests(self, values: Requests, *, jobs: Names = (), labels: Names = ()) -> RunReport:
        """Set the requests of jobs that have not started, and of retries, such as ``{"requestMemory": "4 GiB"}``."""
        pairs = tuple(f"{key}={value}" for key, value in values.items())
        return self._steer("set", jobs=jobs, labels=labels, set=api.parse_changes(pairs))

    def _steer(
        self,
        act: str,
        *,
        jobs: Names = (),
        labels: Names = (),
        set: Mapping[str, str] | None = None,  # noqa: A002 - the name of the field
    ) -> RunReport:
        return api.steer(self._opened, Intervention(act=act, selection=_selection(jobs, labels), set=set or {}))


def _selection(jobs: Names, labels: Names) -> JobSelection:
    return JobSelection(jobs=_names(jobs), labels=_names(labels))


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
