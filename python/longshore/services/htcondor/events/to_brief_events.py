"""Converts a DAG's log into brief events: one event for a job that succeeded at its first attempt.

Nearly all jobs do. The others go through `EventBuilder`, the reference; both leave the same job phases. Starts of
attempts are delayed until their end is known. No other job depends on them unless the run is cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from longshore.model.event import AttemptSucceeded, BriefEvent, Event
from longshore.services.htcondor.event_codes import EventType
from longshore.services.htcondor.events import parse_record
from longshore.services.htcondor.events.log_reader import UserLog
from longshore.services.htcondor.events.to_events import RECORD_HANDLERS, EventBuilder

_SUBMIT: Final = b"%03d" % EventType.SUBMIT
_EXECUTE: Final = b"%03d" % EventType.EXECUTE
_TERMINATED: Final = b"%03d" % EventType.TERMINATED
_ABORTED: Final = b"%03d" % EventType.ABORTED
_MOST_DIGITS: Final = 9
"""Digits of the numbers of clusters that are handled briefly."""
_HANDLED: Final = frozenset(b"%03d" % event_type for event_type in (EventType.SUBMIT, *RECORD_HANDLERS))


class BriefEventBuilder:
    """Builder of brief events of one submission while its log is read; `builder` takes all but simple successes.

    With `with_attempts`, an event of a whole attempt has the host and the processor time that `builder` would give.
    """

    def __init__(self, builder: EventBuilder, log: UserLog, *, with_attempts: bool = False) -> None:
        self._builder = builder
        self._log = log
        self._with_attempts = with_attempts
        # Texts of submit and execute records, per cluster number as in the log.
        self._submit_texts: dict[bytes, bytes] = {}
        self._execute_texts: dict[bytes, bytes] = {}
        self._full_clusters: set[bytes] = set()
        """Clusters that `EventBuilder` handles."""

    def events(self) -> Iterator[BriefEvent]:
        """All events, in the order of the log except for delayed starts."""
        for texts in self._log.read_texts():
            yield from self._convert(texts)
        yield from self._convert_delayed(list(self._submit_texts))

    def _convert(self, texts: Iterable[bytes]) -> Iterator[BriefEvent]:
        submits, executes, full_clusters = self._submit_texts, self._execute_texts, self._full_clusters
        for text in texts:
            event_type = text[:3]
            if event_type not in _HANDLED:
                continue
            cluster = text[5 : text.find(b".", 5)]
            if cluster not in full_clusters:
                if event_type == _SUBMIT and cluster not in submits:
                    submits[cluster] = text
                    continue
                if event_type == _EXECUTE and cluster in submits and cluster not in executes:
                    executes[cluster] = text
                    continue
                if event_type == _TERMINATED and cluster in executes and (passed := self._success(cluster, text)):
                    del submits[cluster], executes[cluster]
                    yield passed
                    continue
                yield from self._convert_delayed([cluster])
            if event_type == _ABORTED:
                # Perhaps removed with its DAG: then the run is cancelled, and started attempts end differently.
                yield from self._convert_delayed(list(submits))
            yield from self._convert_fully(text)

    def _success(self, cluster: bytes, end: bytes) -> AttemptSucceeded | None:
        began = self._execute_texts[cluster]
        started, ended = self._log.parse_time(began, cluster), self._log.parse_time(end, cluster)
        if started is None or ended is None or not (cluster.isdigit() and parse_record.is_success(end)):
            return None
        if len(cluster) > _MOST_DIGITS:
            return None
        host = parse_record.parse_host(began) if self._with_attempts else None
        if self._with_attempts and not host:
            return None
        node = parse_record.parse_node(self._submit_texts[cluster])
        attempt = self._builder.brief_success(node, int(cluster), started=started)
        if attempt is None:
            return None
        peak_memory_b, _ = parse_record.parse_memory_row(end)
        cpu_s = parse_record.parse_cpu_s(end) if self._with_attempts else None
        run_s = ended - started if ended > started else 0.0
        return AttemptSucceeded(*attempt, started, ended, run_s, peak_memory_b, host, ended, cpu_s)

    def _convert_delayed(self, clusters: Iterable[bytes]) -> Iterator[Event]:
        """Pass delayed records of these clusters to `EventBuilder`."""
        for cluster in clusters:
            self._full_clusters.add(cluster)
            for delayed in (self._submit_texts, self._execute_texts):
                if text := delayed.pop(cluster, None):
                    yield from self._convert_fully(text)

    def _convert_fully(self, text: bytes) -> Iterable[Event]:
        record = self._log.parse_record(text)
        return self._builder.convert(record) if record else ()
