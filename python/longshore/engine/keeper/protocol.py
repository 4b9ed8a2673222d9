"""Types of the orders that a keeper takes and of parts of its records; `keeper` documents the protocol.

Only type checkers need it where a keeper runs, so it is not among the files that are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypeAlias, TypedDict


class LimitsOrder(TypedDict, total=False):
    """Limits of an attempt, all optional; `watchdog.WatchedAttempt` documents them."""

    mem: int
    asked: int
    wall: float
    log: int
    tmp: str
    sig: Sequence[int]
    grace: float


class MemberOrder(TypedDict):
    """An attempt to start."""

    j: int
    a: int
    argv: list[str] | tuple[str, ...]
    e: int
    v: Mapping[str, str]
    cwd: str
    log: str
    lim: NotRequired[LimitsOrder]
    out: NotRequired[list[str] | tuple[str, ...]]
    u: NotRequired[Sequence[Sequence[int]]]


class EnvironmentOrder(TypedDict):
    """An environment for later orders to refer to."""

    o: Literal["env"]
    id: int
    on: NotRequired[int]
    env: Mapping[str, str]


class RunOrder(TypedDict):
    """Attempts to start, at once or as their lane has slots."""

    o: Literal["run"]
    b: str
    m: Sequence[MemberOrder]
    l: NotRequired[str]  # noqa: E741 - the name of the key
    n: NotRequired[int]


class KillOrder(TypedDict):
    """A signal to attempts."""

    o: Literal["kill"]
    m: Sequence[tuple[int, int]]
    sig: int


class EndNotes(TypedDict, total=False):
    """Fields of an end record beside status and times."""

    why: str
    say: str
    rss: int
    tmp: str
    out: Sequence[tuple[int, str]]
    st: Sequence[tuple[int, int]]
    """Size and modification time (ns) of each output, if all are there."""


Order: TypeAlias = EnvironmentOrder | RunOrder | KillOrder
