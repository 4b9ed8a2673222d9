"""Steering of a live run: applies pauses, throttles, holds and changed requests; limits which jobs may start; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from longshore.model.event import Steer
from longshore.model.workflow import Request
from longshore.runstate.run_state import ACTIVE, RunState

WHOLE_RUN: Final = -1
"""Key of the whole run, where otherwise the index of a label stands."""

_RETRIES_KEY: Final = "numberOfRetries"


def apply_steer(state: RunState, event: Steer) -> None:
    """Apply an intervention to the state of a run; an unknown one changes nothing."""
    match event.act:
        case "pause":
            state.paused = event.set.get("why") or f"paused by {event.who}"
        case "unpause":
            state.paused = ""
        case "throttle":
            _apply_throttle(state, event)
        case "hold":
            for job in _selected_jobs(state, event):
                state.hold(job)
        case "release":
            for job in _selected_jobs(state, event):
                state.release(job)
        case "set":
            _apply_set(state, event)
        case _:
            return


def _apply_throttle(state: RunState, event: Steer) -> None:
    if not event.labels and "max" not in event.set:
        # Without a label all maxima go: the note on each names this command.
        state.throttles.clear()
    for label in event.labels or (WHOLE_RUN,):
        state.throttles.pop(label, None)
        if "max" in event.set:
            state.throttles[label] = int(event.set["max"])


def _selected_jobs(state: RunState, event: Steer) -> Iterable[int]:
    return range(state.size) if event.jobs is None else event.jobs


def _apply_set(state: RunState, event: Steer) -> None:
    for job in _selected_jobs(state, event):
        if _RETRIES_KEY in event.set:
            state.set_retries[job] = int(event.set[_RETRIES_KEY])
        if event.request is None:
            continue
        if state.code[job] in ACTIVE:
            # The request of a running attempt is reserved on the machine, and so stays.
            state.delayed_sets.setdefault(job, []).append(event)
        else:
            state.set_request(job, event)


def describe_pause(why: str, run: str) -> str:
    """Describe the pause of a run, and the command that ends it; `run` is how commands name the run."""
    return f"PAUSED: {why}; no job starts; to continue it: longshore unpause {run}"


def describe_throttles(throttles: Mapping[int, int], labels: Sequence[str], run: str) -> str:
    """Describe a run's throttles, per label and for the whole run, as `describe_pause` does; empty without any."""
    if not throttles:
        return ""
    whole = [f"{throttles[WHOLE_RUN]} in all"] if WHOLE_RUN in throttles else []
    parts = [f"{most} of '{labels[label]}'" for label, most in sorted(throttles.items()) if label != WHOLE_RUN]
    return f"throttled: at most {', '.join(whole + parts)} at once; to lift it: longshore throttle {run} --off"


def make_set_events(
    who: str,
    changes: Mapping[str, str],
    jobs: Iterable[int],
    *,
    select: Mapping[str, tuple[str, ...]],
    request_of: Callable[[int], Request],
) -> list[Steer]:
    """Return the events of changed requests: one for all jobs that had the same request before.

    Parameters
    ----------
    who, select
        For people.
    changes
        New value per key.
    jobs
        The selected jobs.
    request_of
        Request that an earlier intervention set for a job, else that of its first attempt.
    """
    from longshore.runstate.change_request import change_request

    jobs_by_request: dict[tuple[object, ...], list[int]] = {}
    requests: dict[tuple[object, ...], Request] = {}
    for job in jobs:
        request = request_of(job)
        jobs_by_request.setdefault(key := request.key(), []).append(job)
        requests[key] = request
    is_retries_only = set(changes) == {_RETRIES_KEY}
    return [
        Steer(
            who=who,
            act="set",
            select=select,
            set=changes,
            jobs=tuple(members),
            request=None if is_retries_only else change_request(requests[key], changes),
        )
        for key, members in jobs_by_request.items()
    ]


class Throttle:
    """Applies throttles of a run and its labels to jobs that start; `labels` is the label index per job."""

    def __init__(self, state: RunState, labels: Sequence[int]) -> None:
        self._state = state
        self._labels = labels
        self._admitted: dict[int, int] = {}
        """Jobs let through in this round, per label and for the whole run."""
        self._postponed: dict[int, list[int]] = {}
        """Ready jobs that had to wait, per label."""

    def begin_round(self) -> list[int]:
        """Begin a round; return the jobs that may be tried again."""
        self._admitted = {}
        admissible: list[int] = []
        for label, jobs in list(self._postponed.items()):
            room = self._count_room(label)
            admissible += jobs[:room]
            self._postponed[label] = jobs[room:]
            if not self._postponed[label]:
                del self._postponed[label]
        return admissible

    @property
    def is_full(self) -> bool:
        """Whether no job of any label may start any more."""
        return self.count_room(1) == 0

    def count_room(self, most: int) -> int:
        """Return the number of further jobs of any label that may start, at most `most`."""
        if self._state.paused:
            return 0
        return min(most, self._count_room(WHOLE_RUN)) if WHOLE_RUN in self._state.throttles else most

    def admits(self, job: int) -> bool:
        """Return whether a job may start; one that may not is kept for later."""
        if not self._state.throttles:
            return True
        label = self._labels[job]
        if self._count_room(label) <= 0:
            self._postponed.setdefault(label, []).append(job)
            return False
        for each in (label, WHOLE_RUN):
            self._admitted[each] = self._admitted.get(each, 0) + 1
        return True

    def _count_room(self, label: int) -> int:
        state = self._state
        most = state.throttles.get(label)
        if most is None:
            return state.size
        rows = state.counts if label == WHOLE_RUN else [state.counts[label]]
        return max(0, most - sum(row[code] for row in rows for code in ACTIVE) - self._admitted.get(label, 0))
