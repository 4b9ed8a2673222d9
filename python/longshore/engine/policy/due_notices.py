"""Decides which events of a run are due (pure functions)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from longshore.model.notice import NoticeEvent, NoticeRecord, NoticeRule
from longshore.model.report import RunReport
from longshore.model.states import JobState


class RunPhase(Enum):
    """Whether anything drives a run."""

    LIVE = auto()
    OVER = auto()
    STOPPED = auto()
    """Nothing drives it, and it is not over."""


def due_events(report: RunReport, phase: RunPhase, records: Iterable[NoticeRecord], life: int) -> list[NoticeEvent]:
    """Return the events that are due by a report, and have no record yet, in their order.

    `life` numbers what drives the run: it grows with each restart and resume.
    """
    seen: set[NoticeEvent] = set()
    for record in records:
        if record.rule:
            continue
        if record.event is not NoticeEvent.STOPPED or record.life == life:
            seen.add(record.event)
        if record.event is NoticeEvent.END:
            if record.life == life:
                # The run was over, and was not restarted since.
                return []
            seen.clear()
    return [event for event in NoticeEvent if event not in seen and _has_come(event, report, phase)]


def _has_come(event: NoticeEvent, report: RunReport, phase: RunPhase) -> bool:
    match event:
        case NoticeEvent.START:
            return True
        case NoticeEvent.FIRST_FAILURE:
            return report.counts.get(JobState.FAILED, 0) > 0
        case NoticeEvent.HOLD:
            return phase is RunPhase.LIVE and (report.paused or report.counts.get(JobState.HELD, 0) > 0)
        case NoticeEvent.STOPPED:
            return phase is RunPhase.STOPPED
        case NoticeEvent.END:
            return phase is RunPhase.OVER


def unsent(rules: Iterable[NoticeRule], records: Iterable[NoticeRecord]) -> Iterator[tuple[NoticeRule, NoticeEvent]]:
    """Return the rules without a result for an event that was seen: a notifier died in between.

    A rule that was written later does not tell what was before.
    """
    left: dict[tuple[NoticeEvent, str], int] = {}
    for record in records:
        # A result may come after the run was restarted.
        if record.life >= left.get((record.event, record.rule), math.inf):
            del left[record.event, record.rule]
        for name in record.rules:
            # An event that came again, after a restart, counts once, and as the newer one.
            left.pop((record.event, name), None)
            left[record.event, name] = record.life
    known = {rule.name: rule for rule in rules}
    yield from ((known[name], event) for event, name in left if name in known)
