"""Turns an attempt of a job into the path of its log, whose name has what HTCondor calls the attempt."""

from __future__ import annotations

from collections import Counter
from typing import Final

from longshore.contract.capabilities import LogLocator
from longshore.contract.context import RunPaths
from longshore.services.htcondor.events.job_phases import Phase, Standing
from longshore.services.htcondor.render import log_names

_MOST_MISSED: Final = 20
"""Jobs of a label whose logs are not there, after which the others are taken to have their own."""


class CondorLogs(LogLocator):
    """Where the logs of a run's attempts lie.

    Parameters
    ----------
    run
        The run directory.
    standing
        Where its jobs stand.
    """

    def __init__(self, run: RunPaths, standing: Standing) -> None:
        self._run = run
        self._standing = standing
        self._shares: dict[str, bool] = {}
        """Per label, whether the attempts of a job share one log; the first that is there tells it."""
        self._missed: Counter[str] = Counter()
        """Per label, for how many none was there."""

    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        """Path of an attempt's log, relative to the run directory."""
        cluster, start = self._standing.start_of(index, attempt)
        own, shared = log_names.log_of(index, name, label, cluster, start)
        shares = self._shares.get(label)
        # Nobody asks the disk about each of a hundred thousand jobs.
        if shares is None and self._missed[label] < _MOST_MISSED:
            shares = (self._run.root / shared).exists()
            if shares or (self._run.root / own).exists():
                self._shares[label] = shares
            else:
                self._missed[label] += 1
        return shared if shares and attempt == self._last_of(index, attempt, cluster) else own

    def _last_of(self, index: int, attempt: int, cluster: int) -> int:
        """The attempt that a log is of which all in a cluster share: the last that has begun writes over the others."""
        newest = self._standing.attempts[index]
        if self._standing.phase[index] == Phase.PENDING and self._standing.start_of(index, newest) != (cluster, 1):
            # It has not begun.
            newest -= 1
        while attempt < newest and self._standing.start_of(index, attempt + 1)[0] == cluster:
            attempt += 1
        return min(attempt, newest)

    def attempts(self, index: int) -> int:
        """Number of a job's newest attempt; 0 before the first."""
        return self._standing.attempts[index]
