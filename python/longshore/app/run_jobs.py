"""Reads the jobs of a run for their names and order, and finds the one that a user means."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import msgspec

from longshore.app.runs import OpenRun
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.codec import Header, StoredJob, decode_file, decode_job, decode_name
from longshore.model.file import File
from longshore.model.job import JobSettings
from longshore.model.ordering import Barrier, barriers
from longshore.world.rundir import open_workflow

_SHOWN = 5
"""Names spelled out in a message."""
_COMPARED = 2000
"""Names that are compared with one that is unknown: comparing a hundred thousand takes seconds."""


class RunJobs:
    """The jobs of a run: names, labels and parents of all, and the whole line of those that are asked for.

    Parameters
    ----------
    opened
        The run.

    Raises
    ------
    RunUnreadableError
        Its workflow is missing, torn, or of a newer format.
    """

    def __init__(self, opened: OpenRun) -> None:
        self.run = opened.run
        self.opened = opened
        self.id = opened.card.id
        self.names: list[str] = []
        self.parents: list[tuple[int, ...]] = []
        self._profile_of = array("l")
        self._offsets = array("q")
        with open_workflow(self.run) as (header, begin, lines):
            self.header: Header = header
            offset = begin
            for line in lines:
                try:
                    job = decode_name(line)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    raise RunUnreadableError(f"'{self.run.workflow}' has a line that is no job: {error}") from error
                self.names.append(job.name)
                self.parents.append(job.p)
                self._profile_of.append(job.s)
                self._offsets.append(offset)
                offset += len(line)
            self._end = offset

    def __len__(self) -> int:
        return len(self.names)

    @property
    def final(self) -> int | None:
        """Index of the final job, if there is one."""
        return len(self) - 1 if self.header.final else None

    def settings(self, job: int) -> JobSettings:
        """What a job shares with others of its profile."""
        return self.header.settings[self._profile_of[job]]

    def label(self, job: int) -> str:
        """The label of a job."""
        return self.settings(job).label

    def stored(self, job: int) -> StoredJob:
        """A job as it stands in its line."""
        with self.run.workflow.open("rb") as file:
            file.seek(self._offsets[job])
            return decode_job(file.readline())

    def files(self, names: Iterable[str]) -> dict[str, File]:
        """Files of the workflow by name; what the workflow does not know is left out."""
        wanted = set(names)
        if not wanted:
            return {}
        with self.run.workflow.open("rb") as file:
            file.seek(self._end)
            return {found.name: found for found in map(decode_file, file) if found.name in wanted}

    def all_files(self) -> dict[str, File]:
        """Every file of the workflow by name."""
        with self.run.workflow.open("rb") as file:
            file.seek(self._end)
            return {found.name: found for found in map(decode_file, file)}

    def find(self, reference: str) -> int:
        """Index of the job that is meant by a name, the unique beginning of one, or an index.

        Raises
        ------
        RunNotFoundError
            None or more than one is meant.
        """
        try:
            return self.names.index(reference)
        except ValueError:
            pass
        if reference.isascii() and reference.isdigit() and int(reference) < len(self):
            return int(reference)
        fitting = [job for job, name in enumerate(self.names) if reference and name.startswith(reference)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise RunNotFoundError(
                f"'{reference}' is the beginning of {len(fitting)} job names of run '{self.id}': "
                + some([self.names[job] for job in fitting]),
                hint="Give more of the name.",
            )
        raise RunNotFoundError(f"run '{self.id}' has no job '{reference}'", hint=self._hint(reference))

    def of_labels(self, labels: Iterable[str]) -> list[int]:
        """Indices of the jobs of some labels.

        Raises
        ------
        RunNotFoundError
            The run has no such label.
        """
        there = {settings.label for settings in self.header.settings}
        wanted = set(labels)
        for label in sorted(wanted - there):
            from difflib import get_close_matches

            near = get_close_matches(label, sorted(there), n=1)
            hint = f"Did you mean '{near[0]}'?" if near else f"It has {some(sorted(there))}."
            raise RunNotFoundError(f"run '{self.id}' has no label '{label}'", hint=hint)
        profiles = {number for number, settings in enumerate(self.header.settings) if settings.label in wanted}
        return [job for job, profile in enumerate(self._profile_of) if profile in profiles]

    def ancestors(self, *jobs: int) -> list[int]:
        """Some jobs and all they descend from or come after, in the order of the workflow.

        With the final job, that is all there are.
        """
        if self.final in jobs:
            return list(range(len(self)))
        seen = set(jobs)
        stack = list(seen)
        ahead = self._ahead
        while stack:
            job = stack.pop()
            for parent in chain(self.parents[job], *(barrier.after for barrier in ahead.get(job, ()))):
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
        return sorted(seen)

    @cached_property
    def barriers(self) -> list[Barrier]:
        """What stands between groups of jobs that run one after another."""
        return list(barriers(self.header.orderings, self.parents))

    @cached_property
    def _ahead(self) -> dict[int, list[Barrier]]:
        ahead: dict[int, list[Barrier]] = {}
        for barrier in self.barriers:
            for job in barrier.before:
                ahead.setdefault(job, []).append(barrier)
        return ahead

    def ahead_of(self, job: int) -> Sequence[Barrier]:
        """What a job waits for beside its parents."""
        return self._ahead.get(job, ())

    def children(self, job: int) -> list[int]:
        """The jobs that wait for this one, without the final one, which waits for all."""
        return [child for child, parents in enumerate(self.parents) if job in parents]

    def _hint(self, reference: str) -> str:
        if any(reference == settings.label for settings in self.header.settings):
            return f"'{reference}' is a label; a job is named like '{self.names[self.of_labels([reference])[0]]}'."
        from difflib import get_close_matches

        near = get_close_matches(reference, list(self._alike(reference)), n=1)
        return f"Did you mean '{near[0]}'?" if near else f"'longshore report {self.id} --json' names all jobs."

    def _alike(self, reference: str) -> Iterator[str]:
        """The names that have the longest beginning in common with one that is unknown."""
        for length in range(len(reference) - 1, -1, -1):
            found = [name for name in self.names if name.startswith(reference[:length])]
            if found:
                yield from found[:_COMPARED]
                return


def some(names: list[str]) -> str:
    """The first few of some names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if names[_SHOWN:] else ""
    return ", ".join(f"'{name}'" for name in names[:_SHOWN]) + more
