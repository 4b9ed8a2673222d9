"""Service: four methods, and one source of a run's events or of its present state.

A service renders a workflow to files, submits the run, and reports its events. `longshore.contract.capabilities` has
further abilities. A service for a workload manager that knows only single jobs derives from
`longshore.engine.run.engine_service.EngineService`, and implements an `longshore.contract.executor.Executor`.
`longshore.testing.conformance` tests all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from longshore.contract.context import Context, Mark, PingReport, Problem, RenderedFile, RunPaths, Unreachable
from longshore.model.run.event import Event
from longshore.model.run.states import Cause, JobState
from longshore.model.run.submission import Submission

if TYPE_CHECKING:
    # The workflow brings networkx along; commands that only look at a run do without.
    from longshore.model.workflow.workflow import Workflow


class ServiceTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a service that the core uses.

    Attributes
    ----------
    runs_on_submit_host
        Whether jobs run on the host that submits them, so that programs and inputs can be checked beforehand.
    transfers_files
        Whether the service copies files of the workflow that are marked for transfer to jobs, and back.
    settings_key
        Key of a map in the configuration that only this service reads; labels and jobs can have one too. A job's is in
        `longshore.model.workflow.job.JobSettings.service_settings`. Empty for a service without one.
    raw_option_keys
        Keys of raw options for the workload manager, in all spellings; stored with the map.
    job_keys
        Keys of single values for jobs that only this service reads; stored with the map.
    job_maps
        Dotted keys of further maps for jobs; stored with the map, each under its key.
    run_keys
        Keys for the whole run that only this service reads. `Context.settings` has their values under ``run``.
    user_hold_codes
        Codes of holds that a user ordered, as in ``set["code"]`` of the event; a job that is held for another reason
        counts as failed.
    has_pilots
        Whether jobs with the attribute ``packing: pilot`` run in pilots.
    required_variables
        Environment variables that jobs always inherit, because programs of the workload manager need them.
    final_job_survives_cancel
        Whether the final job of a cancelled run runs, unless the user skips it.
    """

    runs_on_submit_host: bool = False
    transfers_files: bool = False
    settings_key: str = ""
    has_pilots: bool = False
    raw_option_keys: tuple[str, ...] = ("directives",)
    job_keys: tuple[str, ...] = ()
    job_maps: tuple[str, ...] = ()
    run_keys: tuple[str, ...] = ()
    user_hold_codes: frozenset[int] = frozenset()
    required_variables: frozenset[str] = frozenset()
    final_job_survives_cancel: bool = True


class WmsService(ABC):
    """A workload manager. A subclass is also an `EventSource` or a `ReportSource`."""

    name: ClassVar[str]
    """Short name in lower case, as in ``wmsServiceClass: local``."""
    traits: ClassVar[ServiceTraits] = ServiceTraits()

    @abstractmethod
    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return what the workload manager cannot do for a workflow. Pure; nothing is written yet.

        Parameters
        ----------
        workflow
            The jobs and their order.
        ctx
            Settings, site and the answer of `ping`.
        """

    @abstractmethod
    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        """Return the files of the run, usually below ``wms/``. Pure: the same input gives the same text.

        Parameters
        ----------
        workflow
            The jobs and their order. May be large: files are rendered when they are written.
        ctx
            As for `check`; `Context.run_token` tells the run from all others.
        """

    @abstractmethod
    def submit(self, run: RunPaths) -> Submission:
        """Submit a prepared run. Called once per run.

        Raises
        ------
        SubmissionRefusedError
            It was not taken; nothing is left running.
        UnreachableError
            The workload manager does not answer; nothing is left running.
        SubmissionUncertainError
            It may have been taken.
        """

    @abstractmethod
    def ping(self, ctx: Context) -> PingReport:
        """Return whether the workload manager can be used, and what it has. Submits nothing; takes seconds at most."""


class StaleMarkError(Exception):
    """The mark is invalid: discard what was read, and read from the beginning."""


class EventSource(ABC):
    """Service that knows the events of a run, in order."""

    @abstractmethod
    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return the events after a mark, and the mark to continue from.

        Parameters
        ----------
        run
            The run directory; jobs are meant by their index in ``workflow.jsonl``.
        mark
            What the last call returned; empty for all events.

        Raises
        ------
        StaleMarkError
            The events up to that mark are no longer as they were. Never raised for an empty mark.
        """


class JobStatus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """State of one job.

    Attributes
    ----------
    name
        Name of the job. A name that the run does not have is ignored.
    state
        Its state. UNREADY and READY mean the same here: the core knows the order of jobs.
    attempt
        Number of the newest attempt, from 1.
    exit, signal
        How the newest attempt ended; ``None`` if that is unknown or it did not end.
    cause, reason
        Why it failed or is held, where more is known than exit code and signal.
    wms_id
        Id of the newest attempt at the workload manager, for users.
    host
        Where it runs or ran.
    start, end
        When it started and ended, in seconds since the epoch.
    peak_memory_b
        Most memory it used, in bytes.
    """

    name: str
    state: JobState
    attempt: int = 1
    exit: int | None = None
    signal: int | None = None
    cause: Cause | None = None
    reason: str | None = None
    wms_id: str = ""
    host: str | None = None
    start: float | None = None
    end: float | None = None
    peak_memory_b: int | None = None


class StatusReport(msgspec.Struct, frozen=True, kw_only=True):
    """State of a run at one moment.

    Attributes
    ----------
    state
        State of the run. SUCCEEDED, FAILED and DELETED mean that it is over.
    jobs
        The jobs the workload manager knows; the others have not been submitted.
    counts
        Number of jobs per label and state, from a workload manager that does not name jobs. A label that is given
        here must not have jobs in `jobs`.
    """

    state: JobState
    jobs: Sequence[JobStatus] = ()
    counts: Mapping[str, Mapping[JobState, int]] = msgspec.field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether no job of the run can change any more."""
        return self.state in (JobState.SUCCEEDED, JobState.FAILED, JobState.DELETED)


class ReportSource(ABC):
    """Service that knows only the present state of a run. The core derives events from successive reports."""

    @abstractmethod
    def report(self, run: RunPaths) -> StatusReport | Unreachable:
        """Return the present state of the run and its jobs.

        Parameters
        ----------
        run
            The run directory; ``run.json`` has the id that `WmsService.submit` returned.
        """
