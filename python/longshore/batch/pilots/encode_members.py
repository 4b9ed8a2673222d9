"""Encoding of a batch's members as orders for pilots: once, when they are submitted, without what they share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from longshore.batch.pilots.allocation import PilotSettings
from longshore.batch.pilots.pool.work_queue import MAX_LINE_B, QueuedMember, WorkKind, WorkQueue
from longshore.contract.executor import Batch, BatchMember
from longshore.engine.keeper_io.member_orders import (
    JOB_VARIABLE,
    RUN_VARIABLE,
    attempt_name,
    encode_order,
    limits_order,
)
from longshore.model.workflow import Request
from longshore.plan.job_commands import command_argv

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
