"""Priorities of batches at the workload manager: computes urgencies, finds waiting batches to reprioritise; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from longshore.contract.executor import Urgency
from longshore.engine.state.job_codes import JobCode
from longshore.engine.state.run_state import RunState

_MIN_CHANGE: Final = 0.1
"""Smallest change worth sending, as a part of the pressure last sent."""
_INTERVAL_S: Final = 30.0
"""Least time between two reprioritisations: each costs the manager more than a query."""
_MAX_CHANGES: Final = 100
"""Most batches in one reprioritisation; those that moved most go first."""


class BatchUrgencies:
    """Urgency of each batch, as last sent to the manager.

    Parameters
    ----------
    state
        The state of the run.
    pressure_of
        Expected seconds of the longest chain that begins with a job.
    rest_s
        Expected seconds to the end of the run.
    """

    def __init__(self, state: RunState, pressure_of: Callable[[int], float], rest_s: Callable[[], float]) -> None:
        self._state = state
        self._pressure_of = pressure_of
        self._rest_s = rest_s
        self._sent: dict[str, float] = {}
        self._compared_at = -_INTERVAL_S

    def urgency_of(self, batch: str, jobs: Iterable[int], now: float) -> Urgency:
        """Return the urgency of a batch that is submitted at this moment (seconds since the epoch)."""
        pressure = max(map(self._pressure_of, jobs))
        self._sent[batch] = pressure
        return Urgency(pressure_s=pressure, end_at=now + max(pressure, self._estimate_rest_s()))

    def _estimate_rest_s(self) -> float:
        """Return the seconds until the run is over: at least the longest chain that begins with an active job."""
        return max(self._rest_s(), max(map(self._pressure_of, self._state.active), default=0.0))

    def find_changes(self, elapsed: float, now: float) -> Mapping[str, Urgency]:
        """Return the batches to reprioritise; empty until the least time between two changes is over.

        Parameters
        ----------
        elapsed
            Seconds on the monotonic clock.
        now
            This moment, in seconds since the epoch.
        """
        if elapsed - self._compared_at < _INTERVAL_S:
            return {}
        self._compared_at = elapsed
        pressures = self._pressures()
        # Pressures sent by an earlier life are unknown; they are taken to have been the same.
        self._sent = {batch: self._sent.get(batch, pressure) for batch, pressure in pressures.items()}
        changes = {
            batch: abs(pressure - self._sent[batch]) / max(self._sent[batch], 1e-9)
            for batch, pressure in pressures.items()
        }
        changed = sorted(
            (batch for batch, change in changes.items() if change > _MIN_CHANGE), key=lambda b: (-changes[b], b)
        )
        if not changed:
            return {}
        rest_s = self._estimate_rest_s()
        urgencies = {}
        for batch in changed[:_MAX_CHANGES]:
            self._sent[batch] = pressures[batch]
            urgencies[batch] = Urgency(pressure_s=pressures[batch], end_at=now + max(rest_s, pressures[batch]))
        return urgencies

    def _pressures(self) -> dict[str, float]:
        """Return the largest pressure among the waiting members of each batch."""
        pressures: dict[str, float] = {}
        code = self._state.code
        for job, batch in self._state.active.items():
            if code[job] == JobCode.PENDING:
                pressures[batch] = max(pressures.get(batch, 0.0), self._pressure_of(job))
        return pressures
