"""Finds the logs of jobs in a mirrored submit directory, whose names BPS's submit descriptions give."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import Final

import msgspec

from longshore.contract.capabilities import LogLocator
from longshore.contract.service import RunPaths
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.services.htcondor.events.job_phases import JobPhases
from longshore.system.atomic import write_atomically
from longshore.system.reading import read_file

_NAMES: Final = PurePosixPath("wms", "logs.json")
_CLUSTER: Final = re.compile(r"\$\(Cluster(?:Id)?\)", re.IGNORECASE)
_START: Final = re.compile(r"\$\$\(\[\s*\(?NumJobStarts[^]]*\]\)", re.IGNORECASE)
"""Number of starts, which HTCondor expands when it starts the job: 0 for the first."""


def write_log_names(run: RunPaths, patterns: Sequence[str]) -> None:
    """Write the pattern of each job's log: its absolute path, empty if unknown."""
    write_atomically(run.root / _NAMES, msgspec.json.encode(patterns), below=run.root)


class BpsLogLocator(LogLocator):
    """Locator of the logs of a mirrored run's attempts."""

    def __init__(self, run: RunPaths, phases: JobPhases) -> None:
        self._run = run
        self._phases = phases

    @cached_property
    def _patterns(self) -> list[str]:
        path = self._run.root / _NAMES
        try:
            return msgspec.json.decode(read_file(path), type=list[str])
        except (OSError, *DECODE_ERRORS) as error:
            raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error

    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        """Absolute path of an attempt's log; by default all attempts of a cluster write one log."""
        cluster, start = self._phases.cluster_and_start(index, attempt)
        return _START.sub(str(max(0, start - 1)), _CLUSTER.sub(str(cluster), self._patterns[index]))

    def attempts(self, index: int) -> int:
        """Number of a job's newest attempt; 0 before the first."""
        return self._phases.attempts[index]
