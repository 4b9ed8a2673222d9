"""Turns an attempt of a job into the path of its log, where the user has logs in folders of the user's own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Final

import msgspec

from longshore.contract.context import RunPaths, file_name
from longshore.contract.service import LogPlaces
from longshore.errors import RunUnreadableError
from longshore.model.codec import Header
from longshore.model.task import DataId
from longshore.plan.logfolders import log_place
from longshore.world.rundir import open_workflow

_NUMBER: Final = re.compile(r"\.([0-9]+)\.log")


class _Tagged(msgspec.Struct, frozen=True, gc=False):
    """The little of a job that its place depends on."""

    name: str
    s: int
    tags: Mapping[str, str | int | float | bool] = {}


_decode = msgspec.json.Decoder(_Tagged).decode


def places_of(run: RunPaths) -> EngineLogs | None:
    """Where the logs of a run lie, if that is not where they usually do."""
    try:
        with open_workflow(run) as (header, _, _):
            return EngineLogs(run, header) if header.log_folders else None
    except RunUnreadableError:
        # Whoever wants to know more of the run is told so.
        return None


class EngineLogs(LogPlaces):
    """Where the logs of a run's attempts lie.

    Parameters
    ----------
    run
        The run directory.
    header
        That of its workflow.
    """

    def __init__(self, run: RunPaths, header: Header) -> None:
        self._run = run
        self._header = header

    @cached_property
    def _jobs(self) -> list[tuple[str, str, DataId]]:
        labels = [settings.label for settings in self._header.settings]
        with open_workflow(self._run) as (_, _, lines):
            return [(job.name, labels[job.s], job.tags) for job in map(_decode, lines)]

    def path(self, index: int, name: str, label: str, attempt: int) -> str:
        """Path of an attempt's log, relative to the run directory."""
        return log_place(self._header.log_folders, index, name, label, attempt, tags=self._jobs[index][2])

    def attempts(self, index: int) -> int:
        """Number of a job's newest attempt with a log; 0 before the first."""
        name, label, _ = self._jobs[index]
        stem = file_name(name)
        try:
            found = os.listdir((self._run.root / self.path(index, name, label, 1)).parent)
        except OSError:
            return 0
        ends = (_NUMBER.fullmatch(each.removeprefix(stem)) for each in found if each.startswith(stem))
        return max((int(end[1]) for end in ends if end), default=0)
