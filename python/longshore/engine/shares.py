"""Shares: what a run may take of the machine, and of limits, beside the user's other runs on this host.

The kernel keeps what is taken: each job that runs holds its units by locks on one file (see
`longshore.keeper.program.units`), so nothing is taken twice, and what died is free. This module decides who gets what
becomes free. A run whose next job lacks units draws a ticket, a number after all others, and a new one whenever a job
of its starts. Everybody leaves free units to the jobs of earlier tickets that fit; so they go to the run that has
waited longest. What is too little for the first in the queue others take, until it has waited `PATIENCE_S`: then all
that becomes free is kept for it. Nobody ever waits for an answer of another run, so that one that is stopped holds up
nobody: a ticket that its run does not confirm for some seconds is passed over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from longshore.contract.executor import Executor, UnitHolder
from longshore.contract.service import file_name
from longshore.engine.outer_job import read_outer_job
from longshore.engine.schedule.resource_pool import NO_IDENTITIES, ConcurrencyLimits, Identities, Pool
from longshore.engine.schedule.scheduler import Scheduler
from longshore.errors import DECODE_ERRORS
from longshore.keeper.program.units import INDEX_SPACE, HeldUnits, UnitFile
from longshore.model.event import Submitting
from longshore.model.report import format_size
from longshore.model.submission import RunIdentity
from longshore.model.wording import count_noun
from longshore.rundir.registry import state_folder
from longshore.runstate.run_state import JobCode
from longshore.system.files import files
from longshore.system.folder import make_folders
from longshore.system.host import Clock, host_name
from longshore.system.reading import is_local_file_system

PATIENCE_S: Final = 30.0
"""Seconds of waiting after which free units are kept for a run's next job."""
_TURN_S: Final = 1.0
"""Seconds of waiting after which others send no job ahead of its slot."""
_SILENCE_S: Final = 3.0
"""Seconds without a sign of life after which a ticket is passed over."""
_CONFIRM_S: Final = 0.5
_DESCRIBE_S: Final = 10.0
_POLL_S: Final = 0.02
"""Seconds between two looks of the first in the queue, and so much more for each one before."""

_KNOWN: Final = ("cpus", "memory", "disk", "gpus")
LIMIT_PREFIX: Final = "limit:"
"""Before the name of a limit, which may be that of a resource."""
_ENTRIES: Final = 32_767
"""Index of the locks on entries; those of resources are below."""
_MOST_RUNS: Final = 1_024
_ENTRY_B: Final = 4_096
_NAMED_JOBS: Final = 16


class Ticket(msgspec.Struct, frozen=True):
    """Place of a run in the queue for what becomes free."""

    number: int
    waited_s: float
    """Seconds since it was drawn, on the clock of its run."""
    wants: Mapping[str, tuple[int, int]]
    """Amount of each resource that its next job takes, and how many there are, as the run knows it."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run tells the others: its place in queues, and what its jobs hold or are about to."""

    run: str
    sign: int = 0
    """Changes as long as the run is at work."""
    tickets: Mapping[str, Ticket] = {}
    holds: Mapping[str, int] = {}
    pending: Mapping[str, int] = {}
    """Part of it that its jobs are about to take."""
    jobs: Sequence[tuple[str, Mapping[str, int]]] = ()
    """Some of its jobs, with what each holds."""

    def place_in(self, kind: str) -> tuple[int, str]:
        """Return its place in the queue of a kind, in which it has a ticket."""
        return self.tickets[kind].number, self.run


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Entry).decode


@lru_cache(maxsize=4_096)
def unit_index(name: str) -> int:
    """Return the index of a resource's units: two names may share one, and then wait for each other at worst."""
    if name in _KNOWN:
        return _KNOWN.index(name)
    number = int.from_bytes(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=4).digest())
    return len(_KNOWN) + number % (_ENTRIES - len(_KNOWN))


