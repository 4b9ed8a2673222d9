"""Executor of the local service: keepers start the jobs, and this machine's resources are the pool."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from longshore.contract.executor import (
    Accepted,
    Batch,
    BatchMember,
    Executor,
    FindResult,
    HostBound,
    Limits,
    NewsWait,
    PollResult,
    ProcessCleanup,
    Rejected,
    ResourceProbe,
    SubmitResult,
    Throttled,
    UnitHolder,
)
from longshore.contract.service import CancelOutcome, Mark, PingReport, RunPaths, Unreachable
from longshore.jobs.commands import GPU_RESOURCES, GPU_VARIABLES, command_argv
from longshore.keeper.protocol import TEMPORARY_ERRORS, MemberOrder, limits_order
from longshore.services.local.keeper_client import LocalClient
from longshore.services.local.keeper_file import keepers_elsewhere
from longshore.services.local.machine import probe_machine

_LOOK_AHEAD_S: Final = 0.05
"""Seconds a short job may be queued at the keeper ahead of its slot, which saves waiting for the engine."""
_RETRY_S: Final = 5.0
"""Pause after a temporary failure, in seconds."""


class LocalExecutor(Executor, ResourceProbe, NewsWait, ProcessCleanup, HostBound, UnitHolder):
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
        if member.units:
            command["u"] = member.units
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
        return probe_machine(self._settings.get("pool") or {})

    def hold_units(self, file: Path) -> None:
        """Let keepers hold the units of attempts in a file."""
        self._open_client.units = file

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
