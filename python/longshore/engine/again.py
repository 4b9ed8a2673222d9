"""Chooses which jobs of a run run again in a restart, and says why; pure."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from longshore.engine.codes import ACTIVE, OVER, Code

if TYPE_CHECKING:
    from longshore.engine.fold import RunState


class Why(StrEnum):
    """Why a job runs again."""

    FAILED = "failed"
    CANCELLED = "cancelled"
    PRUNED = "pruned"
    NAMED = "named"
    """It succeeded, and its label was named."""
    DESCENDS = "descends"
    """It succeeded, and descends from one whose label was named."""
    FINAL = "final"
    """It is the final job, which gathers what the others make."""


_BADLY: Final[Mapping[int, Why]] = {
    Code.FAILED: Why.FAILED,
    Code.DELETED: Why.CANCELLED,
    Code.PRUNED: Why.PRUNED,
}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a restart runs.

    Attributes
    ----------
    jobs
        The jobs that are over and run again, in order, each with the reason.
    anew
        The jobs that begin with their first task, because what they work on is made anew, or they were done.
    busy
        Jobs that would have to run again, but are under way.
    """

    jobs: Mapping[int, Why]
    anew: Sequence[int]
    busy: Sequence[int]


def choose(state: RunState, labels: Container[int] = ()) -> Chosen:
    """Choose what runs again: all that did not succeed, and all that is, or descends from, what is named.

    Parameters
    ----------
    state
        Where the jobs stand.
    labels
        Numbers of the labels whose jobs run again even if they succeeded.
    """
    again: dict[int, Why] = {}
    anew: list[int] = []
    busy: list[int] = []
    below = bytearray(state.size)
    for job, code in enumerate(state.code):
        if job == state.final:
            continue
        named = state.labels[job] in labels
        # Its parents come before it, and so are marked by now.
        below[job] = named or any(below[parent] for parent in state.parents[job])
        if below[job]:
            (busy if code in _UNDER_WAY else anew).append(job)
        if why := _BADLY.get(code):
            again[job] = why
        elif below[job] and code == Code.SUCCEEDED:
            again[job] = Why.NAMED if named else Why.DESCENDS
    if state.final >= 0:
        _choose_final(state, again, anew, named=state.labels[state.final] in labels)
    return Chosen(jobs=again, anew=anew, busy=busy)


def _choose_final(state: RunState, again: dict[int, Why], anew: list[int], *, named: bool) -> None:
    final = state.final
    code = state.code[final]
    if why := _BADLY.get(code):
        again[final] = why
    elif code in OVER and (again or named):
        # What it gathers is no longer all there is.
        again[final] = Why.NAMED if named else Why.FINAL
        anew.append(final)


_UNDER_WAY: Final = (*ACTIVE, Code.UNDECIDED)
