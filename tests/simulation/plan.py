"""Plans of histories: what a seed stands for, as data, so that a failing one can be made smaller and read.

A history depends on its plan alone. Chance is used twice: to make the plan from a seed, and, where the plan has no word
on it (which unsynced writes survive a power loss), by a generator seeded with the plan's seed.
"""

from __future__ import annotations

import errno
from random import Random
from typing import Any, Final, Literal, TypeAlias

import msgspec

World: TypeAlias = Literal["manager", "local", "pilots"]
FaultKind: TypeAlias = Literal["kill", "stop", "power", "error", "short", "full", "clock", "silence", "partition"]
Target: TypeAlias = Literal["any", "engine", "keeper", "guard", "pilot", "node", "user", "all"]
OrderKind: TypeAlias = Literal[
    "cancel", "pause", "unpause", "throttle", "hold", "release", "set", "resume", "take-over", "restart"
]


class AttemptPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Course of an attempt: delays in seconds, and its end.

    `lost` is an end that the manager forgets; `reports` is how often the manager tells each piece of news.
    """

    queue_s: float = 0.0
    run_s: float = 1.0
    exit: int = 0
    signal: int = 0
    oom: bool = False
    lost: bool = False
    hangs: bool = False
    """Whether it ends only when it is killed: it ignores TERM."""
    start_delay_s: float = 0.0
    end_delay_s: float = 0.0
    reports: int = 1


class JobPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job: numbers of its parents, and its attempts; later attempts are like the last."""

    parents: tuple[int, ...] = ()
    attempts: tuple[AttemptPlan, ...] = (AttemptPlan(),)
    label: str = "a"


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fault that strikes at a call: the `after`-th since the fault before, of calls `op` of processes `at`."""

    kind: FaultKind
    after: int = 0
    at: Target = "any"
    op: str = "any"
    hits: Target = "any"
    """Whom it kills or stops; ``any`` is the process that makes the call, ``node`` all that runs beside it."""
    late: bool = False
    """Whether the call still has its effect; of a ``partition``, whether calls fail instead of hanging."""
    seconds: float = 0.0
    number: int = 0
    """The error number of an ``error``."""


class Order(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a user does, some seconds after the start."""

    at_s: float
    act: OrderKind
    jobs: tuple[int, ...] = ()
    value: str = ""


class DamagePlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Damage of one file that the run relies on, at a moment without engine and commands.

    `file` and `place` choose the file and the place in it; they are at least 0 and less than 1.
    """

    kind: Literal["flip", "cut", "drop", "gone"]
    is_over: bool = False
    """Whether the run is over then; else it waits for its `resume`."""
    file: float = 0.0
    place: float = 0.0
    bit: int = 0


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that a history depends on."""

    seed: int
    world: World = "manager"
    jobs: tuple[JobPlan, ...] = (JobPlan(),)
    final: bool = False
    retries: int = 1
    retries_on_lost: int = 2
    grace_s: float = 2.0
    cpus: int = 2
    max_batch: int = 1
    replies: tuple[str, ...] = ()
    """Answers of the manager to the first batches, as `SubmitReply` has them; later ones are accepted."""
    shuffles: bool = False
    faults: tuple[Fault, ...] = ()
    orders: tuple[Order, ...] = ()
    damage: DamagePlan | None = None
    late_s: float = 0.0
    """Seconds after which a host sees what others wrote into the mailboxes of pilots."""
    walltime_s: float = 0.0
    """Seconds that an allocation for a pilot may run; 0 for no end."""
    prepares: bool = False
    """Whether the faults begin with the preparation of the run; else with its submission."""


_OPS: Final = ("any", "any", "any", "write", "sync", "rename", "open", "act", "wait")
_ERRORS: Final = (errno.EIO, errno.EIO, errno.ENOSPC, errno.EDQUOT)
_DAMAGED: Final = 0.15
"""Share of histories in which a file is damaged."""
_PREPARED: Final = 0.1
"""Share of histories whose faults begin with the preparation."""
_REPLIES: Final = ("ACCEPTED", "ACCEPTED", "REFUSED", "THROTTLED", "UNSURE_TAKEN", "UNSURE_NOT_TAKEN", "DROPPED")


def make_plan(seed: int, *, world: World | None = None) -> Plan:
    """Return the plan of a seed."""
    lot = Random(seed)
    chosen: World = world or ("local" if lot.random() < 0.5 else "manager")
    size = lot.choice((2, 4, 6, 8, 12, 20) if chosen == "pilots" else (1, 2, 3, 3, 4, 5, 6, 8))
    jobs = tuple(_make_job(lot, number, chosen) for number in range(size))
    few = 1 if chosen == "pilots" else 0
    faults = [_make_fault(lot, chosen) for _ in range(few + lot.choice((0, 1, 1, 2, 2, 3, 4, 6)))]
    if lot.random() < 0.25:
        faults.insert(lot.randint(0, len(faults)), _make_hang(lot))
    orders = tuple(_make_order(lot, size) for _ in range(lot.choice((0, 0, 0, 1, 1, 2, 3))))
    damage = _make_damage(Random(f"{seed} damage"))
    if damage is not None and not damage.is_over:
        # It waits for a moment without an engine.
        faults.append(Fault(kind="kill", after=lot.randint(10, 60), at="engine"))
    prepares = Random(f"{seed} prepares")
    with_preparation = prepares.random() < _PREPARED
    if with_preparation:
        faults.insert(0, _make_fault_of_preparation(prepares))
    return Plan(
        seed=seed,
        world=chosen,
        jobs=jobs,
        final=lot.random() < 0.2,
        retries=lot.choice((0, 1, 2)),
        retries_on_lost=lot.choice((0, 1, 3)),
        cpus=lot.choice((1, 2, 4)),
        max_batch=lot.choice((1, 1, 3)) if chosen == "manager" else 1,
        replies=tuple(lot.choice(_REPLIES) for _ in range(lot.choice((0, 0, 2, 4)))) if chosen == "manager" else (),
        shuffles=chosen == "manager" and lot.random() < 0.5,
        faults=tuple(faults),
        orders=tuple(sorted(orders, key=lambda order: order.at_s)),
        damage=damage,
        prepares=with_preparation,
        **_make_pilots(Random(f"{seed} pilots"), chosen),
    )


