"""Turns ``workflow.jsonl`` into the label of every job, and the names of those that are asked for."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable

import msgspec

from longshore.contract.context import RunPaths
from longshore.errors import RunUnreadableError
from longshore.model.codec import JobName, decode_links, decode_name
from longshore.model.ordering import Barrier, barriers
from longshore.world.files import open_to_read
from longshore.world.rundir import open_workflow


class Layout:
    """The jobs of a run, in a few bytes each.

    Parameters
    ----------
    run
        The run directory.
    parents
        Whether to keep the parents of each job, which take most of the room.
    names
        Whether to keep the name of each job.

    Attributes
    ----------
    labels, label_of
        The labels, and the index of the one each job has.
    parents
        Indices of the parents per job; empty unless asked for.
    names
        Names per job; empty unless asked for.
    final
        Whether the last job is the final one.

    Raises
    ------
    RunUnreadableError
        The workflow is missing or torn.
    """

    def __init__(self, run: RunPaths, *, parents: bool, names: bool = False) -> None:
        self._run = run
        self.parents: list[tuple[int, ...]] = []
        self.names: list[str] = []
        self.label_of = array("l")
        self._offsets = array("q")
        with open_workflow(run) as (header, begin, lines):
            offset = begin
            self.final = header.final
            self._orderings = header.orderings
            self.labels = list(dict.fromkeys(settings.label for settings in header.settings))
            index = {label: number for number, label in enumerate(self.labels)}
            place = [index[settings.label] for settings in header.settings]
            try:
                for line in lines:
                    links = decode_name(line) if names else decode_links(line)
                    self.label_of.append(place[links.s])
                    self._offsets.append(offset)
                    offset += len(line)
                    if parents:
                        self.parents.append(links.p)
                    if isinstance(links, JobName):
                        self.names.append(links.name)
            except (msgspec.MsgspecError, UnicodeDecodeError, IndexError, OSError) as error:
                raise RunUnreadableError(f"'{run.workflow}' has a line that is no job: {error}") from error
        self._offsets.append(offset)

    def __len__(self) -> int:
        return len(self.label_of)

    @property
    def barriers(self) -> list[Barrier]:
        """What stands between groups of jobs that run one after another; known only with the parents."""
        return list(barriers(self._orderings, self.parents))

    def names_of(self, jobs: Iterable[int]) -> dict[int, str]:
        """The names of some jobs, by their numbers."""
        names: dict[int, str] = {}
        try:
            file = open_to_read(self._run.workflow)
        except OSError as error:
            raise RunUnreadableError(f"'{self._run.workflow}' cannot be read: {error.strerror}") from error
        try:
            for job in jobs:
                begin, end = self._offsets[job], self._offsets[job + 1]
                names[job] = decode_name(os.pread(file, end - begin, begin)).name
        except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
            raise RunUnreadableError(f"'{self._run.workflow}' changed while it was read: {error}") from error
        finally:
            os.close(file)
        return names
