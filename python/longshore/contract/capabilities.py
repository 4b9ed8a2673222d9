"""Capabilities of services beyond their core: cancel, restart, steer, query, logs, ... One small class each.

A service that has a capability derives from its class. A command that needs a missing capability says so; where
possible, the core does without. `longshore.testing.conformance` has a test class for each.
The reason is in decision 0056.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from longshore.contract.service import (
    CancelOutcome,
    Context,
    Intervention,
    Inventory,
    JobSelection,
    Mark,
    Problem,
    RemoteRuns,
    RestartChanges,
    RunPaths,
    RunSearch,
    Unreachable,
    WmsService,
)
from longshore.errors import SubmissionRefusedError
from longshore.model.event import BriefEvent
from longshore.model.submission import Submission

if TYPE_CHECKING:
    from longshore.model.workflow import Allocation, Job, JobSettings, Workflow


class Cancellable(ABC):
    """Ends runs (``longshore cancel``)."""

    takes_pass_thru: bool = False
    """Whether `JobSelection.pass_thru` has an effect."""

    @abstractmethod
    def cancel(self, run: RunPaths, selection: JobSelection) -> CancelOutcome:
        """End jobs. A second call, or one for a run that is over, is no error.

        Raises
        ------
        SubmissionRefusedError
            The workload manager cannot end these jobs alone.
        """


class Restartable(ABC):
    """Restarts runs: runs the jobs that did not succeed (``longshore restart``)."""

    @abstractmethod
    def restart(self, run: RunPaths, changes: RestartChanges) -> Submission:
        """Submit the jobs that did not succeed, and those that the changes name.

        Raises
        ------
        SubmissionRefusedError
            The run is alive, has nothing left to do, or the workload manager cannot make these changes.
        """


class Amendable(ABC):
    """Restarts runs with a changed workflow (``longshore restart --with-changes``).

    The new workflow, and all that the service rendered for it, is in the folder of the submission; see
    `longshore.rundir.submissions.submission_paths`.
    """

    @abstractmethod
    def why_not_amended(self, run: RunPaths) -> str:
        """Return why this run cannot have another workflow, as a sentence without its end; empty if it can."""

    def why_not_reused(self, ctx: Context) -> str:
        """Return why a run cannot begin with results of another (``longshore submit --reuse``); empty if it can."""
        return ""


class Resumable(ABC):
    """Continues runs whose controller died (``longshore resume``)."""

    @abstractmethod
    def resume(self, run: RunPaths, *, take_over: bool = False, force: bool = False) -> Submission | None:
        """Start another controller; return ``None`` where the run is over.

        Parameters
        ----------
        run
            The run directory.
        take_over
            Even from a controller that seems alive: the user says that it, or its host, is gone.
        force
            Even after several controllers in a row that achieved nothing.

        Raises
        ------
        SubmissionRefusedError
            Its controller is alive.
        """


class LivenessProbe(ABC):
    """Knows whether a run is live. Without it, a run is live until its events say that it is over."""

    @abstractmethod
    def is_alive(self, run: RunPaths) -> bool | Unreachable:
        """Return whether a controller of the run lives, or the workload manager has jobs of it. Called often."""


class Steerable(ABC):
    """Takes interventions (``longshore hold``, ``release``, ``pause``, ``unpause``, ``throttle`` and ``set``)."""

    @abstractmethod
    def steer(self, run: RunPaths, intervention: Intervention) -> bool:
        """Order an intervention; return whether it is in effect already.

        Raises
        ------
        SubmissionRefusedError
            The workload manager cannot do that, or the run is over.
        """

    def unreached_notes(self, run: RunPaths, intervention: Intervention) -> tuple[str, ...]:
        """Return a note on jobs that an intervention selected and did not reach. By default it reaches all."""
        return ()


class Recoverable(ABC):
    """Finds submissions that arrived, but were not recorded because their process was killed."""

    @abstractmethod
    def recover(self, run: RunPaths) -> Submission | None:
        """Return the newest submission, if it arrived and ``run.json`` does not have it.

        Raises
        ------
        UnreachableError
            The workload manager does not answer.
        """


class Queryable(ABC):
    """Knows runs by its own ids, on any host: finds, reports and cancels them."""

    @abstractmethod
    def find_run(self, reference: str, *, everywhere: bool = False) -> Path | None:
        """Return the directory of a run, if it is on this host; ``None`` where the workload manager knows none.

        Parameters
        ----------
        reference
            An id of the workload manager.
        everywhere
            Whether all of its queues are searched, or only that of this host.

        Raises
        ------
        ServiceError
            The workload manager cannot be asked.
        """

    @abstractmethod
    def query_runs(self, search: RunSearch) -> RemoteRuns:
        """Return reports of runs, as the workload manager knows them.

        Raises
        ------
        ServiceError
            The workload manager cannot be asked.
        """

    @abstractmethod
    def cancel_remote(self, search: RunSearch) -> CancelOutcome:
        """End the run that a search names by its reference; `RunSearch.pass_thru` is that of ``longshore cancel``.

        Raises
        ------
        SubmissionRefusedError
            Nothing is ended.
        """


class RunMirroring(ABC):
    """Reads run directories that other tools made for its workload manager.

    A mirror is a run directory as Longshore's own, in the state folder of the user; see
    `longshore.rundir.run_directory`. The directory itself is never written to, except by a restart.
    """

    @abstractmethod
    def mirror_run(self, folder: Path) -> RunPaths | None:
        """Return the mirror of a directory, up to date; ``None`` if no tool that is known made the directory.

        Raises
        ------
        RunUnreadableError
            Its files cannot be read.
        FilesError
            The mirror cannot be written.
        """


class BriefEvents(ABC):
    """Returns brief events, for readers that need only the resulting state and the newest attempts."""

    @abstractmethod
    def brief_events(
        self, run: RunPaths, mark: Mark = "", *, with_attempts: bool = False
    ) -> tuple[Iterator[BriefEvent], Mark] | Unreachable:
        """Like `EventSource.events`, but an attempt that succeeded may be one event. Marks of its own.

        The order of the events of a job is kept, and that of all ends. With `with_attempts`, an event of a whole
        attempt has a host.

        Raises
        ------
        StaleMarkError
            As for `EventSource.events`.
        """


class PartialJournal(ABC):
    """Has a journal that lacks events at times. Without it, readers may read the journal instead of `events`."""

    @abstractmethod
    def journal_is_complete(self, run: RunPaths) -> bool:
        """Return whether the journal now has all events."""


class JobProbe(ABC):
    """Checks jobs by what the workload manager answers now: names that it does not have, limits that are smaller.

    Called before each submission, also of a run that was prepared earlier, and given a few seconds. `ping` and `site
    check` call it with the job that has no settings but those of the site.
    """

    @abstractmethod
    def probe_jobs(self, jobs: Iterable[Job], ctx: Context) -> Sequence[Problem]:
        """Return what the workload manager does not have for these jobs.

        Parameters
        ----------
        jobs
            At least one job of each kind.
        ctx
            Settings and site, with the answer of `ping`.
        """


class SiteAccess(ABC):
    """Knows how its programs find the cluster from this host, for a new profile of a site."""

    @abstractmethod
    def site_access(self, inventory: Inventory | None = None) -> Mapping[str, Any]:
        """Return the service's own map of such a profile; empty where nothing is needed.

        Parameters
        ----------
        inventory
            What the cluster has; ``None`` before it was asked.
        """


class LogLocator(ABC):
    """Locator of the logs of a run."""

    @abstractmethod
    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        """Return the path of an attempt's log, relative to the run directory."""

    def paths(self, attempts: Iterable[tuple[int, str, str, int]]) -> list[str]:
        """Return the paths of the logs of some attempts, each with the arguments of `path`.

        For services of which a report with each job of a large run needs hundreds of thousands.
        """
        return list(starmap(self.path, attempts))

    @abstractmethod
    def attempts(self, index: int) -> int:
        """Return the number of a job's newest attempt; 0 before the first."""


