"""Runs again what did not succeed in a run, in the same run directory, as a new submission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from longshore.app.report import report_run
from longshore.app.runs import OpenRun
from longshore.contract.service import Changes
from longshore.errors import SubmissionRefusedError
from longshore.model.state import JobState
from longshore.model.submission import RunCard
from longshore.world.links import link_by_id
from longshore.world.rundir import write_card

WHY: Mapping[JobState, str] = {
    JobState.FAILED: "failed",
    JobState.DELETED: "cancelled",
    JobState.PRUNED: "waited for one that failed or was cancelled",
}
"""Why a job of that state runs again."""

_UNFINISHED = frozenset({JobState.UNREADY, JobState.READY, JobState.PENDING, JobState.RUNNING, JobState.UNKNOWN})


@dataclass(frozen=True, kw_only=True)
class Again:
    """What a restart would run.

    Attributes
    ----------
    labels
        Number of jobs per label and state that run again.
    unfinished
        Jobs that were never over, because the engine died: they go on in any case.
    """

    labels: Mapping[str, Mapping[JobState, int]]
    unfinished: int

    @property
    def total(self) -> int:
        """Number of jobs that run again."""
        return sum(sum(counts.values()) for counts in self.labels.values())


def what_to_restart(opened: OpenRun) -> Again:
    """Find out what a restart would run, without running it.

    Raises
    ------
    SubmissionRefusedError
        The run still runs.
    """
    report = report_run(opened, details=False)
    if opened.service.alive(opened.run) is True and report.state is JobState.RUNNING:
        raise SubmissionRefusedError(
            f"run '{opened.card.id}' is {report.state}",
            hint=f"Wait for its end, or cancel it first: longshore cancel {opened.card.id}",
        )
    chosen = {
        label: {state: counts[state] for state in WHY if counts.get(state)} for label, counts in report.labels.items()
    }
    return Again(
        labels={label: counts for label, counts in chosen.items() if counts},
        unfinished=sum(report.counts.get(state, 0) for state in _UNFINISHED),
    )


def restart(opened: OpenRun) -> tuple[RunCard, list[str]]:
    """Hand the run over again.

    Returns
    -------
    tuple
        The run's card with the new submission, and notes for the user.

    Raises
    ------
    SubmissionRefusedError
        The run still runs, has nothing to run again, or was not taken.
    """
    submission = opened.service.restart(opened.run, Changes())
    card = msgspec.structs.replace(opened.card, submissions=(*opened.card.submissions, submission))
    write_card(opened.run, card)
    notes = list(submission.notes)
    if card.id_links:
        notes.append(link_by_id(Path(card.id_links), submission.id, opened.run.root))
    return card, notes
