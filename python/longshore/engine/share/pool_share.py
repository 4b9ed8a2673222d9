"""Pool share: negotiates a run's part of a shared pool by claims, and limits the pool to that part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from longshore.engine.rundir.runtime_history import RuntimeHistory
from longshore.engine.schedule.eta import is_relevant_change
from longshore.engine.schedule.scheduler import Scheduler
from longshore.engine.share import share_rules
from longshore.engine.state.resource_pool import Pool
from longshore.model.run.claim import ResourceClaim
from longshore.world.clock import Clock
from longshore.world.runs.claims import ClaimFile, claims_folder, limits_folder, lock_claims, read_other_claims

_FRESH_S: Final = 10.0
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
    words: str
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
    say
        Takes a line for the engine's log.
    """

    def __init__(
        self, claim: ResourceClaim, pool: Pool, place: SharedResources, *, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._pool = pool
        self._folder, self._what, self._every_s = place
        self._clock = clock
        self._say = say
        self._due = 0.0
        self._most: dict[str, int] = {}
        """Most that was taken of each resource since the last negotiation."""
        self._claim = msgspec.structs.replace(claim, capacity=pool.capacity)
        self._written = -_FRESH_S
        self.others = 0
        """Number of other runs that share the pool."""
        self._file: ClaimFile | None = None
        try:
            self._file = ClaimFile(self._folder, claim.run)
        except OSError as error:
            self._share_nothing(error)
        else:
            # Resources belong to a run only after it claimed them.
            pool.resize({})

    def turn(self, demand: Callable[[], Demand]) -> None:
        """Negotiate with other runs when it is due, and limit the pool to the share."""
        if self._file is None:
            return
        now = self._clock.elapsed()
        self._note_most()
        if now < self._due:
            return
        try:
            with lock_claims(self._folder):
                self._negotiate(self._file, demand(), now)
                self._due = now + self._every_s
        except BlockingIOError:
            # Another run negotiates.
            return
        except OSError as error:
            # A run continues with its earlier claim.
            if not self._claim.leased:
                self._share_nothing(error)

    def note_starts(self) -> None:
        """Write the resources of jobs about to start to the claim, which others respect if this engine dies."""
        if self._file is None:
            return
        self._note_most()
        had = {name: these for name, these in self._pool.identities_in_use.items() if these}
        more = any(amount > self._claim.holds.get(name, 0) for name, amount in self._most.items())
        if more or any(set(these) - set(self._claim.held.get(name, ())) for name, these in had.items()):
            # On a full disk, others respect the earlier claim.
            with suppress(OSError):
                self._write(self._file, msgspec.structs.replace(self._claim, holds=dict(self._most), held=had))

    @property
    def idle(self) -> bool:
        """Whether the run has work but no resources, because other runs use them."""
        return self.others > 0 and self._claim.idle_since is not None

    def release(self) -> None:
        """Leave the shared resources to the other runs."""
        if self._file is not None:
            self._file.release()
            self._file = None

    def _negotiate(self, file: ClaimFile, demand: Demand, now: float) -> None:
        others = read_other_claims(self._folder, self._claim.run, now=now)
        held = self._pool.amounts_in_use
        claim = self._claim_for(demand, held, now)
        part = share_rules.compute_shares([*others, claim], now)[claim.run]
        most = share_rules.claimable_amounts(others, claim)
        due = {name: min(part.get(name, 0), most[name]) for name in claim.capacity}
        # A job's resources are claimed until it ends, but not taken again after that: they belong to another run.
        leased = {name: max(held.get(name, 0), amount) for name, amount in due.items()}
        members = {}
        for name, everybody in self._pool.identities.items():
            had = self._pool.identities_in_use[name]
            taken = [each for other in others for each in (other.members if other.alive else other.held).get(name, ())]
            members[name] = share_rules.choose_identities(everybody, had, taken, leased[name])
            leased[name] = len(members[name])
            due[name] = min(due[name], leased[name])
        claim = msgspec.structs.replace(claim, leased=leased, members=members)
        if others or self.others or self._claim.leased != leased or now - self._written >= _FRESH_S:
            self._write(file, claim)
        self._claim, self._most = claim, dict(held)
        self._pool.resize(due, members)
        self._tell(len(others))

    def _claim_for(self, demand: Demand, held: Mapping[str, int], now: float) -> ResourceClaim:
        claim = self._claim
        busy = any(held.values()) or not demand.next
        end_at = now + demand.rest_s
        # The most taken in the last interval stays wanted: a job that ends is often followed by another.
        wants = {name: max(amount, self._most.get(name, 0)) for name, amount in demand.wants.items()}
        return msgspec.structs.replace(
            claim,
            at=now,
            holds=dict(held),
            held={name: these for name, these in self._pool.identities_in_use.items() if these},
            wants=wants,
            next=dict(demand.next),
            end_at=end_at if is_relevant_change(claim.end_at or None, end_at, at=now) else claim.end_at,
            idle_since=None if busy else claim.idle_since if claim.idle_since is not None else now,
        )

    def _note_most(self) -> None:
        for name, amount in self._pool.amounts_in_use.items():
            if amount > self._most.get(name, 0):
                self._most[name] = amount

    def _write(self, file: ClaimFile, claim: ResourceClaim) -> None:
        file.write(claim)
        self._claim, self._written = claim, self._clock.elapsed()

    def _tell(self, others: int) -> None:
        if others != self.others:
            with_others = f"shared with {others} other run{'s' * (others != 1)}"
            self._say(f"{self._what} {with_others if others else 'shared no more: alone again'}")
        self.others = others

    def _share_nothing(self, error: OSError) -> None:
        """Use the whole pool, because claims cannot be written."""
        self.release()
        self._pool.resize(self._pool.capacity, self._pool.identities)
        self._say(
            f"{self._what} not shared with other runs: '{self._folder}' cannot be used: {error.strerror or error}"
        )