def _make_pilots(lot: Random, world: World) -> dict[str, Any]:
    if world != "pilots":
        return {}
    return {"late_s": lot.choice((0.0, 0.0, 0.2, 1.5)), "walltime_s": lot.choice((0.0, 0.0, 60.0))}


def _make_job(lot: Random, number: int, world: World) -> JobPlan:
    # Many jobs that wait for nothing, so that pilots have work ahead.
    most = lot.choice((0, 0, 0, 0, 1) if world == "pilots" else (0, 0, 1, 1, 2))
    parents = tuple(sorted(lot.sample(range(number), min(number, most))))
    attempts = tuple(_make_attempt(lot, world) for _ in range(lot.choice((1, 1, 1, 2, 3))))
    return JobPlan(parents=parents, attempts=attempts, label=lot.choice(("a", "a", "b")))


def _make_attempt(lot: Random, world: World) -> AttemptPlan:
    kind = lot.random()
    failure: dict[str, object] = {}
    if kind < 0.12:
        failure = {"exit": lot.choice((1, 2, 126))}
    elif kind < 0.18:
        failure = {"signal": lot.choice((9, 11, 15))}
    elif kind < 0.22:
        failure = {"oom": True, "signal": 9}
    elif kind < 0.25 and world == "manager":
        failure = {"lost": True}
    elif kind < 0.29:
        failure = {"hangs": True, "run_s": 8.0}
    delays: dict[str, object] = {}
    if world == "manager":
        delays = {
            "queue_s": lot.choice((0.0, 0.0, 0.5, 3.0)),
            "start_delay_s": lot.choice((0.0, 0.0, 2.0)),
            "end_delay_s": lot.choice((0.0, 0.0, 0.4, 3.0)),
            "reports": lot.choice((1, 1, 1, 2)),
        }
    return msgspec.convert({"run_s": lot.choice((0.0, 0.001, 0.02, 0.3, 1.0, 4.0)), **delays, **failure}, AttemptPlan)


def _make_fault(lot: Random, world: World) -> Fault:
    kinds: tuple[FaultKind, ...] = ("kill", "kill", "kill", "stop", "stop", "power", "power", "error", "short", "full")
    kinds = (*kinds, "clock", "kill" if world == "local" else "silence")
    targets: tuple[Target, ...] = ("any", "engine", "engine", "user")
    hits: tuple[Target, ...] = ("any", "any", "engine", "keeper", "guard", "all")
    if world == "local":
        targets = (*targets, "keeper", "keeper", "guard")
    elif world == "pilots":
        kinds = (*kinds, "partition", "partition")
        targets = (*targets, "pilot", "pilot", "pilot", "keeper", "guard")
        hits = (*hits, "pilot", "node", "node")
    kind = lot.choice(kinds)
    return Fault(
        kind=kind,
        after=int(lot.expovariate(1 / lot.choice((3, 30, 400 if world == "pilots" else 120)))),
        at=lot.choice(targets),
        op=lot.choice(_OPS),
        hits=lot.choice(hits) if world != "manager" else "any",
        late=lot.random() < 0.5,
        seconds=lot.choice((0.01, 0.3, 2.0, 30.0, 90.0)) * (-1 if kind == "clock" and lot.random() < 0.5 else 1),
        number=lot.choice(_ERRORS) if kind == "error" else 0,
    )


def _make_hang(lot: Random) -> Fault:
    """Return a stop of an engine in the middle of a round, long enough for another to take over."""
    op = lot.choice(("write", "sync", "stat", "any"))
    return Fault(kind="stop", after=lot.randint(0, 40), at="engine", op=op, seconds=lot.choice((5.0, 30.0)))


def _make_damage(lot: Random) -> DamagePlan | None:
    if lot.random() > _DAMAGED:
        return None
    kind: Literal["flip", "cut", "drop", "gone"] = lot.choice(("flip", "flip", "cut", "drop", "drop", "gone"))
    return DamagePlan(
        kind=kind, is_over=lot.random() < 0.4, file=lot.random(), place=lot.random(), bit=lot.randrange(8)
    )


def _make_fault_of_preparation(lot: Random) -> Fault:
    kind: FaultKind = lot.choice(("kill", "kill", "power", "power", "error", "short", "full"))
    return Fault(
        kind=kind,
        after=lot.randint(0, 130),
        at="user",
        late=lot.random() < 0.5,
        seconds=2.0,
        number=lot.choice(_ERRORS) if kind == "error" else 0,
    )


def _make_order(lot: Random, size: int) -> Order:
    acts: tuple[OrderKind, ...] = (
        *("cancel", "cancel", "pause", "throttle", "hold", "set", "resume", "resume"),
        *("take-over", "take-over", "restart", "unpause", "release"),
    )
    act = lot.choice(acts)
    jobs = tuple(sorted(lot.sample(range(size), lot.choice((0, 1, min(2, size))))))
    return Order(at_s=lot.choice((0.0, 0.1, 0.7, 2.0, 5.0, 12.0)) + lot.random(), act=act, jobs=jobs)
