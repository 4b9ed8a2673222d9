"""Pauses a run when a broken host, or one mistake, fails every job at once; apart so that it stays pure.

A machine with a broken disk ends each job in a moment, asks for the next, and so eats a whole run in minutes. The sign
is a row of different jobs that fail fast on one host with no success among them.

"""

from __future__ import annotations

from collections.abc import Iterable

from longshore.model.event import Ended, Event, Restarted, Started, Steer
from longshore.model.states import Cause

_HOST_CAUSES = frozenset({Cause.EXIT, Cause.SIGNAL, Cause.SUBMIT, Cause.PREDICATE, Cause.OUTPUT_MISSING})
"""Causes that a broken machine also produces; a job that needs more memory says nothing of its host."""


class FastFailures:
    """Jobs that failed fast in a row, per host.

    Parameters
    ----------
    most
        Most different jobs that may fail in a row; 0 means any number.
    within_s
        Run time up to which a failure is fast.
    """

    def __init__(self, most: int, within_s: float) -> None:
        self._most = most
        self._within_s = within_s
        self._failures: dict[str, dict[int, None]] = {}
        self._hosts: dict[int, str] = {}
        self.pause_reason = ""
        """Why the run should be paused; empty while it should not."""

    def update(self, events: Iterable[Event]) -> None:
        """Update the failures with events, in order."""
        for event in events if self._most else ():
            if type(event) is Ended:
                self._count_end(event)
            elif type(event) is Started:
                if event.host:
                    self._hosts[event.j] = event.host
            elif isinstance(event, Restarted) or (isinstance(event, Steer) and event.act in {"pause", "unpause"}):
                # The person who resumes the run has seen these failures, and needs to see new ones.
                self._failures.clear()
                self.pause_reason = ""

    def _count_end(self, event: Ended) -> None:
        host = event.host or self._hosts.pop(event.j, "")
        self._hosts.pop(event.j, None)
        if event.cause is None:
            self._failures.pop(host, None)
            return
        if event.cause not in _HOST_CAUSES or (event.run_s or 0.0) > self._within_s:
            return
        jobs = self._failures.setdefault(host, {})
        jobs[event.j] = None
        if len(jobs) >= self._most and not self.pause_reason:
            place = f" on '{host}'" if host else ""
            self.pause_reason = (
                f"{len(jobs)} different jobs failed in a row{place}, each within {self._within_s:g} s, and none "
                f"succeeded{_describe_last(event)}"
            )


def _describe_last(event: Ended) -> str:
    """Describe how the last of the failed jobs ended."""
    if event.reason:
        return f"; the last: {event.reason}"
    return f"; the last with exit code {event.exit}" if event.exit is not None else ""