class LogLocating(ABC):
    """Has its own names of logs. Without it, logs are at `RunPaths.log_of`."""

    @abstractmethod
    def log_locator(self, run: RunPaths) -> LogLocator | None:
        """Return the locator of logs; ``None`` if this run has them at `RunPaths.log_of`."""


class LogDirectories(ABC):
    """Needs directories of logs that exist before jobs start."""

    @abstractmethod
    def log_directories(self, workflow: Workflow) -> Iterable[str]:
        """Return directories to make, relative to the run directory. Pure."""


class StatusLines(ABC):
    """Has facts on the controller of a run that ``longshore report`` shows."""

    @abstractmethod
    def status_lines(self, run: RunPaths) -> tuple[str, ...]:
        """Return these facts, a line each."""


class HoldRules(ABC):
    """Holds jobs by itself, and releases them or gives them up by rules."""

    @abstractmethod
    def releases_holds(self, run: RunPaths) -> bool:
        """Return whether a job is held that a rule will release: ``--wait`` then goes on."""


class NoticeHost(ABC):
    """Starts the notifier of its runs itself, beside what drives them; see ``notify`` in the configuration.

    Of a service without this, the command that submits a run starts the notifier, on its own host.
    """

    @abstractmethod
    def hosts_notices(self, run: RunPaths) -> bool:
        """Return whether the service starts the notifier of this run."""


class LauncherLine(ABC):
    """Starts the command of a job with a program of its own, such as ``srun``."""

    @abstractmethod
    def launcher_line(self, settings: Mapping[str, Any]) -> str:
        """Return a line of shell to put in front of each command; empty for none. Pure.

        Parameters
        ----------
        settings
            `longshore.model.workflow.JobSettings.service_settings` of the job.

        Raises
        ------
        ConfigError
            The settings are wrong.
        """


