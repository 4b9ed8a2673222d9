"""The resource request of a job."""

# Without postponed annotations: msgspec evaluates them as text, which takes three times as long.

from collections.abc import Iterable, Mapping

import msgspec

MIB = 1024 * 1024
"""Bytes in the unit BPS calls MB."""


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An amount of each resource; ``None`` means not requested, and unknown.

    Attributes
    ----------
    cpus
        Number of logical processors, at least 1.
    memory_b, disk_b
        Bytes.
    walltime_s
        Seconds.
    resources
        Amount per name, for any other resource a site counts.
    """

    cpus: int = 1
    memory_b: int | None = None
    disk_b: int | None = None
    walltime_s: float | None = None
    resources: Mapping[str, int] = msgspec.field(default_factory=dict)

    def amounts(self) -> dict[str, int]:
        """Amount per countable resource that is requested, in a stable order (walltime is not counted)."""
        amounts = {"cpus": self.cpus}
        if self.memory_b is not None:
            amounts["memory"] = self.memory_b
        if self.disk_b is not None:
            amounts["disk"] = self.disk_b
        if self.resources:
            amounts |= {name: self.resources[name] for name in sorted(self.resources)}
        return amounts

    def key(self) -> tuple[object, ...]:
        """A hashable value, equal for equal requests."""
        resources = tuple(sorted(self.resources.items())) if self.resources else ()
        return (self.cpus, self.memory_b, self.disk_b, self.walltime_s, resources)


def largest_memory(requests: Iterable[Request]) -> int | None:
    """Return the largest memory of some requests, in bytes; ``None`` if none of them has one."""
    return max((request.memory_b for request in requests if request.memory_b is not None), default=None)


def round_up(amount: int) -> int:
    """Round an amount up to one of four steps per octave: 1 to 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, ...

    Rounding makes few distinct requests of many.
    """
    if amount <= 8:
        return amount
    shift = amount.bit_length() - 3
    return (((amount - 1) >> shift) + 1) << shift
