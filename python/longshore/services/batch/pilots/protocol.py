"""Types of an engine's orders to a pilot and of the pilot's records, apart because nodes that run pilots lack them.

Each pilot and node has files with a common prefix: ``orders.G``, which the engine writes, and ``records``, which the
pilot writes. G counts the lives of the engine that gave orders to this pilot, from 1.

Each line is compact JSON. It ends with the member ``c``: the running CRC-32 of the file, as in
`longshore.keeper.program.attempts`. A reader takes no line whose checksum does not match, because a network file system
can show zeros before it shows data. In a `HandOverOrder`, ``m`` is the last member before ``c``. No member of ``p`` is
repeated in ``m``, and a line has at most 256 KiB, since it is read as a whole.

Only type checkers need this module where a pilot runs, so it is not among the files that are copied.
The reason is in decision 0114.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypeAlias, TypedDict

from longshore.keeper.protocol import EnvironmentOrder, KillOrder, LimitsOrder

AttemptId: TypeAlias = tuple[int, int]
"""Number of a job, and of its attempt."""


class ResourceRequest(TypedDict):
    """What each member of an order takes while it runs; memory in bytes."""

    cpus: int
    memory: int


class CommonKeys(TypedDict, total=False):
    """Keys that all members of an order share; the keeper's `MemberOrder` documents them."""

    e: int
    cwd: str
    v: Mapping[str, str]
    lim: LimitsOrder


class HandedMember(CommonKeys):
    """An attempt that is handed to a pilot, without the common keys."""

    j: int
    a: int
    argv: Sequence[str]
    log: str
    out: NotRequired[Sequence[str]]


class HandOverOrder(TypedDict):
    """Attempts to run, which wait in the pilot until their request fits."""

    o: Literal["run"]
    b: str
    q: ResourceRequest
    need: float | None
    """Seconds that must be left of the allocation when one starts; ``None`` if unknown."""
    p: CommonKeys
    m: Sequence[HandedMember]


class BackOrder(TypedDict):
    """Request to give back attempts that have no `GotRecord`: those named in `m`, or the newest `n`."""

    o: Literal["back"]
    m: NotRequired[Sequence[AttemptId]]
    n: NotRequired[int]


class AcknowledgeOrder(TypedDict):
    """The engine has read the beat `k`."""

    o: Literal["ack"]
    k: int


class EndOrder(TypedDict):
    """Request to give back all that wait, to wait for what runs, and to close."""

    o: Literal["end"]


PilotOrder: TypeAlias = EnvironmentOrder | HandOverOrder | BackOrder | KillOrder | AcknowledgeOrder | EndOrder
"""A `KillOrder` also gives back attempts that have not begun. Environment 0 is the allocation's own, and never sent."""


class PilotRecord(TypedDict):
    """First record of a pilot on a node; `until` has the seconds that are left of the allocation."""

    r: Literal["pilot"]
    v: Literal[1]
    node: int
    host: str
    boot: str
    pid: int
    cpus: int
    memory: int
    until: float


class GenerationRecord(TypedDict):
    """The pilot follows `orders.g` for good, and took the older file `orders.was` up to the byte `at`."""

    r: Literal["gen"]
    g: int
    was: int
    at: int


class BeatRecord(TypedDict):
    """Sign of life: bytes taken of the orders, and numbers of attempts that run and that wait."""

    r: Literal["beat"]
    k: int
    at: int
    run: int
    wait: int


class GotRecord(TypedDict):
    """Attempts that may begin from now on; it is durable before any of them is started."""

    r: Literal["got"]
    m: Sequence[AttemptId]


class NeverRecord(TypedDict):
    """Attempts that are given back: they were not started, and will not be; some may have a `GotRecord`."""

    r: Literal["never"]
    m: Sequence[AttemptId]


class PilotClosedRecord(TypedDict):
    """Last record: nothing runs, and nothing will start.

    An attempt with a `GotRecord`, but neither given back nor ended, may have begun. One without it never did.
    """

    r: Literal["closed"]
    why: str
