"""Local service: keepers as executor of the engine, and this machine's resources as its pool."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from longshore.contract.batch import (
    Accepted,
    Batch,
    BatchMember,
    FindResult,
    Limits,
    PollResult,
    Rejected,
    SubmitResult,
    Throttled,
)
from longshore.contract.capabilities import LoadReporter
from longshore.contract.context import Context, Mark, PingReport, Problem, RenderedFile, RunPaths, Site, Unreachable
from longshore.contract.executor import Executor, HostBound, NewsWait, ProcessCleanup, ResourceProbe
from longshore.contract.intervention import CancelOutcome
from longshore.contract.service import ServiceTraits
from longshore.engine.keeper.protocol import MemberOrder
from longshore.engine.keeper_io.keeper_records import TEMPORARY_ERRORS
from longshore.engine.keeper_io.member_orders import limits_order
from longshore.engine.run.engine_service import EngineService
from longshore.engine.schedule.concurrency_limits import find_missing_limits
from longshore.engine.staging.check_staging import check_staging
from longshore.plan.ignored_requests import ignored_requests
from longshore.plan.job_commands import command_argv
from longshore.plan.job_variables import GPU_RESOURCES, GPU_VARIABLES
from longshore.services.local import render
from longshore.services.local.gpus import named_members
from longshore.services.local.keeper_client import LocalClient
from longshore.services.local.keeper_file import keepers_elsewhere
from longshore.world.host import host_name, physical_memory, usable_cpus
from longshore.world.processes.detach import choose_detach_method
from longshore.world.runs.registry import state_folder

if TYPE_CHECKING:
    from longshore.model.workflow.request import Request
    from longshore.model.workflow.workflow import Workflow


_LOOK_AHEAD_S: Final = 0.05
"""Seconds a short job may be queued at the keeper ahead of its slot, which saves waiting for the engine."""
_RETRY_S: Final = 5.0
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
        self._hidden_variables = (
            GPU_VARIABLES if any(name in settings.get("pool", {}) for name in GPU_RESOURCES) else ()
        )
        self._client: LocalClient | None = None
        self._polls = 0

    def open(self, run: RunPaths, life: int) -> None:
        """Find the keepers of earlier lives."""
        self._client = LocalClient(
            run, life, rule=self._settings.get("inherit", "all"), scratch=self._settings.get("scratch")
        )

    def submit(self, batch: Batch) -> SubmitResult:
        """Order the keeper to start the batch."""
        client = self._open_client
        try:
            members = [self._member_command(member, client) for member in batch.members]
            client.start(batch.tag, members, lane=batch.lane, slots=batch.slots)
        except OSError as error:
            why = f"the keeper cannot be started: {error.strerror or error}"
            # A temporary failure is waited for, and costs no attempt.
            return Throttled(why, _RETRY_S) if error.errno in TEMPORARY_ERRORS else Rejected(why)
        return Accepted(batch.tag)

    def _member_command(self, member: BatchMember, client: LocalClient) -> MemberOrder:
        """Build the keeper's command for an attempt, with only the variables that are not shared."""
        shared = member.shared
        variables = {name: value for name, value in member.environment.items() if shared.get(name) != value}
        variables |= {name: "" for name in self._hidden_variables if name not in member.environment}
        command: MemberOrder = {
            "j": member.job,
            "a": member.attempt,
            "argv": command_argv(member.command),
            "e": client.environment(shared) if shared else 0,
            "v": variables | client.identifying_variables(member.job, member.attempt),
            "cwd": member.working_directory,
            "log": f"{client.root}/{member.log}",
        }
        if member.outputs:
            command["out"] = member.outputs
        if member.limits:
            command["lim"] = limits_order(
                member.limits,
                signals=self._settings.get("signals", [signal.SIGTERM]),
                grace_s=self._settings.get("grace_s", 10.0),
            )
        return command

    def find(self, tags: Iterable[str]) -> FindResult | Unreachable:
        """Return which members reached a keeper."""
        wanted = list(tags)
        try:
            received = self._open_client.find(wanted)
            lost = self._open_client.find_lost(wanted)
        except OSError as error:
            return Unreachable(why=_read_error(error))
        if received is None:
            return Unreachable(why=self._open_client.why_undecided)
        return FindResult(received, lost=lost)

    def poll(self, since: Mark) -> PollResult | Unreachable:
        """Return the keepers' new records; the first call of a life returns all records."""
        self._polls += 1
        client = self._open_client
        try:
            events, never_started = client.poll()
        except OSError as error:
            return Unreachable(why=_read_error(error))
        retry, client.throttled_batches = frozenset(client.throttled_batches), set()
        return PollResult(
            events=events,
            never_started=never_started,
            mark=str(self._polls),
            recheck=retry,
            busy=Throttled(client.throttle_reason, _RETRY_S) if retry else None,
        )

    def cancel(self, attempts: Iterable[tuple[int, int]], *, grace_s: float) -> CancelOutcome:
        """Ask the attempts' process groups to end; `poll` kills them when the grace is over."""
        return CancelOutcome(ended=self._open_client.end(attempts, grace_s=grace_s))

    def unseen_processes(self, run: RunPaths) -> str:
        """Return the host on which a keeper may still live, and how many jobs it may still run."""
        return keepers_elsewhere(run.keeper)

    def end_leftovers(self) -> CancelOutcome:
        """Kill leftover processes of the run's jobs."""
        return CancelOutcome(ended=len(self._open_client.kill_leftovers()))

    def probe(self) -> PingReport:
        """Return this machine's resources."""
        pool = self._settings.get("pool") or {}
        identities = named_members(pool, os.environ)
        capacity = pool_capacity(pool, identities)
        details = {name: _format_amount(name, amount) for name, amount in capacity.items()}
        details |= {name: f"{len(members)} ({', '.join(members)})" for name, members in identities.items() if members}
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
        self._open_client.wait(timeout_s)

    def close(self) -> None:
        """Disconnect from the keeper."""
        if self._client:
            self._client.close()

    @property
    def _open_client(self) -> LocalClient:
        if self._client is None:
            raise RuntimeError("the executor is not open")
        return self._client


