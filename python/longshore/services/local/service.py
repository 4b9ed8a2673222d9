"""Local service: keepers as executor of the engine, and this machine's resources as its pool."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from longshore.contract.batch import (
    Accepted,
    AttemptLimits,
    Batch,
    BatchMember,
    FindResult,
    Limits,
    PollResult,
    Rejected,
    SubmitResult,
    Throttled,
)
from longshore.contract.context import Context, Mark, PingReport, Problem, RenderedFile, RunPaths, Site, Unreachable
from longshore.contract.executor import Executor, HostBound, NewsWait, ProcessCleanup, ResourceProbe
from longshore.contract.intervention import CancelOutcome
from longshore.contract.service import ServiceTraits
from longshore.engine.keeper.protocol import LimitsOrder, MemberOrder
from longshore.engine.run.service import EngineService
from longshore.engine.schedule.concurrency_limits import find_missing_limits
from longshore.plan.allotted_resources import GPU_RESOURCES, GPU_VARIABLES
from longshore.plan.ignored_requests import ignored_requests
from longshore.plan.job_commands import command_argv
from longshore.services.local import render
from longshore.services.local.client import LocalClient
from longshore.services.local.gpus import members_of
from longshore.services.local.keeper_file import left_elsewhere
from longshore.services.local.keeper_records import PASSING
from longshore.world.host import host_name, physical_memory, usable_cpus
from longshore.world.processes.detach import choose_detach_method
from longshore.world.runs.registry import state_folder

if TYPE_CHECKING:
    from longshore.model.workflow.request import Request
    from longshore.model.workflow.workflow import Workflow


_LOOK_AHEAD_S: Final = 0.05
"""Seconds a short job may be queued at the keeper ahead of its slot, which saves waiting for the engine."""
_WAIT_S: Final = 5.0
"""Pause after a temporary failure, in seconds."""


class LocalExecutor(Executor, ResourceProbe, NewsWait, ProcessCleanup, HostBound):
    """Starts jobs on this machine through a keeper.

    `settings` has these keys: ``pool``, the amount or the members of each configured resource; ``limits`` of the site,
    where only ``max_active`` has an effect here; ``signals`` and ``grace_s``, the signals sent to a job beyond its
    limits, and the seconds before the next signal and before the kill; ``inherit`` and ``scratch``, see `LocalClient`.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self.limits = Limits(
            max_batch=1, max_active=settings.get("limits", {}).get("max_active"), look_ahead_s=_LOOK_AHEAD_S
        )
        # Where the pool names GPUs, a job that requests none sees none.
        self._hidden = GPU_VARIABLES if any(name in settings.get("pool", {}) for name in GPU_RESOURCES) else ()
        self._client: LocalClient | None = None
        self._run: RunPaths | None = None
        self._polls = 0

    def open(self, run: RunPaths, life: int) -> None:
        """Find the keepers of earlier lives."""
        self._run = run
        self._client = LocalClient(
            run, life, rule=self._settings.get("inherit", "all"), scratch=self._settings.get("scratch")
        )

    def script(self, batch: Batch, ctx: Context) -> RenderedFile | None:
        """Return nothing: the keeper takes its commands on a pipe."""
        return None

    def submit(self, batch: Batch) -> SubmitResult:
        """Order the keeper to start the batch."""
        client, run = self._opened()
        root = str(run.root)
        try:
            members = [self._order_of(member, client, root) for member in batch.members]
            client.start(batch.tag, members, lane=batch.lane, slots=batch.slots)
        except OSError as error:
            why = f"the keeper cannot be started: {error.strerror or error}"
            # A temporary failure is waited for, and costs no attempt.
            return Throttled(why, _WAIT_S) if error.errno in PASSING else Rejected(why)
        return Accepted(batch.tag)

    def _limits_of(self, limits: AttemptLimits) -> LimitsOrder:
        """Convert limits to the keeper's format."""
        order: LimitsOrder = {
            "tmp": limits.keep_tmp.value,
            "sig": self._settings.get("signals", [signal.SIGTERM]),
            "grace": self._settings.get("grace_s", 10.0),
        }
        if limits.memory_b is not None:
            order["mem"] = limits.memory_b
        if limits.asked_b is not None:
            order["asked"] = limits.asked_b
        if limits.walltime_s is not None:
            order["wall"] = limits.walltime_s
        if limits.log_b is not None:
            order["log"] = limits.log_b
        return order

    def _order_of(self, member: BatchMember, client: LocalClient, root: str) -> MemberOrder:
        """Build the keeper's command for an attempt, with only the variables that are not shared."""
        shared = member.shared
        own = {name: value for name, value in member.environment.items() if shared.get(name) != value}
        own |= {name: "" for name in self._hidden if name not in member.environment}
        order: MemberOrder = {
            "j": member.job,
            "a": member.attempt,
            "argv": command_argv(member.command),
            "e": client.environment(shared) if shared else 0,
            "v": own | client.marks(member.job, member.attempt),
            "cwd": member.working_directory,
            "log": f"{root}/{member.log}",
        }
        if member.limits:
            order["lim"] = self._limits_of(member.limits)
        return order

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Return which members reached a keeper."""
        try:
            taken = self._opened()[0].find(tags)
        except OSError as error:
            return Unreachable(why=_unread(error))
        if taken is None:
            return Unreachable(why="a keeper of an earlier engine does not come to the end of its orders")
        return FindResult(taken)

    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Return the keepers' new records; the first call of a life returns all records."""
        self._polls += 1
        client = self._opened()[0]
        try:
            events, never = client.poll()
        except OSError as error:
            return Unreachable(why=_unread(error))
        again, client.again = frozenset(client.again), set()
        busy = Throttled(client.busy, _WAIT_S) if again else None
        return PollResult(events=events, never_started=never, mark=str(self._polls), recheck=again, busy=busy)

    def cancel(self, attempts: Iterable[tuple[int, int]], *, grace_s: float) -> CancelOutcome:
        """Ask the attempts' process groups to end; `poll` kills them when the grace is over."""
        return CancelOutcome(ended=self._opened()[0].end(attempts, grace_s=grace_s))

    def unseen_processes(self, run: RunPaths) -> str:
        """Return the host on which a keeper may still live, and how many jobs it may still run."""
        return left_elsewhere(run.keeper)

    def end_leftovers(self) -> CancelOutcome:
        """Kill leftover processes of the run's jobs."""
        return CancelOutcome(ended=len(self._opened()[0].sweep()))

    def probe(self) -> PingReport:
        """Return this machine's resources."""
        pool = self._settings.get("pool") or {}
        identities = members_of(pool, os.environ)
        capacity = capacity_of(pool, identities)
        details = {name: _amount(name, amount) for name, amount in capacity.items()}
        details |= {name: f"{len(these)} ({', '.join(these)})" for name, these in identities.items() if these}
        details |= {"host": host_name(), "state": str(state_folder()), "engine": choose_detach_method().description}
        return PingReport(
            service="local",
            ok=True,
            message="this machine takes jobs",
            details=details,
            capacity=capacity,
            identities=identities,
        )

    def wait(self, timeout_s: float) -> None:
        """Return when the keeper has news."""
        self._opened()[0].wait(timeout_s)

    def close(self) -> None:
        """Disconnect from the keeper."""
        if self._client:
            self._client.close()

    def _opened(self) -> tuple[LocalClient, RunPaths]:
        if self._client is None or self._run is None:
            raise RuntimeError("open() comes before anything else")
        return self._client, self._run


