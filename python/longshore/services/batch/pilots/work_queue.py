"""Attempts that no pilot has, by kind of work: encoded as orders once, when they are submitted.

Attempts of one kind have equal requests and one environment, so that one estimate of their run time serves all. What
they share is not repeated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from longshore.contract.executor import AttemptId, Batch, BatchMember
from longshore.jobs.commands import command_argv
from longshore.keeper.protocol import (
    JOB_VARIABLE,
    RUN_VARIABLE,
    attempt_name,
    encode_order,
    limits_order,
)
from longshore.model.workflow import Request
from longshore.services.batch.pilots.allocations import PilotSettings

MAX_LINE_B: Final = 256 * 1024
"""Bytes of a line of orders, which a pilot reads as a whole."""
_RESERVE_B: Final = 1024
"""Bytes of a line beside its members and their common keys."""


class WorkKind(msgspec.Struct, frozen=True):
    """What attempts of one kind take, each; `need_s` is how much must be left of the allocation when one starts."""

    cpus: int
    memory_b: int
    need_s: float | None
    environment: int


class QueuedMember(msgspec.Struct, frozen=True, gc=False):
    """An attempt in the queue; `text` and `common` are the JSON of its keys, and of those that its batch shares."""

    attempt: AttemptId
    tag: str
    kind: int
    text: bytes
    common: bytes

    @property
    def is_too_long(self) -> bool:
        """Whether no line can hand it over."""
        return len(self.text) + len(self.common) + len(self.tag) + _RESERVE_B > MAX_LINE_B


class WorkQueue:
    """Attempts that wait for a pilot, in order per kind."""

    def __init__(self) -> None:
        self.kinds: list[WorkKind] = []
        """All kinds ever seen; their numbers count from 1."""
        self._numbers: dict[WorkKind, int] = {}
        self._waiting: dict[int, deque[QueuedMember]] = {}
        self._attempts: set[AttemptId] = set()
        self.version = 0
        """Changes with every change of the queue."""

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, attempt: AttemptId) -> bool:
        return attempt in self._attempts

    def number(self, kind: WorkKind) -> int:
        """Return the number of a kind, from 1."""
        if kind not in self._numbers:
            self.kinds.append(kind)
            self._numbers[kind] = len(self.kinds)
        return self._numbers[kind]

    def kind(self, number: int) -> WorkKind:
        """Return a kind by its number."""
        return self.kinds[number - 1]

    def add(self, members: Iterable[QueuedMember], *, first: bool = False) -> None:
        """Add attempts at the end, or those that a pilot gave back at the begin."""
        added = list(members)
        for member in reversed(added) if first else added:
            waiting = self._waiting.setdefault(member.kind, deque())
            (waiting.appendleft if first else waiting.append)(member)
        self._attempts.update(member.attempt for member in added)
        self.version += 1

    def counts(self) -> list[tuple[int, int]]:
        """Return the number of each kind that waits, and of how many attempts; kinds that came first are first."""
        return [(number, len(waiting)) for number, waiting in self._waiting.items() if waiting]

    def take(self, kind: int, count: int) -> list[QueuedMember]:
        """Remove and return so many attempts of a kind."""
        waiting = self._waiting[kind]
        taken = [waiting.popleft() for _ in range(min(count, len(waiting)))]
        self._attempts.difference_update(member.attempt for member in taken)
        if not waiting:
            # A kind that comes again comes last.
            del self._waiting[kind]
        self.version += 1
        return taken

    def remove(self, attempts: Collection[AttemptId]) -> list[QueuedMember]:
        """Remove and return those of the attempts that wait."""
        unwanted = self._attempts & set(attempts)
        if not unwanted:
            return []
        removed = []
        for kind, waiting in list(self._waiting.items()):
            removed += [member for member in waiting if member.attempt in unwanted]
            left = deque(member for member in waiting if member.attempt not in unwanted)
            if left:
                self._waiting[kind] = left
            else:
                del self._waiting[kind]
        self._attempts -= unwanted
        self.version += 1
        return removed

    def members(self) -> list[QueuedMember]:
        """List all attempts that wait."""
        return [member for waiting in self._waiting.values() for member in waiting]


def hand_over_lines(members: Sequence[QueuedMember], kind: WorkKind) -> Iterable[tuple[str, list[AttemptId], bytes]]:
    """Yield the orders that hand attempts of one kind over: tag, attempts, and the line without its checksum."""
    need = b"null" if kind.need_s is None else msgspec.json.encode(kind.need_s)
    request = b'{"cpus":%d,"memory":%d}' % (kind.cpus, kind.memory_b)
    begin = 0
    while begin < len(members):
        first = members[begin]
        size, end = len(first.common) + len(first.tag) + _RESERVE_B, begin
        while end < len(members) and (members[end].tag, members[end].common) == (first.tag, first.common):
            size += len(members[end].text) + 1
            if size > MAX_LINE_B and end > begin:
                break
            end += 1
        chosen = members[begin:end]
        head = b'{"o":"run","b":%s,"q":%s,"need":%s,"p":%s,"m":[' % (
            msgspec.json.encode(first.tag),
            request,
            need,
            first.common,
        )
        text = head + b",".join(member.text for member in chosen) + b"]}"
        yield first.tag, [member.attempt for member in chosen], text
        begin = end


# Encoding as orders.


_COMMON: Final = ("cwd", "lim")
"""Keys that the members of a batch usually have in common."""
_LIFE_SHIFT: Final = 20
"""Bits of the number of an environment below the life that made it."""


class TooLongError(Exception):
    """An attempt or an environment that no line of orders can have."""


class MemberEncoder:
    """Encodes the batches of one life.

    `root` is the run directory, and `token` tells the run's processes from all others.
    """

    def __init__(self, settings: PilotSettings, queue: WorkQueue, *, root: str, token: str, life: int) -> None:
        self._settings = settings
        self._queue = queue
        self._root = root
        self._token = token
        self._next = life << _LIFE_SHIFT
        self._shared: list[Mapping[str, str]] = []
        """Kept alive, so that no other mapping can have the identity of one of them."""
        self._numbers: dict[int, int] = {}
        """Number of an environment, by the identity of its mapping."""
        self.environments: dict[int, bytes] = {}
        """Order of each environment, by its number."""
        self._newest: tuple[dict[str, Any], bytes] = ({}, b"")
        """Common keys of the newest member, which are usually those of the next one, and their encoding."""

    def encode(self, batch: Batch) -> list[QueuedMember]:
        """Return the members of a batch for the queue. Raises `TooLongError`."""
        members: list[QueuedMember] = []
        for member in batch.members:
            environment = self._environment(member.shared)
            kind = self._queue.number(self._kind(batch.request, environment))
            keys = self._keys(member)
            common: dict[str, Any] = {"e": environment}
            common |= {name: keys.pop(name) for name in _COMMON if name in keys}
            if common != self._newest[0]:
                self._newest = common, encode_order(common)
            attempt = member.job, member.attempt
            encoded = QueuedMember(attempt, batch.tag, kind, encode_order(keys), self._newest[1])
            if encoded.is_too_long:
                raise TooLongError(
                    f"the command and the variables of job '{member.name}' take more than {MAX_LINE_B // 1024} KiB, "
                    "which a pilot does not take: set 'packing: job' for it"
                )
            members.append(encoded)
        return members

    def _keys(self, member: BatchMember) -> dict[str, Any]:
        """Return the keys of a member's order, except that of its environment."""
        hidden = self._settings.hidden_variables
        variables = {name: value for name, value in member.environment.items() if member.shared.get(name) != value}
        variables |= {name: "" for name in hidden if name not in member.environment}
        variables[JOB_VARIABLE] = attempt_name(member.job, member.attempt)
        keys: dict[str, Any] = {
            "j": member.job,
            "a": member.attempt,
            "argv": command_argv(member.command),
            "v": variables,
            "cwd": member.working_directory,
            "log": f"{self._root}/{member.log}",
        }
        if member.outputs:
            keys["out"] = member.outputs
        if member.limits:
            keys["lim"] = limits_order(member.limits, signals=self._settings.signals, grace_s=self._settings.grace_s)
        return keys

    def _kind(self, request: Request, environment: int) -> WorkKind:
        settings = self._settings
        # Without a request, a job takes as much memory as its processors have.
        memory_b = settings.memory_b * request.cpus // settings.cpus if request.memory_b is None else request.memory_b
        return WorkKind(request.cpus, memory_b, request.walltime_s, environment)

    def _environment(self, shared: Mapping[str, str]) -> int:
        """Return the number of an environment on top of the allocation's own."""
        # Without variables, each member has a mapping of its own.
        identity = id(shared) if shared else 0
        number = self._numbers.get(identity)
        if number is None:
            self._next += 1
            number = self._next
            order = encode_order({"o": "env", "id": number, "on": 0, "env": {**shared, RUN_VARIABLE: self._token}})
            if len(order) >= MAX_LINE_B:
                raise TooLongError(f"the environment takes more than {MAX_LINE_B // 1024} KiB")
            self._numbers[identity] = number
            self._shared.append(shared)
            self.environments[number] = order
        return number
