"""Locates the log file of each attempt; its name contains HTCondor's cluster number."""

from __future__ import annotations

from collections import Counter
from typing import Final

from longshore.contract.capabilities import LogLocator
from longshore.contract.context import RunPaths
from longshore.services.htcondor.events.job_phases import Phase, Standing
from longshore.services.htcondor.render import log_names

_MOST_MISSED: Final = 20
"""Missing logs of a label, after which its attempts are assumed not to share logs."""


class CondorLogs(LogLocator):
    """Locator of the logs of a run's attempts."""

    def __init__(self, run: RunPaths, standing: Standing) -> None:
        self._run = run
        self._standing = standing
        self._shares: dict[str, bool] = {}
        """Per label, whether the attempts of a job share one log; the first log found decides."""
        self._missed: Counter[str] = Counter()
        """Per label, the number of jobs without any log."""

    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        """Path of an attempt's log, relative to the run directory."""
        cluster, start = self._standing.start_of(index, attempt)
        own, shared = log_names.log_of(index, name, label, cluster, start)
        shares = self._shares.get(label)
        # Checking files for each of a hundred thousand jobs would be slow.
        if shares is None and self._missed[label] < _MOST_MISSED:
            shares = (self._run.root / shared).exists()
            if shares or (self._run.root / own).exists():
                self._shares[label] = shares
            else:
                self._missed[label] += 1
        return shared if shares and attempt == self._last_of(index, attempt, cluster) else own

    def _last_of(self, index: int, attempt: int, cluster: int) -> int:
        """The attempt whose output a shared log holds: the last one of the cluster that started."""
        newest = self._standing.attempts[index]
        if self._standing.phase[index] == Phase.PENDING and self._standing.start_of(index, newest) != (cluster, 1):
            # The newest attempt has not started.
            newest -= 1
        while attempt < newest and self._standing.start_of(index, attempt + 1)[0] == cluster:
            attempt += 1
        return min(attempt, newest)

    def attempts(self, index: int) -> int:
        """Number of a job's newest attempt; 0 before the first."""
        return self._standing.attempts[index]
