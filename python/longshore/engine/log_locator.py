"""Paths of logs in folders that the user configured; apart because reports name logs without an engine."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cached_property
from typing import Final

import msgspec

from longshore.contract.capabilities import LogLocator
from longshore.contract.service import RunPaths, file_name
from longshore.errors import RunUnreadableError
from longshore.jobs.commands import attempt_log_path
from longshore.model.tasks import DataId
from longshore.model.workflow_lines import StoredJob
from longshore.rundir.job_table import JobTable, read_header
from longshore.rundir.submissions import earlier_workflows

_NUMBER: Final = re.compile(r"\.([0-9]+)\.log")


def make_log_locator(run: RunPaths) -> EngineLogLocator | None:
    """Return the locator of a run's logs; ``None`` if they have their usual paths."""
    try:
        header = read_header(run)
        is_usual = not (header.log_folders or header.numbers or earlier_workflows(run))
    except RunUnreadableError:
        # Other readers of the run report the error.
        return None
    return None if is_usual else EngineLogLocator(run, header.log_folders)


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
        path = attempt_log_path(self._template, number, name, label, attempt, tags=self._jobs.tags[index])
        for earlier in self._earlier_folders.get(index, ()):
            if os.path.lexists(self._run.root / path):
                break
            older = earlier.path(number, name, attempt)
            path = older if os.path.lexists(self._run.root / older) else path
        return path

    def attempts(self, index: int) -> int:
        """Return the number of a job's newest attempt with a log; 0 before the first."""
        name, label = self._jobs.names[index], self._jobs.label(index)
        stem, number = file_name(name), self._jobs.file_number(index)
        paths = [attempt_log_path(self._template, number, name, label, 1, tags=self._jobs.tags[index])]
        paths += [earlier.path(number, name, 1) for earlier in self._earlier_folders.get(index, ())]
        found: list[str] = []
        for path in paths:
            with suppress(OSError):
                found += os.listdir((self._run.root / path).parent)
        ends = (_NUMBER.fullmatch(each.removeprefix(stem)) for each in found if each.startswith(stem))
        return max((int(end[1]) for end in ends if end), default=0)

    @cached_property
    def _earlier_folders(self) -> dict[int, list[_EarlierFolder]]:
        """Folders of logs in earlier submissions, newest first, of jobs that had another label or folder then."""
        found: dict[int, list[_EarlierFolder]] = {}
        earlier = earlier_workflows(self._run)
        index = {name: job for job, name in enumerate(self._jobs.names)} if earlier else {}
        for path in earlier:
            table = JobTable(self._run, "names", "tags", workflow=path)
            template = table.header.log_folders
            for old, name in enumerate(table.names):
                job = index.get(name)
                if job is not None and (table.label(old), template) != (self._jobs.label(job), self._template):
                    folder = _EarlierFolder(template, table.label(old), table.tags[old])
                    found.setdefault(job, []).append(folder)
        return found


class _EarlierFolder(msgspec.Struct, frozen=True):
    """What named the folder of a job's logs in an earlier submission."""

    template: str
    label: str
    tags: DataId

    def path(self, number: int, name: str, attempt: int) -> str:
        """Return the path of an attempt's log, relative to the run directory."""
        return attempt_log_path(self.template, number, name, self.label, attempt, tags=self.tags)


def job_log_path(jobs: JobTable, job: int, stored: StoredJob, attempt: int) -> str:
    """Return the path of an attempt's log, relative to the run directory."""
    number = jobs.file_number(job, stored)
    return attempt_log_path(jobs.header.log_folders, number, stored.name, jobs.label(job), attempt, tags=stored.tags)
