"""Sums a run up from its events: the only place where anything is counted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longshore.app.history import History
from longshore.app.runs import OpenRun
from longshore.contract.context import RunPaths, Unreachable
from longshore.engine.fold import SHOWN, Code, RunState, shown_counts
from longshore.engine.journal import lives
from longshore.errors import LongshoreError
from longshore.model.codec import decode_name
from longshore.model.event import Life
from longshore.model.report import JobReport, RunReport
from longshore.model.snapshot import Snapshot
from longshore.model.state import Cause, JobState, run_state
from longshore.model.submission import RunCard
from longshore.world.registry import entries
from longshore.world.rundir import open_workflow, read_card, read_snapshot

_ENDS = frozenset({JobState.DELETED, JobState.FAILED, JobState.SUCCEEDED, JobState.HELD})
_MOST_GONE = 8
_LAST = 5
"""Runs that are shown when none is live."""
_DAY_S = 86_400.0
_UNWATCHED = (Code.PENDING, Code.RUNNING)


@dataclass(frozen=True, kw_only=True)
class RunList:
    """Some of the known runs, oldest first, and what there is to say about the others."""

    reports: tuple[RunReport, ...]
    notes: tuple[str, ...]


def report_run(opened: OpenRun, *, details: bool) -> RunReport:
    """The state of one run, from its whole history.

    Parameters
    ----------
    opened
        The run.
    details
        Whether to say of every job where it stands.

    Raises
    ------
    RunUnreadableError
        Its directory is torn.
    """
    run, card = opened.run, opened.card
    # Asked before the events are read: an engine that ends in between has written its last event by then.
    alive = opened.service.alive(run)
    answer = opened.service.events(run)
    names: list[str] = []
    profiles: list[int] = []
    parents: list[tuple[int, ...]] = []
    with open_workflow(run) as (header, _, lines):
        for line in lines:
            job = decode_name(line)
            names.append(job.name)
            profiles.append(job.s)
            parents.append(job.p)
    labels = list(dict.fromkeys(settings.label for settings in header.settings))
    place = [labels.index(settings.label) for settings in header.settings]
    state = RunState(parents, [place[profile] for profile in profiles], final=header.final)
    history = History()
    if not isinstance(answer, Unreachable):
        for event in answer[0]:
            state.apply(event)
            history.take(event)
    unwatched = alive is not True and not state.finished
    counts = [_shown_row(row, unwatched=unwatched) for row in state.counts]
    totals = {name: sum(row[name] for row in counts) for name in JobState}
    overall = run_state(totals, expected=card.expected, cancelled=state.cancelled)
    notes = _notes(opened, unwatched=unwatched, life=state.life, answer=answer)
    if unwatched:
        overall = JobState.UNKNOWN
    elif overall in _ENDS and not state.finished:
        overall = JobState.RUNNING
    return _of_card(
        card,
        run,
        state=overall,
        counts=totals,
        labels=dict(zip(labels, counts, strict=True)),
        started_at=history.first_start,
        finished_at=history.finished.t if history.finished else None,
        notes=notes,
        jobs=_Jobs(run=run, state=state, history=history, names=names, labels=labels, unwatched=unwatched).all()
        if details
        else None,
    )


def status_run(opened: OpenRun) -> RunReport:
    """The state of one run, from its engine's newest snapshot where that is as good as the whole history."""
    snapshot = read_snapshot(opened.run)
    if snapshot is None or not _is_news(opened, snapshot):
        return report_run(opened, details=False)
    return _of_card(
        opened.card,
        opened.run,
        state=snapshot.state,
        counts=snapshot.counts,
        labels=snapshot.labels,
        notes=(snapshot.note,) if snapshot.note else (),
        finished_at=snapshot.at if snapshot.finished else None,
    )


def list_runs(*, days: float | None = None, user: str | None = None, now: float = 0.0) -> RunList:
    """The runs the registry knows, as far as they are of interest.

    Parameters
    ----------
    days
        Also show what ended so many days ago. Without it the runs that are not over are shown, or the last few if there
        is none.
    user
        Show the runs of that user alone.
    now
        This moment, in seconds since the epoch.
    """
    reports, notes = _all_runs()
    if user:
        reports = [report for report in reports if user in (report.user, report.operator)]
    live = [report for report in reports if report.state not in _ENDS]
    if days is not None:
        since = now - days * _DAY_S
        shown = [report for report in reports if report.state not in _ENDS or (report.finished_at or 0.0) >= since]
    else:
        shown = live or reports[-_LAST:]
    recent = sum(1 for report in reports if (report.finished_at or 0.0) >= now - _DAY_S and report not in shown)
    if recent:
        notes.append(f"{recent} more ended in the last day: longshore report --hist 1")
    return RunList(reports=tuple(shown), notes=tuple(notes))


