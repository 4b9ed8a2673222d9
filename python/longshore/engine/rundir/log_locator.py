"""Log paths: finds the log of an attempt where the user configured folders for logs."""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import Final

from longshore.contract.capabilities import LogLocator
from longshore.contract.context import RunPaths, file_name
from longshore.engine.rundir.job_table import JobTable, read_header
from longshore.errors import RunUnreadableError
from longshore.plan.log_folders import attempt_log_path

_NUMBER: Final = re.compile(r"\.([0-9]+)\.log")


def make_log_locator(run: RunPaths) -> EngineLogLocator | None:
    """Return the locator of a run's logs; ``None`` if they have their usual paths."""
    try:
        header = read_header(run)
    except RunUnreadableError:
        # Other readers of the run report the error.
        return None
    return EngineLogLocator(run, header.log_folders) if header.log_folders or header.numbers else None


class EngineLogLocator(LogLocator):
    """Locator of attempts' logs; `template` is the folder of a job's logs below that of all logs."""

    def __init__(self, run: RunPaths, template: str) -> None:
        self._run = run
        self._template = template

    @cached_property
    def _jobs(self) -> JobTable:
        return JobTable(self._run, "names", "numbers", "tags")

    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        """Return the path of an attempt's log, relative to the run directory."""
        number = self._jobs.file_number(index)
        return attempt_log_path(self._template, number, name, label, attempt, tags=self._jobs.tags[index])

    def attempts(self, index: int) -> int:
        """Return the number of a job's newest attempt with a log; 0 before the first."""
        name, label = self._jobs.names[index], self._jobs.label(index)
        stem = file_name(name)
        try:
            found = os.listdir((self._run.root / self.path(index, name, label, 1)).parent)
        except OSError:
            return 0
        ends = (_NUMBER.fullmatch(each.removeprefix(stem)) for each in found if each.startswith(stem))
        return max((int(end[1]) for end in ends if end), default=0)
