"""Pages of the dashboard, each made anew when a browser asks for it and its last one is old."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from longshore.app.inspect.run_list import RunQuery, list_runs
from longshore.app.page.html_page import make_run_page
from longshore.app.page.render import render_list_page
from longshore.app.runs.open_run import open_run
from longshore.errors import RunNotFoundError
from longshore.world.runs.registry import read_entries

POLL_S: Final = 2
"""Seconds between two looks of a browser at its page."""
_SHARE: Final = 10.0
"""A page that took long to make is kept for this many times as long, times the open pages: looking costs little."""
_OPEN_S: Final = 5 * POLL_S
"""Seconds after its last use that a page counts as open: a browser that shows it would have asked for a new one."""
_EVER_DAYS: Final = 36_500.0
_MAX_PAGES: Final = 50


class MadePage(msgspec.Struct, frozen=True):
    """A page as text, a tag that changes with it, and the monotonic time of its expiry."""

    body: bytes
    tag: str
    until: float


class DashboardPages:
    """Makes pages on demand, for many threads; a page that several ask for at once is made once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, make: Callable[[str], str] | None = None) -> None:
        self._clock = clock
        self._make = make or _make_page
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._pages: dict[str, MadePage] = {}

    def page(self, run: str) -> MadePage:
        """Return the page of a run by one of its ids, or the list of runs if that is empty.

        Raises
        ------
        RunNotFoundError
            No such run is registered, or its directory is gone.
        READ_ERRORS
            The run cannot be read.
        """
        with self._lock:
            lock = self._locks.setdefault(run, threading.Lock())
        with lock:
            made = self._pages.get(run)
            began = self._clock()
            if made is None or made.until <= began:
                text = self._make(run)
                cost = self._clock() - began
                body = text.encode()
                tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
                rest = _SHARE * cost * self._count_open(run, began)
                made = MadePage(body, tag, began + cost + max(POLL_S / 2, rest))
                self._keep(run, made)
            return made

    def _count_open(self, run: str, now: float) -> int:
        """Count the pages that browsers look at, with that of a run."""
        with self._lock:
            return 1 + sum(made.until + _OPEN_S > now for key, made in self._pages.items() if key != run)

    def _keep(self, run: str, made: MadePage) -> None:
        with self._lock:
            self._pages.pop(run, None)
            self._pages[run] = made
            while len(self._pages) > _MAX_PAGES:
                # The one that was made first; its lock may be in use.
                self._pages.pop(next(iter(self._pages)))


def _make_page(run: str) -> str:
    return _run_page(run) if run else _list_page()


def _run_page(run: str) -> str:
    """Return the page of a registered run; no address opens anything else.

    The list of runs has the ids of workload managers, where these assign some.
    """
    known = list(read_entries())
    found = [entry for entry in known if entry.id == run] or [entry for entry in known if run in entry.other_ids]
    if not found:
        raise RunNotFoundError(f"no run '{run}' is registered")
    # A workload manager that was reinstalled counts its ids from the beginning again.
    newest = max(found, key=lambda entry: (entry.created_at, entry.id))
    return make_run_page(open_run(newest.id), home="../", poll_s=POLL_S)


def _list_page() -> str:
    found = list_runs(RunQuery(days=_EVER_DAYS), now=time.time())
    return render_list_page(found.reports[::-1], found.notes, poll_s=POLL_S)