def _all_runs() -> tuple[list[RunReport], list[str]]:
    """The state of every run the registry knows, and a line about those that cannot be read."""
    reports = []
    broken = []
    gone = []
    for entry in entries():
        run = RunPaths(Path(entry.path))
        try:
            card = read_card(run)
            reports.append(status_run(OpenRun(run=run, card=card)))
        except LongshoreError as error:
            if os.path.lexists(run.root):
                broken.append(f"run '{entry.id}' cannot be shown: {error.message}")
            else:
                gone.append(entry.id)
    if gone:
        # Runs are removed by removing their directories: that is no reason for a line about each of them for ever.
        more = f" and {len(gone) - _MOST_GONE} more" if gone[_MOST_GONE:] else ""
        broken.append(f"removed or moved: {', '.join(gone[-_MOST_GONE:])}{more}")
    return reports, broken


def _is_news(opened: OpenRun, snapshot: Snapshot) -> bool:
    """Whether the snapshot says all: a finished run that nobody took up again, or a living engine's newest."""
    numbers = lives(opened.run.journal)
    if not numbers or numbers[-1][0] != snapshot.life:
        return False
    return snapshot.finished or opened.service.alive(opened.run) is True


def _shown_row(row: Iterable[int], *, unwatched: bool) -> dict[JobState, int]:
    """Counts of a label; what no engine watches is unknown."""
    shown = shown_counts(row)
    if unwatched:
        for code in _UNWATCHED:
            shown[JobState.UNKNOWN] += shown[SHOWN[code]]
            shown[SHOWN[code]] = 0
    return shown


def _notes(opened: OpenRun, *, unwatched: bool, life: Life | None, answer: object) -> tuple[str, ...]:
    if isinstance(answer, Unreachable):
        return (f"the workload manager does not answer: {answer.why}",)
    if life is None:
        return ("prepared, and never handed over",)
    snapshot = read_snapshot(opened.run)
    if unwatched:
        since = snapshot.at if snapshot and snapshot.life == life.life else life.t
        return (f"engine not running since {_moment(since)}: longshore resume {opened.card.id}",)
    return (snapshot.note,) if snapshot and snapshot.note else ()


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _of_card(card: RunCard, run: RunPaths, **rest: Any) -> RunReport:
    attributes = card.attributes
    first = card.submissions[0] if card.submissions else None
    return RunReport(
        id=card.id,
        name=card.name,
        path=str(run.root),
        service=card.service,
        expected=card.expected,
        operator=attributes.get("bps_operator", ""),
        project=attributes.get("bps_project", ""),
        campaign=attributes.get("bps_campaign", ""),
        payload=attributes.get("bps_payload", ""),
        site=attributes.get("bps_runsite", ""),
        user=first.user if first else "",
        submitted_at=first.at if first else card.created_at,
        **rest,
    )


@dataclass(frozen=True, kw_only=True)
class _Jobs:
    """The jobs of a run, one report each."""

    run: RunPaths
    state: RunState
    history: History
    names: list[str]
    labels: list[str]
    unwatched: bool

    def all(self) -> tuple[JobReport, ...]:
        return tuple(map(self.of, range(self.state.size)))

    def of(self, job: int) -> JobReport:
        code, attempts = self.state.code[job], self.state.attempts[job]
        name, label = self.names[job], self.labels[self.state.labels[job]]
        attempt = self.history.attempt(job, attempts)
        state = JobState.UNKNOWN if self.unwatched and code in _UNWATCHED else SHOWN[code]
        if attempt is None:
            return JobReport(name=name, label=label, state=state)
        # What was never started has said nothing.
        said = attempt.cause is not Cause.SUBMIT
        return JobReport(
            name=name,
            label=label,
            state=state,
            cause=attempt.cause,
            reason=attempt.reason,
            attempts=attempts,
            exit_code=attempt.exit_code,
            signal=attempt.signal,
            host=attempt.host,
            started_at=attempt.started_at,
            finished_at=attempt.ended_at,
            run_s=attempt.run_s,
            cpu_s=attempt.cpu_s,
            peak_memory_b=attempt.peak_memory_b,
            log=str(self.run.log_of(job, name, label, attempts)) if said else None,
        )
