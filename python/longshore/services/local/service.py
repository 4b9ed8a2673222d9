"""The local service: keepers for the engine, this machine's resources as its pool."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from longshore.contract.context import Context, PingReport, Problem, RenderedFile, RunPaths, Site, Unreachable
from longshore.contract.executor import (
    Accepted,
    Batch,
    CancelOutcome,
    Executor,
    Found,
    Limits,
    Mark,
    Polled,
    Refused,
    SubmitAnswer,
    Throttled,
)
from longshore.engine.service import EngineService
from longshore.plan.commands import argv_of
from longshore.services.local import render
from longshore.services.local.client import LocalClient
from longshore.world.detach import how_to_detach
from longshore.world.host import host_name, physical_memory, usable_cpus
from longshore.world.registry import state_folder

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow


_PASSING: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EIO}
)
"""Errors of a full disk, an exhausted machine, expired credentials: conditions, not faults."""
_WAIT_S: Final = 5.0
"""Pause after one of them, in seconds."""


class LocalExecutor(Executor):
    """Starts jobs on this machine through a keeper.

    Parameters
    ----------
    settings
        ``pool``: amount per resource, where the configuration names any; ``limits``: those of the site, of which only
        ``max_active`` means something here; ``inherit`` and ``scratch``: see `LocalClient`.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self.limits = Limits(max_batch=1, max_active=settings.get("limits", {}).get("max_active"))
        self._client: LocalClient | None = None
        self._run: RunPaths | None = None
        self._polls = 0

    def open(self, run: RunPaths, life: int) -> None:
        """Look for the keepers of earlier lives."""
        self._run = run
        self._client = LocalClient(
            run, life, rule=self._settings.get("inherit", "all"), scratch=self._settings.get("scratch")
        )

    def script(self, batch: Batch, ctx: Context) -> RenderedFile | None:
        """Return nothing: the keeper takes its orders on a pipe."""
        return None

    def submit(self, batch: Batch) -> SubmitAnswer:
        """Order the keeper to start the batch."""
        client, run = self._opened()
        members = [
            {
                "j": member.job,
                "a": member.attempt,
                "argv": argv_of(member.command),
                "e": 0,
                "v": {**member.environment, **client.marks(member.job, member.attempt)},
                "cwd": member.working_directory,
                "log": str(run.root / member.log),
            }
            for member in batch.members
        ]
        try:
            client.start(batch.tag, members)
        except OSError as error:
            why = f"the keeper cannot be started: {error.strerror or error}"
            # What passes is waited for, and costs no attempt.
            return Throttled(why, _WAIT_S) if error.errno in _PASSING else Refused(why)
        return Accepted(batch.tag)

    def find(self, tags: Iterable[str]) -> Found | Unreachable:
        """Return which members reached a keeper."""
        taken = self._opened()[0].find(tags)
        if taken is None:
            return Unreachable(why="a keeper of an earlier engine does not come to the end of its orders")
        return Found(taken)

    def poll(self, since: Mark) -> Polled | Unreachable:
        """Return what keepers have written since the last call; the first call of a life tells all there is."""
        self._polls += 1
        events, never = self._opened()[0].poll()
        return Polled(events=events, never=never, mark=str(self._polls))

    def cancel(self, attempts: Iterable[tuple[int, int]], *, grace_s: float) -> CancelOutcome:
        """Ask the attempts' process groups to end; `poll` kills them when the grace is over."""
        return CancelOutcome(ended=self._opened()[0].end(attempts, grace_s=grace_s))

    def sweep(self) -> CancelOutcome:
        """Kill what jobs of the run left behind."""
        return CancelOutcome(ended=len(self._opened()[0].sweep()))

    def probe(self) -> PingReport:
        """Return this machine's resources."""
        capacity = capacity_of(self._settings.get("pool"))
        details = {name: _amount(name, amount) for name, amount in capacity.items()}
        details |= {"host": host_name(), "state": str(state_folder()), "engine": how_to_detach().description}
        return PingReport(
            service="local", ok=True, message="this machine takes jobs", details=details, capacity=capacity
        )

    def wait(self, timeout_s: float) -> None:
        """Return when the keeper has news."""
        self._opened()[0].wait(timeout_s)

    def close(self) -> None:
        """Let the keeper go."""
        if self._client:
            self._client.close()

    def _opened(self) -> tuple[LocalClient, RunPaths]:
        if self._client is None or self._run is None:
            raise RuntimeError("open() comes before anything else")
        return self._client, self._run