def _unread(error: OSError) -> str:
    return f"what keepers wrote cannot be read: {error.strerror or error}"


class LocalService(EngineService):
    """This machine as a workload manager."""

    name: ClassVar[str] = "local"
    traits: ClassVar[ServiceTraits] = ServiceTraits(runs_on_submit_host=True)

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return the executor."""
        return LocalExecutor(settings)

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the requests that this machine can never grant."""
        capacity = ctx.probe.capacity if ctx.probe else None
        problems = [
            *_unused(ctx.site),
            *ignored_requests(workflow, _UNHEEDED, "the local service"),
            *find_missing_limits(workflow, ctx.settings),
        ]
        if capacity is None:
            return problems
        problems += _uncounted(workflow, capacity)
        judged: set[int] = set()
        for job in workflow:
            # Jobs of one profile share their settings, so one check covers them.
            if id(job.settings) not in judged:
                judged.add(id(job.settings))
                problems += _misfits(f"job '{job.name}'", job.settings.request.amounts(), capacity, job=job.name)
        return problems

    def request_problems(self, request: Request, source: str, settings: Mapping[str, Any]) -> Iterator[Problem]:
        """Return the parts of a request that this machine can never grant."""
        capacity = LocalExecutor(settings).probe().capacity or {}
        hint = "Ask for no more than the run has: what 'resources' said when it was submitted, else this machine."
        for problem in _misfits(f"'{source}'", request.amounts(), capacity):
            yield msgspec.structs.replace(problem, hint=hint)

    def render_extra(self, workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
        """Return the table of jobs and the program that runs one of them."""
        return render.by_hand(workflow, ctx)


_UNHEEDED: Final = (
    "queue",
    "accountingGroup",
    "accountingUser",
    "mailTo",
    "whenToMail",
    "abortReturnValue",
)
"""Settings of a job that this service does not support."""


def _uncounted(workflow: Workflow, capacity: Mapping[str, int]) -> Iterator[Problem]:
    """Warn of requested resources without a configured amount: every job gets them."""
    settings = (job.settings for job in workflow)
    if "disk" not in capacity and any(each.request.disk_b and "requestDisk" not in each.defaulted for each in settings):
        yield Problem(
            message="the local service takes no notice of 'requestDisk' unless 'resources: {disk: ...}' says how much "
            "there is",
            fatal=False,
        )


_UNUSED: Final = ("partitions", "qos", "directives", "container")
"""Settings of a site that have no meaning on a single machine."""


def _unused(site: Site) -> Iterator[Problem]:
    """Note the site's settings without effect, for its operator."""
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


def capacity_of(pool: Mapping[str, int | Iterable[str]], identities: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the amounts jobs may use at once: as configured, else this machine's processors, memory and GPUs."""
    named = {name: there for name, there in pool.items() if isinstance(there, int)}
    members = {name: len(these) for name, these in identities.items()}
    return {"cpus": usable_cpus(), "memory": physical_memory()} | named | members


def _misfits(
    who: str, amounts: Mapping[str, int], capacity: Mapping[str, int], *, job: str | None = None
) -> Iterator[Problem]:
    for name, amount in amounts.items():
        if name not in capacity:
            if name != "disk":
                yield Problem(
                    message=f"{who} asks for {amount} of '{name}', which this machine does not count",
                    job=job,
                    key=f"requestResources.{name}",
                    hint=f"Say how much there is: resources: {{{name}: {amount}}}, or correct the name.",
                )
        elif amount > capacity[name]:
            asked, there = _amount(name, amount), _amount(name, capacity[name])
            yield Problem(
                message=f"{who} asks for {asked} of '{name}', and there are only {there}",
                job=job,
                key=_KEYS.get(name, f"requestResources.{name}"),
                hint=f"Ask for less, or, if the machine does have it, say so with resources: {{{name}: ...}}.",
            )


def _amount(name: str, amount: int) -> str:
    return f"{amount / 2**20:.0f} MiB" if name in {"memory", "disk"} else str(amount)
