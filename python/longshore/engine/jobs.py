"""The jobs of a run as the engine holds them: their order in memory, their text on disk until it is needed."""

from __future__ import annotations

import os
import posixpath
from array import array
from collections import ChainMap
from collections.abc import Mapping
from functools import cached_property

import msgspec

from longshore.contract.context import RunPaths
from longshore.contract.executor import Member
from longshore.engine.bounds import limits_of
from longshore.engine.pool import NO_IDENTITIES, Identities
from longshore.errors import RunUnreadableError
from longshore.model.codec import Header, JobLinks, StoredJob, decode_file, decode_job, decode_links
from longshore.model.job import JobSettings
from longshore.model.ordering import Barrier, barriers
from longshore.model.request import Request
from longshore.plan.allotment import identity_variables, thread_variables
from longshore.plan.commands import in_full, job_variables, with_files, with_inherited, with_variables
from longshore.plan.logfolders import log_place
from longshore.plan.tasks import VARIABLE, record_of
from longshore.world.files import open_to_read
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
        self._shared: dict[int, Mapping[str, str]] = {}
        """Environment per profile."""
        self._inherited = dict(os.environ)
        self._file = open_to_read(run.workflow)
        self.labels: list[str] = list(dict.fromkeys(settings.label for settings in header.settings))
        place = {label: number for number, label in enumerate(self.labels)}
        self._label_of_profile = [place[settings.label] for settings in header.settings]

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def label_of(self) -> list[int]:
        """Index of the label per job."""
        return [self._label_of_profile[profile] for profile in self.profile_of]

    @property
    def barriers(self) -> list[Barrier]:
        """What stands between groups of jobs that run one after another."""
        return list(barriers(self.header.orderings, self.parents))

    def settings(self, job: int) -> JobSettings:
        """What a job shares with others of its profile."""
        return self.header.settings[self.profile_of[job]]

    def __getitem__(self, job: int) -> StoredJob:
        """Return a job as it stands in its line."""
        return decode_job(os.pread(self._file, self._lengths[job], self._offsets[job]))

    def member(self, job: int, attempt: int, request: Request, identities: Identities = NO_IDENTITIES) -> Member:
        """Return an attempt of a job, ready to be handed over with what it is given."""
        stored, settings = self[job], self.settings(job)
        run_dir = str(self._run.root)
        variables = job_variables(
            name=stored.name, label=settings.label, attempt=attempt, request=request, run_dir=run_dir
        )
        folder = settings.working_directory or run_dir
        # What a shell finds in there: the engine may have been started anywhere.
        inherited = ChainMap({**variables, "PWD": posixpath.normpath(folder)}, self._inherited)
        environment = {**with_inherited({**settings.environment, **stored.env}, inherited), **variables}
        if settings.limit_threads:
            # What the user sets wins; what happened to be set where the run was submitted does not.
            environment = thread_variables(request.cpus) | environment
        if stored.tasks > 1 and settings.rules.resume_tasks:
            environment[VARIABLE] = f"{run_dir}/{record_of(job)}"
        if identities:
            # Here the user does not: another job has the other GPUs.
            environment |= identity_variables(identities)
        command = with_variables(with_files(stored.c, self._paths), ChainMap(environment, inherited))
        return Member(
            job=job,
            attempt=attempt,
            name=stored.name,
            command=in_full(command, settings),
            environment=environment,
            working_directory=folder,
            log=self.log_of(job, stored, attempt),
            shared=self._shared_by(job, request) if request == settings.request else {},
            limits=limits_of(settings.rules.bounds, request),
        )

    def log_of(self, job: int, stored: StoredJob, attempt: int) -> str:
        """Path of an attempt's log, relative to the run directory."""
        label = self.settings(job).label
        return log_place(self.header.log_folders, job, stored.name, label, attempt, tags=stored.tags)

    def _shared_by(self, job: int, request: Request) -> Mapping[str, str]:
        """What the environments of all attempts of a profile have alike, as long as their request is the profile's."""
        profile = self.profile_of[job]
        if profile not in self._shared:
            settings = self.header.settings[profile]
            variables = job_variables(
                name="", label=settings.label, attempt=0, request=request, run_dir=str(self._run.root)
            )
            threads = thread_variables(request.cpus) if settings.limit_threads else {}
            self._shared[profile] = {**threads, **settings.environment, **variables}
        return self._shared[profile]

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
