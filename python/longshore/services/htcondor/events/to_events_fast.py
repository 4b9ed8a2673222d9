"""Converts a DAG's log into brief events: one event for a job that succeeded at its first attempt.

Nearly all jobs do. The others go through `Story`, the reference; both leave the same state. Starts of attempts are
delayed until their end is known. No other job depends on them unless the run is cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from longshore.model.run.event import AttemptSucceeded, BriefEvent, Event
from longshore.services.htcondor.event_codes import Kind
from longshore.services.htcondor.events import parse_record
from longshore.services.htcondor.events.log_reader import EventLog
from longshore.services.htcondor.events.to_events import STEPS, Story

_SUBMIT: Final = b"%03d" % Kind.SUBMIT
_EXECUTE: Final = b"%03d" % Kind.EXECUTE
_TERMINATED: Final = b"%03d" % Kind.TERMINATED
_ABORTED: Final = b"%03d" % Kind.ABORTED
_HEEDED: Final = frozenset(b"%03d" % kind for kind in (Kind.SUBMIT, *STEPS))


class Course:
    """Builder of brief events of one submission while its log is read; `story` takes all but simple successes."""

    def __init__(self, story: Story, log: EventLog) -> None:
        self._story = story
        self._log = log
        # Texts of submit and execute records, per cluster number as in the log.
        self._begun: dict[bytes, bytes] = {}
        self._running: dict[bytes, bytes] = {}
        self._at_length: set[bytes] = set()
        """Clusters that `Story` handles."""

    def news(self) -> Iterator[BriefEvent]:
        """All events, in the order of the log except for delayed starts."""
        for texts in self._log.pieces():
            yield from self._take(texts)
        yield from self._tell_all()

    def _take(self, texts: Iterable[bytes]) -> Iterator[BriefEvent]:
        begun, running, at_length = self._begun, self._running, self._at_length
        for text in texts:
            kind = text[:3]
            if kind not in _HEEDED:
                continue
            cluster = text[5 : text.find(b".", 5)]
            if cluster not in at_length:
                if kind == _SUBMIT and cluster not in begun:
                    begun[cluster] = text
                    continue
                if kind == _EXECUTE and cluster in begun and cluster not in running:
                    running[cluster] = text
                    continue
                if kind == _TERMINATED and cluster in running and (passed := self._passed(cluster, text)):
                    del begun[cluster], running[cluster]
                    yield passed
                    continue
                yield from self._tell(cluster)
            if kind == _ABORTED:
                # Perhaps removed with its DAG: then the run is cancelled, and started attempts end differently.
                yield from self._tell_all()
            yield from self._events_of(text)

    def _passed(self, cluster: bytes, end: bytes) -> AttemptSucceeded | None:
        began, ended = self._log.time_of(self._running[cluster]), self._log.time_of(end)
        if began is None or ended is None or not (cluster.isdigit() and parse_record.went_well(end)):
            return None
        return self._story.passed(parse_record.node_of(self._begun[cluster]), int(cluster), started=began, ended=ended)

    def _tell_all(self) -> Iterator[Event]:
        for cluster in list(self._begun):
            yield from self._tell(cluster)

    def _tell(self, cluster: bytes) -> Iterator[Event]:
        """Pass delayed records to `Story`."""
        self._at_length.add(cluster)
        for held in (self._begun, self._running):
            if text := held.pop(cluster, None):
                yield from self._events_of(text)

    def _events_of(self, text: bytes) -> Iterable[Event]:
        record = self._log.record(text)
        return self._story.take(record) if record else ()
