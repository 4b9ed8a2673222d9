"""What an attempt of a job is given: its command, environment, files and limits, by the record of its job."""

from __future__ import annotations

import os
import posixpath
from collections import ChainMap
from collections.abc import Mapping, Sequence

from longshore.contract.executor import AttemptLimits, BatchMember
from longshore.engine.log_locator import job_log_path
from longshore.engine.schedule.resource_pool import NO_IDENTITIES, Identities
from longshore.engine.staging import StageCommands, is_staged
from longshore.jobs.commands import (
    fill_attempt,
    fill_command_attempt,
    full_command,
    identity_variables,
    job_variables,
    substitute_files,
    substitute_inherited,
    substitute_variables,
    thread_variables,
)
from longshore.jobs.scripts import TASKS_DONE_VARIABLE, task_record_path
from longshore.model.workflow import KeepPolicy, LimitRules, OutputCheck, Request
from longshore.rundir.job_table import JobTable

# Limits of an attempt: the memory, time and log that it may use before it is ended.


def make_attempt_limits(bounds: LimitRules, request: Request) -> AttemptLimits | None:
    """Return the limits of an attempt, from its request and its profile; ``None`` without any, as is usual."""
    memory = None
    if bounds.memory and request.memory_b is not None:
        memory = int(request.memory_b * (1.0 + bounds.grace_share)) + bounds.grace_b
    if memory is None and request.walltime_s is None and bounds.log_b is None and bounds.tmp is KeepPolicy.NONE:
        return None
    return AttemptLimits(
        memory_b=memory,
        asked_b=request.memory_b,
        walltime_s=request.walltime_s,
        log_b=bounds.log_b,
        keep_tmp=bounds.tmp,
    )


class MemberBuilder:
    """Builds the members of batches from the records of their jobs and from this process's environment."""

    def __init__(self, jobs: JobTable) -> None:
        self._jobs = jobs
        self._run_dir = str(jobs.run.root)
        self._inherited = dict(os.environ)
        self._stage_commands = StageCommands(jobs)
        self._shared: dict[int, Mapping[str, str]] = {}
        """Environment per profile."""

    def build(
        self,
        job: int,
        attempt: int,
        request: Request,
        identities: Identities = NO_IDENTITIES,
        units: Sequence[tuple[int, int, int]] = (),
    ) -> BatchMember:
        """Return an attempt of a job, ready to submit with its request, identities and units.

        Raises
        ------
        RunUnreadableError
            The record of the job cannot be read.
        """
        job_record, settings = self._jobs[job], self._jobs.settings(job)
        variables = job_variables(
            name=job_record.name, label=settings.label, attempt=attempt, request=request, run_dir=self._run_dir
        )
        folder = settings.working_directory or self._run_dir
        # As a shell in this directory would set PWD: the engine may have been started anywhere.
        inherited = ChainMap({**variables, "PWD": posixpath.normpath(folder)}, self._inherited)
        written = {**settings.environment, **job_record.env}
        own = {name: fill_attempt(value, attempt - 1) for name, value in written.items()}
        environment = {**substitute_inherited(own, inherited), **variables}
        if settings.limit_threads:
            # Variables that the user sets win; those that happened to be set where the run was submitted do not.
            environment = thread_variables(request.cpus) | environment
        if job_record.tasks > 1 and settings.rules.resume_tasks:
            number = self._jobs.file_number(job, job_record)
            environment[TASKS_DONE_VARIABLE] = f"{self._run_dir}/{task_record_path(number)}"
        if identities:
            # Here the user's variables do not win: another job has the other GPUs.
            environment |= identity_variables(identities)
        staged = is_staged(settings, job_record)
        command = (
            self._stage_commands.substitute_files(job, job_record)
            if staged
            else substitute_files(job_record.c, self._jobs.file_paths)
        )
        command = substitute_variables(command, ChainMap(environment, inherited))
        command = (
            self._stage_commands.build(job, attempt, job_record, command) if staged else full_command(command, settings)
        )
        return BatchMember(
            job=job,
            attempt=attempt,
            name=job_record.name,
            command=fill_command_attempt(command, attempt - 1),
            environment=environment,
            working_directory=folder,
            log=job_log_path(self._jobs, job, job_record, attempt),
            shared=self._shared_environment(job, request) if request == settings.request else {},
            limits=make_attempt_limits(settings.rules.bounds, request),
            outputs=tuple(self._jobs.checked_outputs(job, job_record)),
            units=units,
            fresh_outputs=settings.rules.check_outputs is OutputCheck.FRESH,
        )

    def _shared_environment(self, job: int, request: Request) -> Mapping[str, str]:
        """Return the environment that all attempts of a profile share, as long as their request is the profile's."""
        profile = self._jobs.profile_of[job]
        if profile not in self._shared:
            settings = self._jobs.settings(job)
            variables = job_variables(name="", label=settings.label, attempt=0, request=request, run_dir=self._run_dir)
            threads = thread_variables(request.cpus) if settings.limit_threads else {}
            self._shared[profile] = {**threads, **settings.environment, **variables}
        return self._shared[profile]
