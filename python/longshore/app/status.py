"""Says how a run stands from its engine's newest snapshot, as far as that will do, without reading what happened."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from longshore.app.runs import OpenRun, readable
from longshore.contract.context import Unreachable
from longshore.engine.journal import lives
from longshore.engine.living import silent_since
from longshore.model.moment import moment
from longshore.model.report import RunReport
from longshore.model.snapshot import Snapshot
from longshore.model.state import JobState
from longshore.world.rundir import read_snapshot

ENDS = frozenset({JobState.DELETED, JobState.FAILED, JobState.SUCCEEDED, JobState.HELD})
"""States in which a run that is over can be."""

Counts = Mapping[JobState, int]


def status_run(opened: OpenRun) -> RunReport:
    """The state of one run, from its engine's newest snapshot where that is as good as the whole history.

    Parameters
    ----------
    opened
        The run.

    Raises
    ------
    RunUnreadableError
        Its directory is torn, or may not be read.
    RunNotFoundError
        It went away while it was read.
    """
    with readable(opened.run):
        snapshot = read_snapshot(opened.run)
        news = snapshot is not None and is_news(opened, snapshot)
    if snapshot is None or not news:
        # Imported here: whoever asks for the state of a run that goes on, or is over, need not know how to count.
        from longshore.app.report import report_run

        return report_run(opened, details=False)
    return checked(
        opened,
        snapshot.state,
        snapshot.counts,
        snapshot.labels,
        notes=(*((snapshot.note,) if snapshot.note else ()), *silence(opened, snapshot, time.time())),
        finished_at=snapshot.at if snapshot.finished else None,
    )


def is_news(opened: OpenRun, snapshot: Snapshot, *, alive: bool | Unreachable | None = None) -> bool:
    """Whether the snapshot says all: a finished run that nobody took up again, or a living engine's newest.

    Parameters
    ----------
    opened
        The run.
    snapshot
        The newest its engine wrote.
    alive
        Whether there is an engine; asked for unless given.
    """
    numbers = lives(opened.run.journal)
    if not numbers or numbers[-1][0] != snapshot.life:
        return False
    return snapshot.finished or (opened.is_alive() if alive is None else alive) is True


def silence(opened: OpenRun, snapshot: Snapshot | None, now: float) -> tuple[str, ...]:
    """That an engine which lives gives no sign of it.

    Parameters
    ----------
    opened
        The run.
    snapshot
        The newest its engine wrote.
    now
        This moment, in seconds since the epoch.
    """
    since = silent_since(opened.run, snapshot, now)
    if since is None:
        return ()
    take_over = f"longshore resume {opened.card.id} --take-over"
    return (f"the engine has written nothing since {moment(since)}: it hangs, or its disk does; if so: {take_over}",)


def checked(
    opened: OpenRun,
    state: JobState,
    counts: Counts,
    labels: Mapping[str, Counts],
    *,
    notes: tuple[str, ...],
    **rest: Any,
) -> RunReport:
    """A report whose counts add up; where they cannot, it says so.

    Parameters
    ----------
    opened
        The run.
    state
        Its state.
    counts, labels
        Number of jobs per state, in all and per label.
    notes
        What a reader must know.
    rest
        Other fields of the report.
    """
    card, run = opened.card, opened.run
    counted = sum(counts.values())
    if counted != card.expected:
        notes = (*notes, f"the states of {counted} jobs are known, and the run has {card.expected}")
        state = JobState.UNKNOWN
    attributes = card.attributes
    first = card.submissions[0] if card.submissions else None
    return RunReport(
        id=card.shown_id,
        name=card.name,
        path=str(run.root),
        service=card.service,
        state=state,
        expected=card.expected,
        counts=counts,
        labels=labels,
        expected_labels=card.labels or None,
        global_id=(card.submissions[-1].global_id if card.submissions else "") or card.mark,
        operator=attributes.get("bps_operator", ""),
        project=attributes.get("bps_project", ""),
        campaign=attributes.get("bps_campaign", ""),
        payload=attributes.get("bps_payload", ""),
        site=attributes.get("bps_runsite", ""),
        user=first.user if first else "",
        submitted_at=first.at if first else card.created_at,
        notes=notes,
        **rest,
    )
