"""What every workload manager must be able to do for Longshore.

A service renders a workflow to files without touching the world, hands the run over, and tells what became of it as the
same events for all. A service for a manager without a DAG engine of its own need only be an `Executor`:
`longshore.engine.service.EngineService` is the rest. `longshore.testing.conformance` holds either kind to this page.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar

import msgspec

from longshore.contract.context import Context, PingReport, Problem, RenderedFile, RunPaths, Unreachable
from longshore.contract.executor import CancelOutcome, Mark
from longshore.model.event import Event
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
    """

    jobs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    final_too: bool = False

    @property
    def everything(self) -> bool:
        """Whether the whole run is meant."""
        return not self.jobs and not self.labels


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What a restart does differently."""

    selection: Selection = Selection()
    set: Mapping[str, str] = msgspec.field(default_factory=dict)


class WmsService(ABC):
    """A workload manager."""

    name: ClassVar[str]
    """Short name, as in ``wmsServiceClass: local``."""
    runs_here: ClassVar[bool] = False
    """Whether jobs run on the host that submits them, so that their programs can be looked for beforehand."""

    @abstractmethod
    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return what this manager cannot do for the workflow. Pure; nothing has been written yet."""

    @abstractmethod
    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        """Return the files of the run. Pure: the same input gives the same text."""

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

    @abstractmethod
    def events(self, run: RunPaths, mark: Mark = "") -> tuple[Iterator[Event], Mark] | Unreachable:
        """Return what happened since a mark."""

    @abstractmethod
    def cancel(self, run: RunPaths, selection: Selection) -> CancelOutcome:
        """End jobs. Twice is no error."""

    @abstractmethod
    def restart(self, run: RunPaths, changes: Changes) -> Submission:
        """Run again what did not succeed.

        Raises
        ------
        SubmissionRefusedError
            The run is still running, or has nothing left to do.
        """

    @abstractmethod
    def resume(self, run: RunPaths) -> Submission | None:
        """Take a run up again whose controller died; ``None`` where there is nothing to take up.

        Raises
        ------
        SubmissionRefusedError
            Its controller is alive.
        """

    @abstractmethod
    def alive(self, run: RunPaths) -> bool | Unreachable:
        """Return whether something still moves the run: an engine, or the manager itself."""

    @abstractmethod
    def ping(self, ctx: Context) -> PingReport:
        """Return whether the manager can be used."""
