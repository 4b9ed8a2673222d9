"""The jobs of a run as the engine holds them: their order in memory, their text on disk until it is needed."""

from __future__ import annotations

import os
from array import array
from collections import ChainMap
from functools import cached_property

import msgspec

from longshore.contract.context import RunPaths
from longshore.contract.executor import Member
from longshore.errors import RunUnreadableError
from longshore.model.codec import Header, JobLinks, StoredJob, decode_file, decode_job, decode_links
from longshore.model.job import JobSettings
from longshore.model.request import Request
from longshore.plan.commands import job_variables, with_files, with_setup, with_variables
from longshore.world.rundir import open_workflow


class JobTable:
    """``workflow.jsonl``, read once for its structure and then line by line as jobs start.

    Parameters
    ----------
    run
        The run directory.

    Raises
    ------
    RunUnreadableError
        The workflow is missing or torn.
    """

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self.parents: list[tuple[int, ...]] = []
        self.profile_of = array("l")
        self._offsets = array("q")
        self._lengths = array("l")
        with open_workflow(run) as (header, begin, lines):
            self.header: Header = header
            offset = begin
            for line in lines:
                links = _links_of(line, run)
                self.parents.append(links.p)
                self.profile_of.append(links.s)
                self._offsets.append(offset)
                self._lengths.append(len(line))
                offset += len(line)
        self._end = offset
        """Where the lines of the jobs end and those of the files begin."""
        self._inherited = dict(os.environ)
        self._file = os.open(run.workflow, os.O_RDONLY)
        self.labels: list[str] = list(dict.fromkeys(settings.label for settings in header.settings))
        place = {label: number for number, label in enumerate(self.labels)}
        self._label_of_profile = [place[settings.label] for settings in header.settings]

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def label_of(self) -> list[int]:
        """Index of the label per job."""
        return [self._label_of_profile[profile] for profile in self.profile_of]

    def settings(self, job: int) -> JobSettings:
        """What a job shares with others of its profile."""
        return self.header.settings[self.profile_of[job]]

    def __getitem__(self, job: int) -> StoredJob:
        """Return a job as it stands in its line."""
        return decode_job(os.pread(self._file, self._lengths[job], self._offsets[job]))

    def member(self, job: int, attempt: int, request: Request) -> Member:
        """Return an attempt of a job, ready to be handed over."""
        stored, settings = self[job], self.settings(job)
        run_dir = str(self._run.root)
        variables = job_variables(
            name=stored.name, label=settings.label, attempt=attempt, request=request, run_dir=run_dir
        )
        environment = {**settings.environment, **stored.env, **variables}
        command = with_variables(with_files(stored.c, self._paths), ChainMap(environment, self._inherited))
        return Member(
            job=job,
            attempt=attempt,
            name=stored.name,
            command=with_setup(command, settings.setup),
            environment=environment,
            working_directory=settings.working_directory or run_dir,
            log=str(self._run.log_of(job, stored.name, settings.label, attempt)),
        )

    @cached_property
    def _paths(self) -> dict[str, str]:
        """Path per name of a file; read only for the sake of commands that name files."""
        with self._run.workflow.open("rb") as file:
            file.seek(self._end)
            files = [decode_file(line) for line in file]
        return {file.name: file.path for file in files}

    def close(self) -> None:
        """Let the file go."""
        os.close(self._file)


def _links_of(line: bytes, run: RunPaths) -> JobLinks:
    try:
        return decode_links(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RunUnreadableError(f"'{run.workflow}' has a line that is no job: {error}") from error
