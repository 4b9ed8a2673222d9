"""Newest attempts: start and end of each job's newest attempt, in a few bytes per job."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from longshore.model.run.event import AttemptFacts, AttemptSucceeded, Ended, Lost, Started, add_facts

_UNKNOWN_B: Final = -1


class NewestAttempts:
    """Start and end of each job's newest attempt.

    Successes, of which a run has hundreds of thousands, are in columns by job: events that were kept would be scattered
    over the memory, and take longer to read back than to decode. Of them, only what reports of jobs show is kept.

    Attributes
    ----------
    started, start_times, hosts
        The attempt that started last, when, and where. A time is not a number (NaN) if it is unknown.
    succeeded
        The attempt, where the newest end is a success after a start whose time and host are known; else 0. The columns
        below are of these, and their exit code is 0.
    end_times, run_s, cpu_s, rss_b
        As in `Ended`; an unknown `cpu_s` is not a number, an unknown `rss_b` is -1.
    other_ends
        Newest ends that are not in columns.
    shared_hosts
        The string that stands for each host.
    """

    def __init__(self, size: int) -> None:
        numbers, times = bytes(size * array("l").itemsize), array("d", [math.nan]) * size
        self.started, self.succeeded = array("l", numbers), array("l", numbers)
        self.start_times, self.end_times, self.run_s, self.cpu_s = times, times[:], times[:], times[:]
        self.rss_b = array("q", [_UNKNOWN_B]) * size
        self.hosts: list[str | None] = [None] * size
        self.shared_hosts: dict[str, str] = {}
        self.other_ends: dict[int, Ended | Lost] = {}

    def note_successes(self, events: Iterable[AttemptSucceeded]) -> None:
        """Record starts and ends of attempts that succeeded, in order."""
        started, start_times, hosts, shared = self.started, self.start_times, self.hosts, self.shared_hosts
        succeeded, end_times, run_s, cpu_s, rss_b = self.succeeded, self.end_times, self.run_s, self.cpu_s, self.rss_b
        others = self.other_ends
        for event in events:
            if event.host is None:
                continue
            # As `note_start` and `note_end`, without a call.
            job = event.j
            started[job] = succeeded[job] = event.a
            start_times[job] = event.at
            hosts[job] = shared.setdefault(event.host, event.host)
            end_times[job] = event.end
            run_s[job] = event.run_s
            cpu_s[job] = math.nan if event.cpu_s is None else event.cpu_s
            rss_b[job] = _UNKNOWN_B if event.rss_b is None else event.rss_b
            if others:
                others.pop(job, None)

    def note_start(self, event: Started) -> None:
        """Record where and when an attempt started."""
        job = event.j
        self.started[job] = event.a
        self.start_times[job] = math.nan if event.at is None else event.at
        # Shared strings: hundreds of thousands of jobs run on a few hosts.
        self.hosts[job] = self.shared_hosts.setdefault(event.host, event.host) if event.host else None

    def note_end(self, event: Ended | Lost) -> None:
        """Record how an attempt ended."""
        job = event.j
        host, start = self.start(job, event.a)
        if isinstance(event, Lost) or not host or start is None or not _fits(event):
            self.succeeded[job] = 0
            self.other_ends[job] = event
            return
        self.other_ends.pop(job, None)
        self.succeeded[job] = event.a
        self.end_times[job] = event.end or 0.0
        self.run_s[job] = event.run_s or 0.0
        self.cpu_s[job] = math.nan if event.cpu_s is None else event.cpu_s
        self.rss_b[job] = _UNKNOWN_B if event.rss_b is None else event.rss_b

    def note_facts(self, event: AttemptFacts) -> None:
        """Record what became known of an attempt after its end."""
        end = self.end(event.j, event.a)
        if isinstance(end, Ended):
            self.note_end(add_facts(end, event))

    def start(self, job: int, attempt: int) -> tuple[str | None, float | None]:
        """Return host and time of an attempt's start; ``None`` where unknown."""
        if self.started[job] != attempt:
            return None, None
        at = self.start_times[job]
        return self.hosts[job], None if math.isnan(at) else at

    def end(self, job: int, attempt: int) -> Ended | Lost | None:
        """Return how an attempt ended; ``None`` while it runs, even if an earlier one ended."""
        if not attempt or self.succeeded[job] != attempt:
            end = self.other_ends.get(job)
            return end if end is not None and end.a == attempt else None
        return Ended(
            j=job,
            a=attempt,
            exit=0,
            end=self.end_times[job],
            run_s=self.run_s[job],
            cpu_s=None if math.isnan(self.cpu_s[job]) else self.cpu_s[job],
            rss_b=None if self.rss_b[job] == _UNKNOWN_B else self.rss_b[job],
        )

    def use_columns(self, jobs: slice) -> tuple[Sequence[float], Sequence[float | None], Sequence[int | None]]:
        """Return run time, processor time and peak memory of jobs whose newest attempt is in columns."""
        return (
            self.run_s[jobs],
            [None if math.isnan(seconds) else seconds for seconds in self.cpu_s[jobs]],
            [None if size == _UNKNOWN_B else size for size in self.rss_b[jobs]],
        )


def _fits(end: Ended) -> bool:
    """Return whether the columns hold what a report shows of an end."""
    return end.is_plain_success and end.exit == 0 and end.end is not None and end.run_s is not None
