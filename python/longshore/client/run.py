"""A run in Python: a method for each way to look at it, to wait for it and to change it.

Each does what the command of its name does.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from longshore.client.notebook import frame, show_live
from longshore.client.tables import RunJobs, StatisticsTable, SuggestedRequests, read_jobs
from longshore.contract.service import Intervention, JobSelection, RestartChanges
from longshore.control.interventions import cancel, parse_changes, steer
from longshore.control.restart import compare_sources, plan_restart, restart
from longshore.control.resume import resume
from longshore.errors import RunNotMeantError, RunPausedError
from longshore.model.event import Event
from longshore.model.measurements import DEFAULT_MARGIN, MAX_MARGIN, MIN_MARGIN
from longshore.model.report import RunReport, report_summary
from longshore.model.states import JobState
from longshore.plan.changes import RunComparison, change_lines, takes_changes, unchanged_notes
from longshore.reports.explain import explain_job
from longshore.reports.export.formats import export_run, render_run
from longshore.reports.logs import find_logs, read_log
from longshore.reports.report import report_run
from longshore.reports.show_job import JobDetails, show_job
from longshore.reports.state import is_over
from longshore.reports.statistics import find_runs_and_labels, read_statistics
from longshore.reports.status import status_run, wait_for_end
from longshore.reports.suggested_requests import advise_requests
from longshore.runstate.events import RunEvents
from longshore.runstate.open_run import OpenRun, open_run

if TYPE_CHECKING:
    from longshore.reports.explanation import JobExplanation

Names = str | Iterable[str]
"""One name, or several."""
Requests = Mapping[str, str | float]
"""Values per key of a request: text, or a number."""
_SHOWN: Final = (JobState.RUNNING, JobState.PENDING, JobState.READY, JobState.HELD, JobState.FAILED, JobState.PRUNED)


class Run:
    """A submitted run.

    It goes on without this process. Every method reads the present state; nothing is cached but the name.

    Attributes
    ----------
    notes
        Notes of the submission, or of the newest restart or resume by this object; the commands print them.
    """

    def __init__(self, opened: OpenRun, *, notes: Sequence[str] = (), doubt: RunNotMeantError | None = None) -> None:
        self._opened = opened
        self._doubt = doubt
        self.notes = tuple(notes)

    def __repr__(self) -> str:
        """Return id, name and state."""
        return f"<Run {self.id} {self.name} {self.state.value}>"

    def _repr_html_(self) -> str:
        """Return the run as a cell of a notebook shows it: state, failures, labels and timeline."""
        from longshore.reports.page.render import make_run_page

        return frame(make_run_page(self._opened, is_cell=True))

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
        from longshore.reports.page.render import make_run_page

        show_live(
            lambda: make_run_page(self._opened, is_cell=True),
            lambda: is_over(self._opened, status_run(self._opened, check=True)),
            pause_s=every,
        )

    def _to_change(self) -> OpenRun:
        """Return the run for a method that changes it; raises `RunNotMeantError` if it may not be the one meant."""
        if self._doubt is not None:
            raise self._doubt
        return self._opened

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
        return status_run(self._opened, check=True).state

    @property
    def counts(self) -> Mapping[JobState, int]:
        """Number of jobs per state now."""
        return status_run(self._opened, check=True).counts

    def report(self, *, details: bool = False) -> RunReport:
        """Return the report of the run: counts, times, failures, and with `details` every job."""
        return PrintedReport.of(report_run(self._opened, details=details))

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
        RunPausedError
            The run is paused, and so does not end by itself. After `unpause`, wait again.
        TimeoutError
            The run is not over after `timeout` seconds; it goes on.
        """
        line = _StateLine() if progress else None
        deadline = None if timeout is None else time.monotonic() + timeout

        def show(report: RunReport) -> None:
            if line is not None:
                line.show(report)
            if deadline is not None and time.monotonic() > deadline and not is_over(self._opened, report):
                raise TimeoutError(f"run '{self.id}' is {report.state.value} after {timeout:g} s; it goes on")

        report = wait_for_end(self._opened, show, ends_at_pause=True)
        if report.state_word == "PAUSED":
            why = next((note for note in report.notes if note.startswith("PAUSED")), "PAUSED")
            raise RunPausedError(
                f"run '{self.id}' is {why}",
                hint="Its method 'unpause' continues it too, and 'cancel' ends it; then wait again.",
            )
        return report.state

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
        (log, *_) = reversed(find_logs(self._opened, job=job, attempt=attempt).logs)
        return b"".join(read_log(log.path, tail=tail)).decode("utf-8", "replace")

    def explain(self, job: str) -> JobExplanation:
        """Explain why a job is in its state, with its attempts and events; `job` is as in `logs`.

        Examples
        --------
        >>> print(run.explain("fit_3"))
        fit_3 (number 3, label fit) of run k7f3aa is FAILED.
          Its attempt 1 ended badly: exit code 2.
        ...
        """
        return explain_job(self._opened, job)

    def show_job(self, job: str, *, attempt: int | None = None) -> JobDetails:
        """Return command, environment, request and files of a job, of its newest attempt or of `attempt`."""
        return show_job(self._opened, job, attempt=attempt)

    def stats(self, *, labels: Names = ()) -> StatisticsTable:
        """Return statistics of the attempts: waits, run times, use of processors and memory, retries and badput.

        Parameters
        ----------
        labels
            Only attempts of these labels.

        Raises
        ------
        RunNotFoundError
            The run has no such label.
        UnreachableError
            The workload manager has the events, and does not answer.

        Examples
        --------
        >>> print(run.stats())
        k7f3aa  u_ada_survey_20260102T030405Z  on local
          6 jobs, 7 attempts, 1 of them a retry; 1m05s of core time, 2s of it badput (3.1%)
        ...
        """
        return StatisticsTable(read_statistics(self._opened, labels=self._known_labels(labels)))

    def suggest_resources(self, *, labels: Names = (), margin: float = DEFAULT_MARGIN) -> SuggestedRequests:
        """Suggest requests that fit what the attempts used.

        Parameters
        ----------
        labels
            Only suggestions for these labels.
        margin
            Factor on what was measured, from 1 to 10.

        Raises
        ------
        RunNotFoundError
            The run has no such label.
        UnreachableError
            The workload manager has the events, and does not answer.
        ValueError
            `margin` is out of range.

        Examples
        --------
        >>> run.suggest_resources().save("tuned.yaml", over="survey.yaml")
        """
        if not MIN_MARGIN <= margin <= MAX_MARGIN:
            raise ValueError(f"margin is {margin}, and is from {MIN_MARGIN:g} to {MAX_MARGIN:g}")
        found = advise_requests([self._opened], labels=self._known_labels(labels), margin=margin)
        return SuggestedRequests(found)

    def _known_labels(self, labels: Names) -> Sequence[str]:
        """Return names of labels; raises `RunNotFoundError` if the run lacks one."""
        return find_runs_and_labels([str(self.path)], _names(labels))[1]

    @overload
    def export(self, form: str) -> bytes: ...
    @overload
    def export(self, form: str, path: str | Path) -> Path: ...
    def export(self, form: str, path: str | Path | None = None) -> bytes | Path:
        """Return the run in a format of other programs, or write it to a file.

        Parameters
        ----------
        form
            ``csv``, ``openmetrics``, ``wfformat``, or with `path` also ``ro-crate``.
        path
            The file, which is replaced; for a crate a new directory, or an archive (``.zip``).

        Returns
        -------
        bytes or Path
            The text in UTF-8, or the path that was written.

        Raises
        ------
        UsageError
            There is no such format, or it needs a path.
        FilesError
            The file cannot be written; one that is there stays.
        UnreachableError
            The workload manager has the events, and does not answer.

        Examples
        --------
        >>> attempts = pandas.read_csv(io.BytesIO(run.export("csv")))
        """
        if path is None:
            return b"".join(render_run(self._opened, form))
        export_run(self._opened, form, Path(path))
        return Path(path)

    def write_html(self, path: str | Path) -> Path:
        """Write the report as an HTML file that needs no network, and return its path.

        Raises
        ------
        FilesError
            The file cannot be written.
        """
        from longshore.reports.page.render import make_run_page, write_page

        write_page(Path(path), make_run_page(self._opened))
        return Path(path)

    def cancel(self, *, jobs: Names = (), labels: Names = (), wait: float = 60.0) -> RunReport:
        """Cancel the run, or some of its jobs, and wait up to `wait` seconds for the end; return the report then."""
        return PrintedReport.of(cancel(self._to_change(), _selection(jobs, labels), wait_s=wait))

    def restart(
        self,
        *,
        set: Requests | None = None,  # noqa: A002 - the name of the option
        jobs: Names = (),
        labels: Names = (),
        from_labels: Names = (),
        with_changes: bool | None = None,
        share_outputs: bool = False,
    ) -> None:
        """Start the jobs that did not succeed again, and return; `wait` waits for their end.

        Parameters
        ----------
        set
            Requests of these jobs, such as ``{"requestMemory": "4 GiB", "numberOfRetries": 2}``.
        jobs, labels
            Only these jobs, or those of these labels, get the requests of `set`.
        from_labels
            Labels whose jobs, and their descendants, run again even if they succeeded.
        with_changes
            ``True`` takes the present content of the files that the run was made from. ``False`` leaves the run as it
            was, even if a file that jobs read is gone. By default the run stays as it was, with a `UserWarning` if a
            change of these files would change a job.
        share_outputs
            Even if another live run writes the same files.

        Raises
        ------
        SubmissionRefusedError
            The run is live, has nothing to run again, or is refused.
        LongshoreError
            `with_changes` is ``True``, and the run cannot be prepared from the present files.

        Examples
        --------
        >>> run.restart(set={"requestMemory": "4 GiB"}, labels="fit")
        >>> run.restart(from_labels="sum", with_changes=True)
        """
        pairs = tuple(f"{key}={value}" for key, value in (set or {}).items())
        changes = RestartChanges(
            selection=_selection(jobs, labels),
            set=parse_changes(pairs) if pairs else {},
            from_labels=_names(from_labels),
        )
        chosen = _choose_changes(self._to_change(), with_changes=with_changes)
        if chosen.warning:
            warnings.warn(chosen.warning, UserWarning, stacklevel=2)
        plan = plan_restart(self._opened, changes, chosen.taken, ignores_lost=with_changes is False)
        _, notes = restart(self._opened, plan.changes, plan.comparison, shares_outputs=share_outputs)
        self.notes = (*chosen.notes, *notes)
        self._opened = open_run(str(self._opened.run.root))

    def resume(
        self,
        *,
        take_over: bool = False,
        force: bool = False,
        accept_loss: bool = False,
        share_outputs: bool = False,
    ) -> bool:
        """Start a new engine if that of the run died; running jobs go on, and what succeeded does not run again.

        Parameters
        ----------
        take_over
            Replace an engine that seems alive: it or its host is gone for good.
        force
            Even if the last three engines died without progress.
        accept_loss
            Continue from what is intact of a damaged journal; jobs may run again.
        share_outputs
            Even if another live run writes the same files.

        Returns
        -------
        bool
            Whether an engine was started; ``False`` if every job is over. `notes` tell more.

        Raises
        ------
        SubmissionRefusedError
            The engine is alive, or none can be started.

        Examples
        --------
        >>> longshore.open("@last").resume()
        True
        """
        found = resume(
            self._to_change(),
            take_over=take_over,
            force=force,
            loss_accepted=accept_loss,
            shares_outputs=share_outputs,
        )
        self.notes = found.notes
        self._opened = open_run(str(self._opened.run.root))
        return found.has_started

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
        return self._steer("set", jobs=jobs, labels=labels, set=parse_changes(pairs))

    def _steer(
        self,
        act: str,
        *,
        jobs: Names = (),
        labels: Names = (),
        set: Mapping[str, str] | None = None,  # noqa: A002 - the name of the field
    ) -> RunReport:
        order = Intervention(act=act, selection=_selection(jobs, labels), set=set or {})
        return PrintedReport.of(steer(self._to_change(), order))


