"""Pool share: negotiates a run's part of a shared pool by claims, and limits the pool to that part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from longshore.engine.rundir.runtime_history import RuntimeHistory
from longshore.engine.schedule.eta import is_relevant_change
from longshore.engine.schedule.resource_pool import Pool
from longshore.engine.schedule.scheduler import Scheduler
from longshore.engine.share import share_rules
from longshore.model.run.claim import ResourceClaim
from longshore.world.clock import Clock
from longshore.world.runs.claims import ClaimFile, claims_folder, limits_folder, lock_claims, read_other_claims

_REFRESH_S: Final = 10.0
"""Age at which an unchanged claim is written again, so that other runs do not take its engine for stopped."""


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that a run would use.

    Attributes
    ----------
    wants
        Amounts of all its running and ready jobs.
    next
        Amounts of its next job.
    rest_s
        Seconds until its expected end.
    """

    wants: Mapping[str, int]
    next: Mapping[str, int]
    rest_s: float


def compute_demand(scheduler: Scheduler, history: RuntimeHistory, now: float) -> Demand:
    """Compute a run's demand from its scheduler and its history."""
    cpus = scheduler.pool.capacity.get("cpus", 1) if scheduler.pool else 1
    return Demand(
        wants=scheduler.compute_demand(now),
        next=scheduler.next_job_demand(now),
        rest_s=history.rest_s(scheduler.state, cpus),
    )


class SharedResources(NamedTuple):
    """Folder in which runs negotiate over one set of resources."""

    folder: Path
    """Folder of all claims."""
    description: str
    """Name of the shared resources, with its verb, for messages."""
    every_s: float
    """Least seconds between two negotiations."""


def machine_resources() -> SharedResources:
    """Return the place where the runs of this host share its resources."""
    return SharedResources(claims_folder(), "this machine is", 1.0)


def limit_resources() -> SharedResources:
    """Return the place where runs share concurrency limits; its interval is short so that free slots are soon used."""
    return SharedResources(limits_folder(), "limits on jobs that run at once are", 0.25)


