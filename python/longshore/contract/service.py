"""What every workload manager must be able to do for Longshore.

A service renders a workflow to files without touching the world, hands the run over, and tells what became of it as the
same events for all. A service for a manager without a DAG engine of its own need only be an `Executor`:
`longshore.engine.service.EngineService` is the rest. `longshore.testing.conformance` holds either kind to this page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from longshore.contract.context import Context, PingReport, Problem, RenderedFile, RunPaths, Unreachable
from longshore.contract.executor import CancelOutcome, Mark
from longshore.contract.search import Search, Sighted
from longshore.errors import SubmissionRefusedError
from longshore.model.event import Event, News
from longshore.model.submission import Submission

if TYPE_CHECKING:
    # The workflow brings networkx along; commands that only look at a run do without.
    from longshore.model.workflow import Workflow


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs of a run are meant; nothing named means all of them.

    Attributes
    ----------
    jobs, labels
        Names.
    final_too
        Whether all of them includes the final job, which otherwise runs even after a cancellation.
    pass_thru
        Words for the workload manager, as ``--pass-thru`` has them.
    """

    jobs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    final_too: bool = False
    pass_thru: str = ""

    @property
    def everything(self) -> bool:
        """Whether the whole run is meant."""
        return not self.jobs and not self.labels


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What a restart does differently.

    Attributes
    ----------
    selection
        For which of the jobs that run again something is set.
    set
        What is set, per key.
    from_labels
        Labels whose jobs run again, with all that descends from them, even if they succeeded.
    """

    selection: Selection = Selection()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    from_labels: tuple[str, ...] = ()


class StaleMark(Exception):  # noqa: N818 - a state of affairs, not an error
    """What was told up to a mark no longer holds: ask again without one, and forget what was told."""


class Steering(msgspec.Struct, frozen=True, kw_only=True):
    """A change of course of a live run.

    Attributes
    ----------
    act
        ``pause``, ``unpause``, ``throttle``, ``hold``, ``release`` or ``set``.
    selection
        Which jobs or labels are meant.
    set
        Values: ``max`` of a throttle, ``why`` of a pause, or the keys that are set.
    """

    act: str
    selection: Selection = Selection()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)


class LogPlaces(ABC):
    """Where logs of attempts lie whose names their workload manager makes."""

    @abstractmethod
    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        """Return the path of an attempt's log, relative to the run directory."""

    @abstractmethod
    def attempts(self, index: int) -> int:
        """Return the number of a job's newest attempt; 0 before the first."""