class EventStream:
    """Events of a run, each with its mark, from which a later call can continue.

    Iterating gives the events so far, or with `follow` also new ones until the run is over. ``async for`` gives the
    same without blocking the event loop.
    """

    def __init__(self, opened: OpenRun, *, follow: bool, since: str | None) -> None:
        self._opened = opened
        self._follow = follow
        self._since = since

    def __repr__(self) -> str:
        """Return the id of the run."""
        return f"<Events of run {self._opened.card.shown_id}>"

    def __iter__(self) -> Iterator[tuple[str, Event]]:
        """Iterate over pairs of mark and event."""
        events = RunEvents(self._opened, since=self._since)
        return events.follow() if self._follow else iter(events)

    async def __aiter__(self) -> AsyncIterator[tuple[str, Event]]:
        """Iterate without blocking the event loop."""
        # A program that uses it has imported it; for others it would be 20 ms.
        import asyncio

        iterator = iter(self)
        end = object()
        # A generator runs in one thread at a time: each step is awaited before the next begins.
        while (item := await asyncio.to_thread(next, iterator, end)) is not end:
            assert isinstance(item, tuple)
            yield item


class PrintedReport(RunReport, frozen=True, kw_only=True, omit_defaults=True):
    """Report of a run, whose text is made here: records are below what formats durations and causes."""

    def __str__(self) -> str:
        """Return state, counts, failures and notes in a few lines."""
        return report_summary(self)

    @staticmethod
    def of(report: RunReport) -> PrintedReport:
        """Return the same report as one that can be printed."""
        return PrintedReport(**{name: getattr(report, name) for name in report.__struct_fields__})


