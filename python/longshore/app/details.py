"""Turns the history of a run into a report of each of its jobs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from longshore.app.history import History
from longshore.contract.context import RunPaths
from longshore.engine.fold import SHOWN, Code, RunState
from longshore.model.report import JobReport
from longshore.model.state import Cause, JobState

UNWATCHED = (Code.PENDING, Code.RUNNING)
"""States of which nothing is known where no engine looks."""


@dataclass(frozen=True, kw_only=True)
class Details:
    """The jobs of a run, one report each."""

    run: RunPaths
    state: RunState
    history: History
    names: Sequence[str]
    labels: Sequence[str]
    unwatched: bool
    held: Collection[int] = ()
    """Jobs that the workload manager has and only a person lets go."""

    def all(self) -> tuple[JobReport, ...]:
        """Every job, in the order of the workflow."""
        return tuple(map(self._of, range(self.state.size)))

    def _of(self, job: int) -> JobReport:
        code, attempts = self.state.code[job], self.state.attempts[job]
        name, label = self.names[job], self.labels[self.state.labels[job]]
        attempt = self.history.attempt(job, attempts)
        state = JobState.UNKNOWN if self.unwatched and code in UNWATCHED else SHOWN[code]
        if job in self.held:
            state = JobState.HELD
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
