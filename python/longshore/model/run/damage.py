"""Damage of a run directory: the changed file and line, and the facts that are unknown as a result."""

from __future__ import annotations

import msgspec

from longshore.errors import RunUnreadableError


class Damage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file, or a line of it, that is not as it was written."""

    path: str
    """The file."""
    line: int | None = None
    """Number of the line, from 1; null for the whole file."""
    what: str
    """What is wrong with it: "it is missing"."""
    unknown: str = ""
    """What is not known because of it."""

    def __str__(self) -> str:
        place = f"'{self.path}'" if self.line is None else f"'{self.path}', line {self.line}"
        return f"{place}: {self.what}" + (f"; {self.unknown}" if self.unknown else "")


class DamagedError(RunUnreadableError):
    """A file of a run directory is damaged; what precedes the damage was read."""

    damage: Damage

    @classmethod
    def of(cls, damage: Damage) -> DamagedError:
        """Return the error that tells a damage."""
        error = cls(str(damage))
        error.damage = damage
        return error