def shares_file() -> Path:
    """Return the file that the user's runs on this host share, which is on a local disk: locks of others may be slow.

    A state folder on a network file system has its files in ``/var/tmp``.
    """
    state, name = state_folder(), file_name(host_name())
    nearest = next(each for each in (state, *state.parents) if each.exists())
    if is_local_file_system(nearest):
        return state / "shares" / name
    key = blake2b(os.fsencode(state), digest_size=6).hexdigest()
    return Path("/var/tmp") / f"longshore-{os.getuid()}" / f"{key}-{name}"  # noqa: S108 - its folder is the user's own


class SharedFile:
    """The file of units and entries, opened by one run, which holds an entry in it; without a run, to look.

    Raises `OSError` when it cannot be used.
    """

    def __init__(self, path: Path, *, reads_only: bool = False) -> None:
        if not reads_only:
            make_folders(path.parent)
            # Refused where another user has made it.
            files.chmod(path.parent, 0o700)
        self.path = path
        flags = os.O_RDWR | os.O_NOFOLLOW | (0 if reads_only else os.O_CREAT)
        self.file = files.open(path, flags, 0o600)
        self.units = UnitFile(self.file, files)
        self._place: int | None = None
        self._signs: dict[str, tuple[int, float]] = {}
        """Last sign of each run, and when it was seen first."""
        if not reads_only:
            try:
                self._place = self._take_place()
            except OSError:
                self.close()
                raise

    def _take_place(self) -> int:
        base = _ENTRIES * INDEX_SPACE
        for place in range(_MOST_RUNS):
            if self.units.lock(base + place, base + place + 1):
                return place
        raise BlockingIOError(f"more than {_MOST_RUNS} runs share it")

    def write(self, entry: Entry) -> None:
        """Replace the run's entry; raises `OSError` when the disk is full, for example."""
        assert self._place is not None
        jobs = list(entry.jobs)
        while len(text := _encode(entry)) > _ENTRY_B and jobs:
            jobs.pop()
            entry = msgspec.structs.replace(entry, jobs=jobs)
        # One write of one page: a concurrent reader sees the old entry or the new.
        files.pwrite(self.file, text.ljust(_ENTRY_B), self._place * _ENTRY_B)

    def read_others(self) -> list[Entry]:
        """Return the entries of other runs whose engines live."""
        return [entry for place in self._live_places() if (entry := self._read(place))]

    def read_gone(self) -> list[Entry]:
        """Return the last entries of runs whose engines died: their jobs may hold what is theirs."""
        gone = set(range(files.fstat(self.file).st_size // _ENTRY_B)) - {*self._live_places(), self._place}
        return [entry for place in sorted(gone) if (entry := self._read(place))]

    def _live_places(self) -> list[int]:
        """Return the places of other runs whose engines live."""
        base = _ENTRIES * INDEX_SPACE
        return [each - base for found in self.units.find_locked(base, base + _MOST_RUNS) for each in range(*found)]

    def _read(self, place: int) -> Entry | None:
        try:
            return _decode(files.pread(self.file, _ENTRY_B, place * _ENTRY_B))
        except DECODE_ERRORS:
            # Its run has just begun.
            return None

    def is_silent(self, entry: Entry, now: float) -> bool:
        """Return whether a run has given no sign of life for some time, as far as this one has looked."""
        sign, since = self._signs.get(entry.run, (entry.sign - 1, now))
        if sign != entry.sign:
            self._signs[entry.run] = entry.sign, now
            return False
        return now - since > _SILENCE_S

    def close(self) -> None:
        """Close the file."""
        files.close(self.file)


def read_entries() -> list[Entry]:
    """Return the entries of all runs on this host whose engines live; raises `OSError` without any run so far."""
    file = SharedFile(shares_file(), reads_only=True)
    try:
        return file.read_others()
    finally:
        file.close()


class _SharedPool:
    """A pool of the run that others share, and the run's place in the queue for it."""

    def __init__(self, kind: str, pool: Pool, prefix: str) -> None:
        self.kind = kind
        self.is_machine = prefix != LIMIT_PREFIX
        self.pool = pool
        self.prefix = prefix
        """Put before the names of its resources, so that a limit may be named as a resource is."""
        self.number = 0
        """Number of the ticket, or 0."""
        self.since = 0.0
        self.wants: Mapping[str, int] = {}
        self.place = 0
        """How many are before it."""

    def ticket(self, now: float) -> Ticket:
        capacity = self.pool.capacity
        wants = {f"{self.prefix}{name}": (amount, capacity[name]) for name, amount in self.wants.items()}
        return Ticket(self.number, now - self.since, wants)


class RunShares:
    """Shares of one run in the machine and in concurrency limits.

    Parameters
    ----------
    run
        Identity of the run.
    scheduler
        Starts its jobs.
    limits
        The limits and categories of its jobs.
    executor
        Starts the jobs; one that is no `UnitHolder` leaves it to this engine to hold their units.
    machine
        Whether it shares the machine.
    job_name
        Gives the name of a job by its number.
    clock
        The time.
    log_line
        Takes a line for the engine's log.
    """

    def __init__(
        self,
        run: RunIdentity,
        scheduler: Scheduler,
        limits: ConcurrencyLimits,
        *,
        executor: Executor,
        machine: bool,
        job_name: Callable[[int], str],
        clock: Clock,
        log_line: Callable[[str], None],
    ) -> None:
        self._run = run.id
        self._scheduler = scheduler
        self._limits = limits
        self._job_name = job_name
        self._clock = clock
        self._log_line = log_line
        self._shared: list[_SharedPool] = []
        outer = read_outer_job()
        if machine and scheduler.pool:
            # Runs inside one job share its request, and not the machine, of which the job holds that part.
            prefix = f"{outer.key}:" if outer else ""
            self._shared.append(_SharedPool(f"{prefix}machine", scheduler.pool, prefix))
        if limits.limits.capacity:
            self._shared.append(_SharedPool("limits", limits.limits, LIMIT_PREFIX))
        self._file: SharedFile | None = None
        self._held: HeldUnits | None = None
        """Units of the run's jobs, where the engine holds them."""
        self._told = Entry(self._run)
        self._told_at = -_CONFIRM_S
        self._others = 0
        self._reason, self._described_at = "", 0.0
        """Why jobs wait, for some seconds: who has what may change with every job."""
        if self._shared:
            self._open(executor)

    def _open(self, executor: Executor) -> None:
        path = shares_file()
        try:
            self._file = SharedFile(path)
            if isinstance(executor, UnitHolder):
                executor.hold_units(path)
            else:
                # Of its own, so that a look sees these locks too.
                self._held = HeldUnits(UnitFile(files.open(path, os.O_RDWR | os.O_NOFOLLOW), files))
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        """Use all there is, as what others use cannot be known."""
        self.release()
        for shared in self._shared:
            shared.pool.resize(shared.pool.capacity, shared.pool.identities)
        self._shared = []
        self._scheduler.may_look_ahead = True
        why = error.strerror or error
        self._log_line(f"nothing is shared with your other runs: '{shares_file()}' cannot be used: {why}")

    def look(self) -> Iterator[str]:
        """Set what the run may take in this round; yield the reasons why jobs wait for other runs."""
        if self._file is None:
            return
        try:
            reasons = list(self._look(self._file))
        except OSError as error:
            self._give_up(error)
        else:
            yield from reasons

    def _look(self, file: SharedFile) -> Iterator[str]:
        now = self._clock.elapsed()
        if self._held:
            self._hold_active(self._held)
        if not self._scheduler.has_ready(self._clock.now()):
            self._scheduler.may_look_ahead = True
            return
        others = file.read_others()
        self._report_others(len(others))
        is_turn_of_other = False
        heard = [each for each in others if not file.is_silent(each, now)]
        for shared in self._shared:
            queue = sorted(
                (each for each in heard if shared.kind in each.tickets), key=lambda each: each.place_in(shared.kind)
            )
            mine = (shared.number, self._run)
            ahead = [each for each in queue if not shared.number or each.place_in(shared.kind) < mine]
            shared.place = len(ahead)
            kept_for = self._set_room(file, shared, queue, self._count_pending(shared, heard))
            is_turn_of_other |= any(each.tickets[shared.kind].waited_s >= _TURN_S for each in ahead)
            if shared.number and shared.is_machine:
                if now - self._described_at >= _DESCRIBE_S or not self._reason:
                    self._reason, self._described_at = kept_for or self._describe_wait(shared, others), now
                yield self._reason
        self._scheduler.may_look_ahead = not is_turn_of_other
        if self._limits.pools:
            yield from self._limits.describe_full(self._scheduler.blocked_amounts())

    def _set_room(
        self, file: SharedFile, shared: _SharedPool, queue: Sequence[Entry], pending: Mapping[str, int]
    ) -> str:
        """Set what the run may take; return why what is free is kept for another run, if it is."""
        pool, in_use = shared.pool, shared.pool.amounts_in_use
        identities = {
            name: (*pool.identities_in_use[name], *self._free_members(file, shared, name)) for name in pool.identities
        }
        free = {name: self._count_free(file, shared, pending, name, most) for name, most in pool.capacity.items()}
        before, behind, kept_for = self._leave_to(file, shared, queue, pending, free)
        wants = self._next_amounts(shared)
        room = {
            # Of what those behind wait for, no more than one job takes: then it is their turn.
            name: max(
                amount - before.get(name, 0) - behind.get(name, 0),
                min(amount - before.get(name, 0), wants.get(name, 0)),
            )
            for name, amount in free.items()
        }
        ceiling = {name: in_use[name] + min(room[name], most - in_use[name]) for name, most in pool.capacity.items()}
        pool.resize(ceiling, identities)
        return kept_for

    def _leave_to(
        self,
        file: SharedFile,
        shared: _SharedPool,
        queue: Sequence[Entry],
        pending: Mapping[str, int],
        free: Mapping[str, int],
    ) -> tuple[dict[str, int], dict[str, int], str]:
        """Return what is left to tickets before that of the run, and to those behind; and why what is free is kept."""
        before, behind, kept_for = dict[str, int](), dict[str, int](), ""
        for number, entry in enumerate(queue):
            ticket = entry.tickets[shared.kind]
            keys = ((key.removeprefix(shared.prefix), *each) for key, each in ticket.wants.items())
            wants = [(name, amount, most) for name, amount, most in keys if name in free]
            left = {name: before.get(name, 0) + behind.get(name, 0) for name, _, _ in wants}
            fits = all(
                (
                    free[name]
                    if most == shared.pool.capacity[name]
                    else self._count_free(file, shared, pending, name, most)
                )
                >= amount + left[name]
                for name, amount, most in wants
            )
            is_before = not shared.number or entry.place_in(shared.kind) < (shared.number, self._run)
            is_kept = not fits and number == 0 and is_before and ticket.waited_s >= PATIENCE_S
            if is_kept and any(free[name] > 0 for name, _, _ in wants):
                kept_for = (
                    f"what is free of this machine is kept for your run '{entry.run}', whose next job has waited for "
                    f"{ticket.waited_s:.0f} s"
                )
            for name, amount, _ in wants if fits or is_kept else ():
                part = before if is_before else behind
                part[name] = part.get(name, 0) + amount
        return before, behind, kept_for

    def _next_amounts(self, shared: _SharedPool) -> Mapping[str, int]:
        now = self._clock.now()
        if shared.is_machine:
            return self._scheduler.next_job_demand(now)
        return self._scheduler.compute_limit_demand(shared.pool, now)

    def _count_pending(self, shared: _SharedPool, heard: Sequence[Entry]) -> dict[str, int]:
        """Count what jobs of all runs are about to take of each resource, but for members that this run has given."""
        own = self._pending(shared)
        return {
            name: sum(each.pending.get(f"{shared.prefix}{name}", 0) for each in heard)
            + (0 if name in shared.pool.identities else own.get(name, 0))
            for name in shared.pool.capacity
        }

    def _count_free(
        self, file: SharedFile, shared: _SharedPool, pending: Mapping[str, int], name: str, most: int
    ) -> int:
        """Count what nobody has of a resource that has so many units, nor is about to take."""
        if name in shared.pool.identities:
            return len(self._free_members(file, shared, name)) - pending[name]
        return most - file.units.count_locked(unit_index(f"{shared.prefix}{name}"), most) - pending[name]

    def _free_members(self, file: SharedFile, shared: _SharedPool, name: str) -> list[str]:
        own = shared.pool.identities_in_use[name]
        return [
            each
            for each in shared.pool.identities[name]
            if each not in own and not file.units.count_locked(_member_index(name, each), 1)
        ]

    def _pending(self, shared: _SharedPool) -> dict[str, int]:
        """Return the amounts that jobs get which do not hold them yet, as far as the run knows."""
        held = self._holds(shared)
        in_use = shared.pool.amounts_in_use
        return {name: amount - held.get(name, 0) for name, amount in in_use.items() if amount > held.get(name, 0)}

    def _holds(self, shared: _SharedPool) -> dict[str, int]:
        """Return the amounts that the run's jobs hold already, as far as it knows."""
        held: dict[str, int] = {}
        code = self._scheduler.state.code
        for job in self._scheduler.state.active:
            if job in self._held.ranges if self._held else code[job] == JobCode.RUNNING:
                for pool, amounts in self._scheduler.amounts_of(job):
                    for name, amount in amounts.items() if pool is shared.pool else ():
                        held[name] = held.get(name, 0) + amount
        return held

    def settle(self, started: Sequence[Submitting]) -> None:
        """Draw or give back tickets, and tell the others, after a round in which batches were begun."""
        if self._file is None:
            return
        now = self._clock.elapsed()
        drawn = False
        for shared in self._shared:
            wants = self._find_lacking(shared)
            if not wants:
                shared.number = 0
                if shared.is_machine:
                    self._reason = ""
            elif not shared.number or started:
                drawn, shared.since = True, now
                shared.number = 1 + max(
                    (
                        each.tickets[shared.kind].number
                        for each in self._file.read_others()
                        if shared.kind in each.tickets
                    ),
                    default=0,
                )
            shared.wants = wants
        tickets = {shared.kind: shared.ticket(now) for shared in self._shared if shared.number}
        pending = {
            f"{shared.prefix}{name}": amount
            for shared in self._shared
            for name, amount in self._pending(shared).items()
        }
        is_due = now - self._told_at >= _CONFIRM_S
        if drawn or tickets.keys() != self._told.tickets.keys() or pending != self._told.pending or is_due:
            self._tell(Entry(self._run, self._told.sign, tickets, pending=pending), now)

    def _tell(self, entry: Entry, now: float) -> None:
        """Tell the others."""
        holds, jobs = self._describe_holds()
        entry = msgspec.structs.replace(entry, holds=holds, jobs=jobs)
        if self._file is None or (not entry.tickets and entry == self._told):
            return
        self._told_at = now
        self._told = msgspec.structs.replace(entry, sign=entry.sign + 1)
        # A full disk costs a place in the queue, and nothing else.
        with suppress(OSError):
            self._file.write(self._told)

    def _find_lacking(self, shared: _SharedPool) -> Mapping[str, int]:
        """Return what the run waits for because others have it: the amounts of its next job, or of limits that lack."""
        pool, wants = shared.pool, self._next_amounts(shared)
        in_use = pool.amounts_in_use
        lacking = [
            name for name, amount in wants.items() if pool.free[name] < amount <= pool.capacity[name] - in_use[name]
        ]
        return (wants if shared.is_machine else {name: wants[name] for name in lacking}) if lacking else {}

    def _describe_holds(self) -> tuple[Mapping[str, int], Sequence[tuple[str, Mapping[str, int]]]]:
        holds = {
            f"{shared.prefix}{name}": amount
            for shared in self._shared
            for name, amount in shared.pool.amounts_in_use.items()
            if amount
        }
        prefixes = {id(shared.pool): shared.prefix for shared in self._shared}
        jobs = [
            (
                self._job_name(job),
                {
                    f"{prefixes[id(pool)]}{name}": amount
                    for pool, amounts in self._scheduler.amounts_of(job)
                    for name, amount in (amounts.items() if id(pool) in prefixes else ())
                },
            )
            for job in islice(self._scheduler.state.active, _NAMED_JOBS)
        ]
        return holds, jobs

    def _describe_wait(self, shared: _SharedPool, others: Sequence[Entry]) -> str:
        """Describe what the next job lacks, and who has it."""
        name, amount = next(
            ((name, amount) for name, amount in shared.wants.items() if shared.pool.free[name] < amount),
            next(iter(shared.wants.items())),
        )
        key = f"{shared.prefix}{name}"
        wanted = _describe_amount(name, amount)
        holders = sorted((each for each in others if each.holds.get(key)), key=lambda each: -each.holds[key])
        if not holders:
            gone = [each.run for each in self._file.read_gone() if each.holds.get(key)] if self._file else []
            named = f"your run '{gone[0]}', whose engine is gone," if gone else "your other runs"
            return f"the next job waits for {wanted}, which jobs of {named} have"
        first = holders[0]
        job = next((job for job, amounts in first.jobs if amounts.get(key)), "")
        named = f" (job '{job}')" if job else ""
        more = f", and {count_noun(len(holders) - 1, 'other run')} more" if holders[1:] else ""
        has = _describe_amount(name, first.holds[key])
        return f"the next job waits for {wanted}: your run '{first.run}' has {has}{named}{more}"

    def units_of(self, job: int, identities: Identities = NO_IDENTITIES) -> tuple[tuple[int, int, int], ...]:
        """Return the units that a job holds while it runs, as `BatchMember.units`."""
        if self._file is None:
            return ()
        units: list[tuple[int, int, int]] = []
        prefixes = {id(shared.pool): shared.prefix for shared in self._shared}
        for pool, amounts in self._scheduler.amounts_of(job):
            if id(pool) not in prefixes:
                continue
            for name, amount in amounts.items():
                if name in pool.identities:
                    units += ((_member_index(name, each), 1, 1) for each in identities.get(name, ()))
                elif amount:
                    units.append((unit_index(f"{prefixes[id(pool)]}{name}"), amount, pool.capacity[name]))
        return tuple(units)

    def hold(self, batch: Submitting) -> bool:
        """Hold the units of a batch, where that is for the engine to do; return whether they were free."""
        if self._held is None:
            return True
        for number, (job, _) in enumerate(batch.jobs):
            if not self._held.take(job, self.units_of(job, batch.ids.get(job, NO_IDENTITIES))):
                for earlier, _ in batch.jobs[:number]:
                    self._held.pass_on(earlier, None)
                return False
        return True

    def _hold_active(self, held: HeldUnits) -> None:
        """Release the units of jobs that are over, and hold those of jobs that an earlier life submitted."""
        state = self._scheduler.state
        for job in held.ranges.keys() - state.active.keys():
            held.pass_on(job, None)
        for job in state.active.keys() - held.ranges.keys():
            held.take(job, self.units_of(job, state.identities.get(job, NO_IDENTITIES)))

    @property
    def poll_s(self) -> float:
        """Seconds after which a waiting run looks again."""
        places = [shared.place for shared in self._shared if shared.number]
        return _POLL_S * (1 + min(places)) if places else float("inf")

    def release(self) -> None:
        """Leave all shared resources to the other runs."""
        if self._held is not None:
            files.close(self._held.file.file)
            self._held = None
        if self._file is not None:
            # A run that dies leaves its entry, by which others know whose jobs go on.
            with suppress(OSError):
                self._file.write(Entry(self._run))
            self._file.close()
            self._file = None

    def _report_others(self, others: int) -> None:
        if others != self._others:
            what = f"shared with {count_noun(others, 'other run')}" if others else "no longer shared"
            self._log_line(f"this machine is {what}")
        self._others = others


def _describe_amount(name: str, amount: int) -> str:
    if name in {"memory", "disk"}:
        return f"{format_size(amount)} of {name}"
    return count_noun(amount, name.removesuffix("s")) if name in _KNOWN else f"{amount} of '{name}'"


def _member_index(name: str, member: str) -> int:
    return unit_index(f"{name}={member}")