class LocalService(EngineService):
    """This machine as a workload manager."""

    name: ClassVar[str] = "local"
    runs_here: ClassVar[bool] = True

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return the executor."""
        return LocalExecutor(settings)

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the requests that this machine can never grant."""
        capacity = ctx.probe.capacity if ctx.probe else None
        problems = [*_unused(ctx.site), *_unheeded(workflow)]
        if capacity is None:
            return problems
        judged: set[int] = set()
        for job in workflow:
            # Jobs of one profile share their settings and so their fate.
            if id(job.settings) not in judged:
                judged.add(id(job.settings))
                problems += _misfits(job.name, job.settings.request.amounts(), capacity)
        return problems

    def by_hand(self, workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
        """Return the table of jobs and the program that runs one of them."""
        return render.by_hand(workflow, ctx)


_UNHEEDED: Final = (
    "queue",
    "priority",
    "category",
    "accountingGroup",
    "accountingUser",
    "mailTo",
    "whenToMail",
    "concurrencyLimit",
    "abortOnValue",
    "abortReturnValue",
    "preCmdline",
    "postCmdline",
)
"""What a job can ask for that this service does not do."""


def _unheeded(workflow: Workflow) -> Iterator[Problem]:
    """What jobs ask for in vain: a note, for their user meant something by it."""
    said: dict[str, None] = {}
    for settings in {id(job.settings): job.settings for job in workflow}.values():
        said |= dict.fromkeys(key for key in _UNHEEDED if key in settings.attributes)
        if settings.request.walltime_s is not None:
            said["requestWalltime"] = None
    if said:
        words = ", ".join(f"'{key}'" for key in said)
        yield Problem(message=f"the local service takes no notice of {words}", fatal=False)


_UNUSED: Final = ("partitions", "qos", "directives", "container")
"""What a site can say that means nothing to one machine."""


def _unused(site: Site) -> Iterator[Problem]:
    """What the site says in vain: a note, for its operator meant something by it."""
    said = [f"'{key}'" for key in _UNUSED if site.settings.get(key)]
    if (site.settings.get("setup") or {}).get("submit"):
        said.append("'setup.submit'")
    if site.settings.get("fileSystem") == "transfer":
        said.append("'fileSystem: transfer'")
    if said:
        yield Problem(
            message=f"the local service makes no use of what the site '{site.name}' says under {', '.join(said)}",
            origin=site.origin,
            fatal=False,
        )


_KEYS: Final = {"cpus": "requestCpus", "memory": "requestMemory", "disk": "requestDisk"}


def capacity_of(pool: Mapping[str, int] | None) -> dict[str, int]:
    """What jobs may take at once: what the configuration names, else this machine's processors and memory."""
    return {"cpus": usable_cpus(), "memory": physical_memory()} | dict(pool or {})


def _misfits(job: str, amounts: Mapping[str, int], capacity: Mapping[str, int]) -> Iterator[Problem]:
    for name, amount in amounts.items():
        if name not in capacity:
            if name != "disk":
                yield Problem(
                    message=f"job '{job}' asks for {amount} of '{name}', which this machine does not count",
                    job=job,
                    key=f"requestResources.{name}",
                    hint=f"Say how much there is: resources: {{{name}: {amount}}}, or correct the name.",
                )
        elif amount > capacity[name]:
            asked, there = _amount(name, amount), _amount(name, capacity[name])
            yield Problem(
                message=f"job '{job}' asks for {asked} of '{name}', and there are only {there}",
                job=job,
                key=_KEYS.get(name, f"requestResources.{name}"),
                hint=f"Ask for less, or, if the machine does have it, say so with resources: {{{name}: ...}}.",
            )


def _amount(name: str, amount: int) -> str:
    return f"{amount / 2**20:.0f} MiB" if name in {"memory", "disk"} else str(amount)