class PoolShare:
    """Share of one run in a pool that several runs use.

    Parameters
    ----------
    claim
        Identity of the run and of its keeper.
    pool
        The pool that its jobs take from; limited to the run's share.
    place
        Where runs negotiate.
    clock
        The time.
    log_line
        Takes a line for the engine's log.
    """

    def __init__(
        self, claim: ResourceClaim, pool: Pool, place: SharedResources, *, clock: Clock, log_line: Callable[[str], None]
    ) -> None:
        self._pool = pool
        self._folder, self._description, self._every_s = place
        self._clock = clock
        self._log_line = log_line
        self._next_at = 0.0
        self._peak: dict[str, int] = {}
        """Most that was taken of each resource since the last negotiation."""
        self._claim = msgspec.structs.replace(claim, capacity=pool.capacity)
        self._written = -_REFRESH_S
        self.others = 0
        """Number of other runs that share the pool."""
        self._file: ClaimFile | None = None
        try:
            self._file = ClaimFile(self._folder, claim.run)
        except OSError as error:
            self._use_whole_pool(error)
        else:
            # Resources belong to a run only after it claimed them.
            pool.resize({})

    def negotiate(self, demand: Callable[[], Demand]) -> None:
        """Negotiate with other runs when it is due, and limit the pool to the share."""
        if self._file is None:
            return
        now = self._clock.elapsed()
        self._update_peak()
        if now < self._next_at:
            return
        try:
            with lock_claims(self._folder):
                self._exchange_claims(self._file, demand(), now)
                self._next_at = now + self._every_s
        except BlockingIOError:
            # Another run negotiates.
            return
        except OSError as error:
            # A run continues with its earlier claim.
            if not self._claim.leased:
                self._use_whole_pool(error)

    def claim_starts(self) -> None:
        """Write the resources of jobs about to start to the claim, which others respect if this engine dies."""
        if self._file is None:
            return
        self._update_peak()
        own = {name: names for name, names in self._pool.identities_in_use.items() if names}
        more = any(amount > self._claim.holds.get(name, 0) for name, amount in self._peak.items())
        if more or any(set(names) - set(self._claim.held.get(name, ())) for name, names in own.items()):
            # On a full disk, others respect the earlier claim.
            with suppress(OSError):
                self._write(self._file, msgspec.structs.replace(self._claim, holds=dict(self._peak), held=own))

    @property
    def is_idle(self) -> bool:
        """Whether the run has work but no resources, because other runs use them."""
        return self.others > 0 and self._claim.idle_since is not None

    def release(self) -> None:
        """Leave the shared resources to the other runs."""
        if self._file is not None:
            self._file.release()
            self._file = None

    def _exchange_claims(self, file: ClaimFile, demand: Demand, now: float) -> None:
        others = read_other_claims(self._folder, self._claim.run, now=now)
        held = self._pool.amounts_in_use
        claim = self._make_claim(demand, held, now)
        share = share_rules.compute_shares([*others, claim], now)[claim.run]
        room = share_rules.claimable_amounts(others, claim)
        allowed = {name: min(share.get(name, 0), room[name]) for name in claim.capacity}
        # A job's resources are claimed until it ends, but not taken again after that: they belong to another run.
        leased = {name: max(held.get(name, 0), amount) for name, amount in allowed.items()}
        members = {}
        for name, identities in self._pool.identities.items():
            own = self._pool.identities_in_use[name]
            claimed = ((other.members if other.alive else other.held).get(name, ()) for other in others)
            taken = [identity for each in claimed for identity in each]
            members[name] = share_rules.choose_identities(identities, own, taken, leased[name])
            leased[name] = len(members[name])
            allowed[name] = min(allowed[name], leased[name])
        claim = msgspec.structs.replace(claim, leased=leased, members=members)
        if others or self.others or self._claim.leased != leased or now - self._written >= _REFRESH_S:
            self._write(file, claim)
        self._claim, self._peak = claim, dict(held)
        self._pool.resize(allowed, members)
        self._report_others(len(others))

    def _make_claim(self, demand: Demand, held: Mapping[str, int], now: float) -> ResourceClaim:
        claim = self._claim
        busy = any(held.values()) or not demand.next
        end_at = now + demand.rest_s
        # The most taken in the last interval stays wanted: a job that ends is often followed by another.
        wants = {name: max(amount, self._peak.get(name, 0)) for name, amount in demand.wants.items()}
        return msgspec.structs.replace(
            claim,
            at=now,
            holds=dict(held),
            held={name: names for name, names in self._pool.identities_in_use.items() if names},
            wants=wants,
            next=dict(demand.next),
            end_at=end_at if is_relevant_change(claim.end_at or None, end_at, at=now) else claim.end_at,
            idle_since=None if busy else claim.idle_since if claim.idle_since is not None else now,
        )

    def _update_peak(self) -> None:
        for name, amount in self._pool.amounts_in_use.items():
            if amount > self._peak.get(name, 0):
                self._peak[name] = amount

    def _write(self, file: ClaimFile, claim: ResourceClaim) -> None:
        file.write(claim)
        self._claim, self._written = claim, self._clock.elapsed()

    def _report_others(self, others: int) -> None:
        if others != self.others:
            note = f"shared with {others} other run{'s' * (others != 1)}"
            self._log_line(f"{self._description} {note if others else 'no longer shared'}")
        self.others = others

    def _use_whole_pool(self, error: OSError) -> None:
        """Use the whole pool, because claims cannot be written."""
        self.release()
        self._pool.resize(self._pool.capacity, self._pool.identities)
        why = f"'{self._folder}' cannot be used: {error.strerror or error}"
        self._log_line(f"{self._description} not shared with other runs: {why}")