class BackendOptions(ABC):
    """Takes options of the workload manager as one string (``backendOptions``)."""

    @abstractmethod
    def backend_options(self, text: str) -> Mapping[str, Any]:
        """Return the keys and values of a configuration that the options stand for. Pure.

        Raises
        ------
        ConfigError
            An option is unknown.
        OptionHelpRequest
            The text asks which options there are.
        """


class OwnJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that a service submits for a run beside the jobs of its workflow, such as a pilot.

    Attributes
    ----------
    name
        What it is, for messages.
    section
        Path of the map of the configuration that describes it, with dots; its keys are those of the job.
    components
        What each component of it asks for.
    """

    name: str
    section: str
    components: Sequence[Allocation]


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Two settings of one job that cannot both hold.

    Each is the path of a key below the job's settings for its service, such as ``cpu`` or ``directives.1``. `why` tells
    what is wrong, in words that follow the two.
    """

    first: str
    second: str
    why: str


def differing_values(given: Iterable[tuple[str, str, str]]) -> Iterator[Contradiction]:
    """Yield what says different things of one option in two places of a job's settings.

    `given` has the path of each setting, its option and its value. Lines of one list may differ, as the last holds.
    """
    first: dict[str, tuple[str, str]] = {}
    for path, option, value in given:
        before, said = first.setdefault(option, (path, value))
        if said != value and before.rpartition(".")[0] != path.rpartition(".")[0]:
            yield Contradiction(first=before, second=path, why=f"say different things of '{option}'")


class AllocationReader(ABC):
    """Counts requests that jobs write in the workload manager's own words, for the limits of a site."""

    @abstractmethod
    def allocations(self, job: JobSettings, settings: Mapping[str, Any]) -> Sequence[Allocation]:
        """Return what each component of a job asks for; nearly all jobs have one component. Pure.

        Parameters
        ----------
        job
            The job's settings, with its request and its own map.
        settings
            The executor's settings: those of the run and its site.
        """

    def own_jobs(self, settings: Mapping[str, Any]) -> Iterator[OwnJob]:
        """Return what the service submits for a run beside its jobs, by the executor's settings. Pure.

        By default, it submits nothing of its own.
        """
        return iter(())

    def contradictions(self, job: JobSettings, settings: Mapping[str, Any]) -> Iterator[Contradiction]:
        """Return the settings of a job that cannot both hold, beside those that `check` finds. Pure.

        By default, there are none. The parameters are those of `allocations`.
        """
        return iter(())


LOAD_NAMES: Final = frozenset({"cpus_total", "cpus_free", "cpus_waiting", "nodes_total", "nodes_free"})
"""What a workload manager may report of its load."""


class LoadReporter(ABC):
    """Knows how busy the workload manager is, for the choice of a site."""

    @abstractmethod
    def query_load(self, ctx: Context) -> Mapping[str, float]:
        """Return the known values of `LOAD_NAMES`.

        Parameters
        ----------
        ctx
            Settings of the site.

        Raises
        ------
        ServiceError
            The workload manager cannot be asked.
        """


# Calls of optional capabilities, with a default for each; other defaults are where they are needed.

Capability = TypeVar("Capability")


def require_capability(service: WmsService, capability: type[Capability], what: str) -> Capability:
    """Return the service as a capability; `what` is its use for the error message, such as ``restart runs``.

    Raises
    ------
    SubmissionRefusedError
        The service lacks the capability.
    """
    if isinstance(service, capability):
        return service
    raise SubmissionRefusedError(f"the service '{service.name}' cannot {what}")


def recovered_submission(service: WmsService, run: RunPaths) -> Submission | None:
    """Return a submission that arrived and was not recorded; see `Recoverable.recover`."""
    return service.recover(run) if isinstance(service, Recoverable) else None


def journal_is_complete(service: WmsService, run: RunPaths) -> bool:
    """Return whether readers may read the journal instead of asking the service for events."""
    return service.journal_is_complete(run) if isinstance(service, PartialJournal) else True


def log_locator(service: WmsService, run: RunPaths) -> LogLocator | None:
    """Return the locator of a run's logs; ``None`` if they are at `RunPaths.log_of`."""
    return service.log_locator(run) if isinstance(service, LogLocating) else None


def log_directories(service: WmsService, workflow: Workflow) -> Iterable[str]:
    """Return directories that must exist before jobs write to them."""
    return service.log_directories(workflow) if isinstance(service, LogDirectories) else ()


def status_lines(service: WmsService, run: RunPaths) -> tuple[str, ...]:
    """Return facts on the controller of a run, a line each."""
    return service.status_lines(run) if isinstance(service, StatusLines) else ()


def launcher_line(service: WmsService, settings: Mapping[str, Any]) -> str:
    """Return the launcher that the service puts before the command of a job; empty for none."""
    return service.launcher_line(settings) if isinstance(service, LauncherLine) else ""