class WmsService(ABC):
    """A workload manager."""

    name: ClassVar[str]
    """Short name, as in ``wmsServiceClass: local``."""
    runs_here: ClassVar[bool] = False
    """Whether jobs run on the host that submits them, so that their programs can be looked for beforehand."""
    carries_files: ClassVar[bool] = False
    """Whether it carries files of the workflow that are marked for transfer to its jobs, and from them."""
    own_map: ClassVar[str] = ""
    """Key of a map of its own that labels and jobs can have too, in `JobSettings.own`; empty where there is none."""
    raw_lines: ClassVar[tuple[str, ...]] = ("directives",)
    """Keys of raw lines for it, of which there may be several spellings; they go with its own map."""
    job_keys: ClassVar[tuple[str, ...]] = ()
    """Keys of single values for jobs that only this service heeds; they go with its own map."""
    job_maps: ClassVar[tuple[str, ...]] = ()
    """Keys of further maps for jobs, such as ``profile.condor``; each goes with its own map under that key."""
    run_keys: ClassVar[tuple[str, ...]] = ()
    """Keys for the run as a whole that only this service heeds: it finds their values in ``ctx.settings["run"]``."""
    always_inherited: ClassVar[frozenset[str]] = frozenset()
    """Variables that jobs inherit whatever ``inheritEnvironment`` says, because the manager's programs need them."""

    @abstractmethod
    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return what this manager cannot do for the workflow. Pure; nothing has been written yet."""

    def backend_options(self, text: str) -> Mapping[str, Any]:
        """Return the keys of a configuration that a string of options stands for; pure. Here, nothing heeds them.

        Raises
        ------
        ConfigError
            An option is not known.
        HelpWanted
            It asks which options there are.
        """
        return {}

    def journal_is_whole(self, run: RunPaths) -> bool:
        """Return whether the journal of a run, where it has one, tells all that happened; if not, `events` is asked."""
        return True

    def launcher(self, own: Mapping[str, Any]) -> str:
        """Return a line of shell that goes in front of each command, given `JobSettings.own`; pure.

        Raises
        ------
        ConfigError
            What the map says cannot be understood.
        """
        return ""

    @abstractmethod
    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        """Return the files of the run. Pure: the same input gives the same text."""

    def folders(self, workflow: Workflow) -> Iterable[str]:
        """Return folders that must be there before jobs write to them, relative to the run directory; pure.

        Here, none: an engine makes the folders of its jobs' logs.
        """
        return ()

    @abstractmethod
    def submit(self, run: RunPaths) -> Submission:
        """Hand a prepared run over.

        Raises
        ------
        SubmissionRefusedError
            It was not taken; nothing is left running.
        UnreachableError
            The manager does not answer.
        """

    def recover(self, run: RunPaths) -> Submission | None:
        """Return the newest submission of a run, where it was taken and whoever handed it over did not live to say so.

        ``None`` where there is none such: nothing was taken, and nothing is left of it, or all is written down. Here,
        always ``None``: an engine writes what it does into its journal.

        Raises
        ------
        UnreachableError
            The manager does not answer.
        """
        return None

    @abstractmethod
    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return what happened since a mark.

        Raises
        ------
        StaleMark
            What was told up to that mark no longer holds; never without a mark.
        """

    def course(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[News], Mark] | Unreachable:
        """Return the same in short, for whoever wants to know where it leaves each job and not how it came about.

        Attempts that went well may be told in a word, when they end. Of the order in which things happened, what
        matters is kept: that of the events of a job, and of all ends.

        Raises
        ------
        StaleMark
            As for `events`; the marks of one are none of the other.
        """
        return self.events(run, mark)

    @abstractmethod
    def cancel(self, run: RunPaths, selection: Selection) -> CancelOutcome:
        """End jobs. Twice is no error."""

    def steer(self, run: RunPaths, steering: Steering) -> bool:
        """Change the course of a live run; return whether that holds already, and not only once something moves it.

        Raises
        ------
        SubmissionRefusedError
            This manager cannot do that, or the run is over.
        """
        raise SubmissionRefusedError(f"the service '{self.name}' cannot {steering.act} runs")

    def not_reached(self, run: RunPaths, steering: Steering) -> tuple[str, ...]:
        """Return what to say of jobs that were meant by an order that was taken, and that it did not reach.

        Here, nothing: an order reaches all that it means.
        """
        return ()

    @abstractmethod
    def restart(self, run: RunPaths, changes: Changes) -> Submission:
        """Run again what did not succeed, and what the changes name.

        Raises
        ------
        SubmissionRefusedError
            The run is still running, or has nothing left to do.
        """

    @abstractmethod
    def resume(self, run: RunPaths, *, take_over: bool = False, force: bool = False) -> Submission | None:
        """Take a run up again whose controller died; ``None`` where there is nothing to take up.

        Parameters
        ----------
        run
            The run directory.
        take_over
            Even from a controller that seems to live, because somebody says that it, or its host, is gone.
        force
            Even after several controllers in a row achieved nothing.

        Raises
        ------
        SubmissionRefusedError
            Its controller is alive.
        """

    @abstractmethod
    def alive(self, run: RunPaths) -> bool | Unreachable:
        """Return whether something still moves the run: an engine, or the manager itself."""

    def lets_go(self, run: RunPaths) -> bool:
        """Return whether jobs that are held are let go of, or given up, by rules of their own. Here, people do that."""
        return False

    def find(self, reference: str, *, everywhere: bool = False) -> Path | None:
        """Return the directory of a run that this manager knows by an id of its own; ``None`` where it knows none.

        Parameters
        ----------
        reference
            The id.
        everywhere
            Whether all of its queues are searched, or only that which is used from here.

        Raises
        ------
        ServiceError
            It cannot be asked.
        """
        return None

    def sight(self, search: Search) -> Sighted:
        """Return what the manager itself tells of runs, wherever their directories are. Here, it knows of none.

        Raises
        ------
        ServiceError
            It cannot be asked.
        """
        return Sighted()

    def cancel_sighted(self, search: Search, *, forced: bool) -> int:
        """End a run of which only the manager knows; return how many jobs obeyed.

        Parameters
        ----------
        search
            Which; it has a reference.
        forced
            Whether the manager is to forget jobs that it cannot reach.

        Raises
        ------
        SubmissionRefusedError
            Nothing is ended.
        """
        raise SubmissionRefusedError(f"the service '{self.name}' knows no runs but those whose directories are here")

    def log_places(self, run: RunPaths) -> LogPlaces | None:
        """Return where logs of attempts lie; ``None`` where that is as `RunPaths.log_of` has it."""
        return None

    def about(self, run: RunPaths) -> tuple[str, ...]:
        """Return what there is to say of whoever drives the run, a line each; nothing where that is an engine."""
        return ()

    @abstractmethod
    def ping(self, ctx: Context) -> PingReport:
        """Return whether the manager can be used."""
