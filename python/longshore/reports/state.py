"""State of a run without reading its events: what its engine's newest snapshot says, and whether it is over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import structs

from longshore.contract.capabilities import HoldRules
from longshore.contract.service import Unreachable
from longshore.model.report import FINAL_LABEL, RunReport, Snapshot
from longshore.model.states import JobState
from longshore.model.wording import count_noun, format_moment
from longshore.rundir.journal import first_event, measure_lives
from longshore.rundir.liveness import find_stall_start
from longshore.rundir.submissions import read_job_maps
from longshore.runstate.open_run import OpenRun
from longshore.system.room import describe_full_disk

END_STATES: Final = frozenset({JobState.DELETED, JobState.FAILED, JobState.SUCCEEDED, JobState.HELD})
"""Possible job states of a finished run."""
_LOST: Final = (JobState.FAILED, JobState.PRUNED, JobState.DELETED)
_FINAL_VERBS: Final = {JobState.RUNNING: "runs", JobState.SUCCEEDED: "ran", JobState.FAILED: "ran"}
"""Per state of a final job that was started, what it does."""


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """State of a run, from a snapshot or a replay.

    `counts` and `labels` are numbers of jobs per state, in total and per label. `notes` are for the reader. If
    `is_live` is false, nothing runs or waits, and there is no time left to estimate. `is_paused`: no more jobs start.
    """

    state: JobState
    counts: Mapping[JobState, int]
    labels: Mapping[str, Mapping[JobState, int]]
    notes: tuple[str, ...] = ()
    is_live: bool = True
    is_paused: bool = False


def is_current(opened: OpenRun, snapshot: Snapshot, *, alive: bool | Unreachable | None = None) -> bool:
    """Tell whether a snapshot is complete: of a run still finished, or the newest of a live engine.

    `alive` is whether an engine lives; the service is queried if it is not given.
    """
    extents = measure_lives(opened.run.journal)
    if not extents or extents[-1].life != snapshot.life or any(each.damage for each in extents):
        return False
    life = first_event(extents[-1].path)
    if (snapshot.host, snapshot.pid, snapshot.boot) != (life.host, life.pid, life.boot):
        # It is of another run.
        return False
    # A snapshot of an earlier submission counts the jobs of another workflow.
    if (maps := read_job_maps(opened.run)) and life.s in maps:
        return False
    return snapshot.finished or (opened.is_alive() if alive is None else alive) is True


def status_of_snapshot(opened: OpenRun, snapshot: Snapshot, now: float) -> RunStatus:
    """Return the run's state from its newest snapshot."""
    # An engine that ends no longer waits for anything, whatever its last note was.
    note = (engine_note(opened, snapshot),) if snapshot.note and not snapshot.finished else ()
    return RunStatus(
        state=snapshot.state,
        counts=snapshot.counts,
        labels=snapshot.labels,
        notes=(*note, *silence_notes(opened, snapshot, now)),
        is_live=not snapshot.finished,
        is_paused=snapshot.paused,
    )


def engine_note(opened: OpenRun, snapshot: Snapshot) -> str:
    """Return the engine's note, with commands that name the run so that they find it from here."""
    note, run = snapshot.note, opened.card.id
    # The engine names it by its id, which another user's registry, or that of another host, does not know.
    for command in (f"longshore unpause {run}", f"longshore throttle {run}") if opened.reference != run else ():
        note = note.replace(command, f"{command.removesuffix(run)}{opened.reference}")
    return note


def silence_notes(opened: OpenRun, snapshot: Snapshot | None, now: float) -> tuple[str, ...]:
    """Return warnings about a live engine that cannot write, or no longer writes snapshots."""
    if snapshot and not snapshot.finished and (full := describe_full_disk(opened.run.root)):
        return (f"{full}: the engine waits until there is room",)
    since = find_stall_start(opened.run, snapshot, now)
    if since is None:
        return ()
    take_over = f"longshore resume {opened.reference} --take-over"
    return (
        f"the engine has written nothing since {format_moment(since)}: it hangs, or its disk does; if so: {take_over}",
    )


def report_of_status(opened: OpenRun, status: RunStatus) -> RunReport:
    """Return the report of a run, with a warning if its counts do not add up."""
    card = opened.card
    state, notes = status.state, status.notes
    counted = sum(status.counts.values())
    if counted != card.expected:
        notes = (*notes, f"states are known of {count_noun(counted, 'job')}, and the run has {card.expected}")
        state = JobState.UNKNOWN
    notes = (*notes, *_final_job_notes(status.labels), *(map(str, (opened.card_damage,)) if opened.card_damage else ()))
    attributes = card.attributes
    first = card.submissions[0] if card.submissions else None
    return RunReport(
        id=card.shown_id,
        name=card.name,
        path=str(opened.directory),
        service=card.service,
        state=state,
        expected=card.expected,
        counts=status.counts,
        labels=status.labels,
        expected_labels=card.labels or None,
        global_id=(card.submissions[-1].global_id if card.submissions else "") or card.run_token,
        operator=attributes.get("bps_operator", ""),
        project=attributes.get("bps_project", ""),
        campaign=attributes.get("bps_campaign", ""),
        payload=attributes.get("bps_payload", ""),
        site=attributes.get("bps_runsite", ""),
        user=first.user if first else "",
        submitted_at=first.at if first else card.created_at,
        notes=notes,
        paused=status.is_paused,
    )


def _final_job_notes(labels: Mapping[str, Mapping[JobState, int]]) -> Iterator[str]:
    """Note that the final job runs or ran although others did not succeed: its inputs may be of an earlier run."""
    final = labels.get(FINAL_LABEL, {})
    verb = next((verb for state, verb in _FINAL_VERBS.items() if final.get(state)), "")
    lost = sum(counts.get(state, 0) for label, counts in labels.items() if label != FINAL_LABEL for state in _LOST)
    if verb and lost:
        yield (
            f"the final job {verb} although {count_noun(lost, 'job')} did not succeed; to run it only after success: "
            "finalJob: {whenRun: SUCCESS}"
        )


def report_of_snapshot(opened: OpenRun, snapshot: Snapshot, now: float) -> RunReport:
    """Return the report of a run from its newest snapshot alone."""
    report = report_of_status(opened, status_of_snapshot(opened, snapshot, now))
    return structs.replace(report, finished_at=snapshot.at if snapshot.finished else None)


def is_over(opened: OpenRun, report: RunReport) -> bool:
    """Tell whether the report looks final; confirm with a second look.

    Some holds end by themselves, such as one for lack of memory after which the job gets more. A workload manager
    that does not answer proves nothing: the run may go on, and its answer will tell.
    """
    if report.state is JobState.HELD:
        return not (isinstance(opened.service, HoldRules) and opened.service.releases_holds(opened.run))
    if report.state is JobState.UNKNOWN:
        return not isinstance(opened.is_alive(), Unreachable)
    return report.state is not JobState.RUNNING
