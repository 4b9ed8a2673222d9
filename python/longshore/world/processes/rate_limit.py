"""Rate limit shared by all processes of a user on this host, kept in a file."""

from __future__ import annotations

import math
from pathlib import Path

from longshore.world.files.atomic import write_atomically
from longshore.world.files.folder import make_folders
from longshore.world.files.locks import take_lock
from longshore.world.host import boot_id
from longshore.world.processes.query_cache import seconds_since_boot


class RateLimit:
    """A rate limit of `per_s` actions per second; unused ones expire after a second, so that bursts stay small.

    `path` holds the time of the next allowed action; each kind of action has its own.
    """

    def __init__(self, path: Path, per_s: float) -> None:
        self._path = path
        self._interval_s = 1.0 / per_s
        self._burst_s = (max(1, math.floor(per_s)) - 1) * self._interval_s
        """How far ahead actions are allowed: as many as a second has, and at least one."""

    def count_available(self) -> int:
        """Count the actions allowed now, provided that no other process takes them."""
        now = seconds_since_boot()
        return max(0, math.floor((now + self._burst_s - max(self._read_next_s(), now)) / self._interval_s + 1e-6) + 1)

    def acquire(self) -> float:
        """Take an action and return 0; when none is allowed, return the seconds until the next."""
        try:
            make_folders(self._path.parent)
            with take_lock(self._path.with_suffix(".lock"), wait_s=math.inf):
                now = seconds_since_boot()
                next_s = max(self._read_next_s(), now)
                wait_s = next_s - now - self._burst_s
                if wait_s > 1e-6:
                    return wait_s
                write_atomically(self._path, f"{boot_id()} {next_s + self._interval_s!r}")
        except OSError:
            # A home that cannot be written must not stop the action.
            return 0.0
        return 0.0

    def _read_next_s(self) -> float:
        """Read the time of the next allowed action, in seconds since boot; ignored when it is of another boot."""
        try:
            boot, _, text = self._path.read_text("utf-8").partition(" ")
            next_s = float(text)
        except (OSError, ValueError):
            return 0.0
        return next_s if boot == boot_id() and math.isfinite(next_s) else 0.0