def _read_error(error: OSError) -> str:
    return f"the keepers' records cannot be read: {error.strerror or error}"


class LocalService(EngineService, LoadReporter):
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
            *_unused_site_settings(ctx.site),
            *ignored_requests(workflow, _IGNORED_SETTINGS, "the local service"),
            *find_missing_limits(workflow, ctx.settings),
            *check_staging(workflow, ctx),
        ]
        if capacity is None:
            return problems
        problems += _unlimited_resources(workflow, capacity)
        checked_settings: set[int] = set()
        for job in workflow:
            # Jobs of one profile share their settings, so one check covers them.
            if id(job.settings) not in checked_settings:
                checked_settings.add(id(job.settings))
                problems += _oversized_requests(
                    f"job '{job.name}'", job.settings.request.amounts(), capacity, job=job.name
                )
        return problems

    def query_load(self, ctx: Context) -> Mapping[str, float]:
        """Return the processors of this machine, and those that its load of the last minute leaves."""
        cpus = usable_cpus()
        return {"cpus_total": cpus, "cpus_free": max(0.0, cpus - os.getloadavg()[0])}

    def request_problems(self, request: Request, source: str, settings: Mapping[str, Any]) -> Iterator[Problem]:
        """Return the parts of a request that this machine can never grant."""
        capacity = LocalExecutor(settings).probe().capacity or {}
        hint = "Ask for no more than the run has: 'resources' at its submission, else this machine."
        for problem in _oversized_requests(f"'{source}'", request.amounts(), capacity):
            yield msgspec.structs.replace(problem, hint=hint)

    def render_extra(self, workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
        """Return the table of jobs and the program that runs one of them."""
        return render.render_files(workflow, ctx)


_IGNORED_SETTINGS: Final = (
    "queue",
    "accountingGroup",
    "accountingUser",
    "mailTo",
    "whenToMail",
    "abortReturnValue",
    "packing",
)
"""Settings of a job that this service does not support."""


def _unlimited_resources(workflow: Workflow, capacity: Mapping[str, int]) -> Iterator[Problem]:
    """Warn of requested resources without a configured amount: every job gets them."""
    settings = (job.settings for job in workflow)
    if "disk" not in capacity and any(each.request.disk_b and "requestDisk" not in each.defaulted for each in settings):
        yield Problem(
            message="the local service ignores 'requestDisk' without 'resources: {disk: ...}', the amount to share",
            fatal=False,
        )


_UNUSED_SITE_KEYS: Final = ("partitions", "qos", "directives", "container")
"""Settings of a site that have no meaning on a single machine."""


def _unused_site_settings(site: Site) -> Iterator[Problem]:
    """Note the site's settings without effect, for its operator."""
    unused_keys = [f"'{key}'" for key in _UNUSED_SITE_KEYS if site.settings.get(key)]
    if (site.settings.get("setup") or {}).get("submit"):
        unused_keys.append("'setup.submit'")
    if site.settings.get("fileSystem") == "transfer":
        unused_keys.append("'fileSystem: transfer'")
    if unused_keys:
        yield Problem(
            message=f"the local service ignores these keys of the site '{site.name}': {', '.join(unused_keys)}",
            origin=site.origin,
            fatal=False,
        )


_REQUEST_KEYS: Final = {"cpus": "requestCpus", "memory": "requestMemory", "disk": "requestDisk"}


def pool_capacity(pool: Mapping[str, int | Iterable[str]], identities: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the amounts jobs may use at once: as configured, else this machine's processors, memory and GPUs."""
    amounts = {name: available for name, available in pool.items() if isinstance(available, int)}
    members = {name: len(members) for name, members in identities.items()}
    return {"cpus": usable_cpus(), "memory": physical_memory()} | amounts | members


def _oversized_requests(
    subject: str, amounts: Mapping[str, int], capacity: Mapping[str, int], *, job: str | None = None
) -> Iterator[Problem]:
    for name, amount in amounts.items():
        if name not in capacity:
            if name != "disk":
                yield Problem(
                    message=f"{subject} asks for {amount} of '{name}', which this machine does not count",
                    job=job,
                    key=f"requestResources.{name}",
                    hint=f"Say how much there is: resources: {{{name}: {amount}}}, or correct the name.",
                )
        elif amount > capacity[name]:
            requested, available = _format_amount(name, amount), _format_amount(name, capacity[name])
            yield Problem(
                message=f"{subject} asks for {requested} of '{name}', and there are only {available}",
                job=job,
                key=_REQUEST_KEYS.get(name, f"requestResources.{name}"),
                hint=f"Ask for less, or, if the machine does have it, say so with resources: {{{name}: ...}}.",
            )


def _format_amount(name: str, amount: int) -> str:
    return f"{amount / 2**20:.0f} MiB" if name in {"memory", "disk"} else str(amount)