class _StateLine:
    """Prints on standard error the number of jobs per state when it changes."""

    def __init__(self) -> None:
        self._last = ""

    def show(self, report: RunReport) -> None:
        """Print the state of a run if it differs from the last one."""
        counts = [f"{report.counts[state]} {state.value.lower()}" for state in _SHOWN if report.counts.get(state)]
        done = report.counts.get(JobState.SUCCEEDED, 0)
        line = ", ".join([f"{report.id}: {done}/{report.expected} succeeded", *counts])
        if line != self._last:
            self._last = line
            print(line, file=sys.stderr)  # noqa: T201 - what the caller asked for


class _ChosenChanges(NamedTuple):
    """The changes that a restart takes, if any, notes on them, and a warning if it leaves some."""

    taken: RunComparison | None = None
    notes: tuple[str, ...] = ()
    warning: str = ""


def _choose_changes(opened: OpenRun, *, with_changes: bool | None) -> _ChosenChanges:
    """Choose what a restart takes of the changes since its run was made, as `Run.restart` documents."""
    if with_changes is False:
        return _ChosenChanges()
    comparison = compare_sources(opened)
    if takes_changes(opened, comparison, is_wanted=bool(with_changes)):
        return _ChosenChanges(comparison, tuple(change_lines(comparison)))
    if not comparison.differs:
        return _ChosenChanges(notes=tuple(unchanged_notes(comparison)))
    changed = "; ".join(change_lines(comparison))
    return _ChosenChanges(
        warning=f"what run '{opened.card.id}' was made from has changed, and it runs as it was: {changed}. "
        "with_changes=True takes the changes; with_changes=False runs it as it was, without this warning."
    )


def _selection(jobs: Names, labels: Names) -> JobSelection:
    return JobSelection(jobs=_names(jobs), labels=_names(labels))


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
