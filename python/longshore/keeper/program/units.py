"""Units: holds what an attempt takes of the machine and of limits, as locks that the kernel keeps.

A unit is a processor, a byte of memory, a GPU, one of the jobs that a limit allows. All units of one user's runs on a
host are bytes of one file, which stays as it is: only its locks count. They belong to the open file (fcntl(2), "open
file description locks"), so guard and keeper, which share it, hold them until both are dead, and no run can hold what
another one holds. The units of a resource begin at its index times 2**48, and a run that knows of fewer takes the first
of them: those who know of more take theirs from the end.

Part of the keeper, beside which it is copied, so that it too needs nothing but the standard library. Engines hold the
units of jobs that run elsewhere, and look at all of them.
"""

from __future__ import annotations

import errno
import fcntl
import struct

TYPE_CHECKING = False
if TYPE_CHECKING or __name__ != "units":
    from longshore.keeper.program.kernel import system
else:
    # The copy beside the keeper is not in a package.
    from kernel import system

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Any, Protocol

    class SupportsFcntl(Protocol):
        """A door to the operating system."""

        @property
        def fcntl(self) -> Any:
            """Call as `fcntl.fcntl`."""

    UnitRange = tuple[int, int]
    """First unit, and the one after the last."""

INDEX_SPACE = 1 << 48
"""Units of a resource: 256 TiB of memory."""
_FLOCK = struct.Struct("@hhqqi4x")
"""Type, whence, start, length and process of ``struct flock``."""
_BUSY = (errno.EAGAIN, errno.EACCES)


class UnitFile:
    """The file of units, by its descriptor; `door` has the calls of the operating system."""

    def __init__(self, file: int, door: SupportsFcntl = system) -> None:
        self.file = file
        self.door = door

    def lock(self, start: int, end: int) -> bool:
        """Lock a range; return whether nobody else has a part of it."""
        try:
            self.door.fcntl(self.file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, start, end - start, 0))
        except OSError as error:
            if error.errno in _BUSY:
                return False
            raise
        return True

    def unlock(self, start: int, end: int) -> None:
        """Release a range."""
        self.door.fcntl(self.file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, 0, start, end - start, 0))

    def find_locked(self, start: int, end: int) -> list[UnitRange]:
        """Return the parts of a range that others have locked, in order."""
        found: list[UnitRange] = []
        unknown = [(start, end)]
        while unknown:
            start, end = unknown.pop()
            if start >= end:
                continue
            # The kernel tells any lock in the range, not the first one.
            query = _FLOCK.pack(fcntl.F_WRLCK, 0, start, end - start, 0)
            kind, _, first, length, _ = _FLOCK.unpack(self.door.fcntl(self.file, fcntl.F_OFD_GETLK, query))
            if kind == fcntl.F_UNLCK:
                continue
            # A length of 0 is all that follows.
            after = first + length if length else end
            found.append((max(first, start), min(after, end)))
            unknown += [(start, first), (after, end)]
        return sorted(found)

    def count_locked(self, index: int, most: int) -> int:
        """Count the units of a resource that others have locked, of so many that there are."""
        base = index * INDEX_SPACE
        return sum(end - start for start, end in self.find_locked(base, base + most))


class HeldUnits:
    """The units that holders have, such as attempts, all by one open file.

    What a holder wants is a sequence of index, amount, and how many units the resource has, as its run knows it.
    """

    def __init__(self, file: UnitFile) -> None:
        self.file = file
        self.ranges: dict[Hashable, list[UnitRange]] = {}

    def take(self, holder: Hashable, wanted: Sequence[Sequence[int]]) -> bool:
        """Take all units that a holder wants, or none; return whether it has them."""
        if holder in self.ranges:
            return True
        taken: list[UnitRange] = []
        for index, amount, most in wanted:
            if not self._take_amount(index * INDEX_SPACE, min(amount, most), most, taken):
                for start, end in taken:
                    self.file.unlock(start, end)
                return False
        self.ranges[holder] = taken
        return True

    def _take_amount(self, base: int, amount: int, most: int, taken: list[UnitRange]) -> bool:
        """Take an amount of one resource from the end, and add the ranges."""
        end = base + most
        free = []
        for start, after in (*self._not_free(base, end), (end, end)):
            if start > base:
                free.append((base, start))
            base = max(base, after)
        for start, after in reversed(free):
            if amount <= 0:
                break
            first = max(start, after - amount)
            # Another run may have been quicker.
            if not self.file.lock(first, after):
                return False
            taken.append((first, after))
            amount -= after - first
        return amount <= 0

    def _not_free(self, base: int, end: int) -> list[UnitRange]:
        own = (each for ranges in self.ranges.values() for each in ranges if base <= each[0] < end)
        return sorted([*own, *self.file.find_locked(base, end)])

    def pass_on(self, holder: Hashable, heir: Hashable | None) -> None:
        """Give the units of a holder to an heir that wants the same, or release them without one."""
        ranges = self.ranges.pop(holder, None)
        if ranges is None:
            return
        if heir is not None:
            self.ranges[heir] = ranges
            return
        for start, end in ranges:
            self.file.unlock(start, end)
