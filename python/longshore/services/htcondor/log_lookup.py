"""Locates the logs of attempts; apart because it reads events, and what names logs must not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from longshore.contract.capabilities import LogLocator
from longshore.contract.service import RunPaths
from longshore.rundir.job_table import JobTable
from longshore.services.htcondor.events.job_phases import JobPhase, JobPhases
from longshore.services.htcondor.render import log_names
from longshore.services.htcondor.submission_record import newest_folder

_MAX_MISSING: Final = 20
"""Missing logs of a label, after which its attempts are assumed not to share logs."""


class CondorLogLocator(LogLocator):
    """Locator of the logs of a run's attempts."""

    def __init__(self, run: RunPaths, phases: JobPhases) -> None:
        self._run = run
        self._phases = phases
        self._is_shared: dict[str, bool] = {}
        """Per label, whether the attempts of a job share one log; the first log found decides."""
        self._missing: Counter[str] = Counter()
        """Per label, the number of jobs without any log."""
        self._folders: dict[tuple[str, int], str] = {}
        """Folder per label and number of folder, where each attempt of the label certainly has a log of its own."""

    @cached_property
    def _jobs(self) -> JobTable | None:
        """Jobs of the run, if they have file numbers that differ from their own."""
        return JobTable(self._run, "numbers") if newest_folder(self._run) else None

    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        """Path of an attempt's log, relative to the run directory."""
        cluster, start = self._phases.cluster_and_start(index, attempt)
        number = self._jobs.file_number(index) if self._jobs is not None else index
        own_path, shared_path = log_names.log_paths(number, name, label, cluster, start)
        is_shared = self._is_shared.get(label)
        # Checking files for each of a hundred thousand jobs would be slow.
        if is_shared is None and self._missing[label] < _MAX_MISSING:
            is_shared = (self._run.root / shared_path).exists()
            if is_shared or (self._run.root / own_path).exists():
                self._is_shared[label] = is_shared
            else:
                self._missing[label] += 1
        return shared_path if is_shared and attempt == self._last_started(index, attempt, cluster) else own_path

    def paths(self, attempts: Iterable[tuple[int, str, str, int]]) -> list[str]:
        """Paths of the logs of some attempts: of most without a call, because a run has hundreds of thousands."""
        phases, folders, jobs = self._phases, self._folders, self._jobs
        found: list[str] = []
        for index, name, label, attempt in attempts:
            number = index if jobs is None else jobs.file_number(index)
            place = label, number // log_names.JOBS_PER_FOLDER
            folder = folders.get(place)
            if folder is None or index in phases.earlier_clusters:
                found.append(self.path(index, name, label, attempt))
                if self._has_own_logs(label):
                    folders[place] = log_names.log_folder(label, log_names.subfolder(number))
                continue
            prefix = name if log_names.is_plain(name) else log_names.log_prefix(number, name)
            start = attempt - phases.attempts_before[index]
            found.append(f"{folder}/{prefix}.{phases.cluster[index]}.{start}.log")
        return found

    def _has_own_logs(self, label: str) -> bool:
        """Whether each attempt of a label certainly has a log of its own, as `path` found out."""
        is_shared = self._is_shared.get(label)
        return not is_shared if is_shared is not None else self._missing[label] >= _MAX_MISSING

    def _last_started(self, index: int, attempt: int, cluster: int) -> int:
        """The attempt whose output a shared log holds: the last one of the cluster that started."""
        newest = self._phases.attempts[index]
        if self._phases.phase[index] == JobPhase.PENDING and self._phases.cluster_and_start(index, newest) != (
            cluster,
            1,
        ):
            # The newest attempt has not started.
            newest -= 1
        while attempt < newest and self._phases.cluster_and_start(index, attempt + 1)[0] == cluster:
            attempt += 1
        return min(attempt, newest)

    def attempts(self, index: int) -> int:
        """Number of a job's newest attempt; 0 before the first."""
        return self._phases.attempts[index]
