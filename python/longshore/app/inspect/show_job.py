"""Shows what a job runs: command, environment, request, files, and a script to run it by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from longshore.app.inspect.find_jobs import find_job
from longshore.app.report.attempts import attempts_of
from longshore.app.runs.event_source import event_blocks
from longshore.app.runs.job_events import events_of_jobs
from longshore.app.runs.open_run import OpenRun
from longshore.config.lint.secrets import looks_secret
from longshore.engine import settings as engine_settings
from longshore.engine.rundir.job_table import JobTable
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.run.attempt import Attempt
from longshore.model.run.event import Event, Retry
from longshore.model.tasks.task import Command
from longshore.model.workflow.request import Request
from longshore.plan.job_commands import full_command, job_variables, shell_line, substitute_files
from longshore.plan.job_script import JobScript, render_job_script
from longshore.sites.inherited_environment import is_secret


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """File that a job reads or writes; a path of ``None`` is not in the workflow."""

    name: str
    path: str | None


class JobDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Job as one of its attempts runs it.

    `attempts` is their number. `command` is that of the workflow with paths of files; `line` is the same for a shell.
    `setup` holds shell lines that run before. `environment` holds variables that the run sets, ``None`` for hidden
    values. `attributes` are further values for the workload manager. `log` is the attempt's log; `script` runs the
    attempt by hand.
    """

    run: str
    name: str
    index: int
    label: str
    attempt: int
    attempts: int
    command: Command
    line: str
    setup: tuple[str, ...]
    environment: Mapping[str, str | None]
    request: Request
    working_directory: str
    inputs: tuple[JobFile, ...]
    outputs: tuple[JobFile, ...]
    tags: Mapping[str, Any]
    tasks: int
    site: str | None
    cloud: str | None
    number_of_retries: int
    retry_unless_exit: tuple[int, ...]
    attributes: Mapping[str, Any]
    parents: tuple[str, ...]
    children: tuple[str, ...]
    log: str
    script: str


def show_job(opened: OpenRun, reference: str, *, attempt: int | None = None) -> JobDetails:
    """Show a job, given by name, unique beginning of its name, or index; by default its newest attempt.

    Raises `RunNotFoundError` if job or attempt do not exist.
    """
    table = JobTable(opened.run, "names", "parents")
    job = find_job(opened, table, reference)
    events = events_of_jobs(event_blocks(opened), {job})
    known = attempts_of(table, {job}, events).of(job)
    number = _attempt_number(table.names[job], known, attempt)
    request = _request(events, job, number, known) or table.settings(job).request
    return _job_details(opened, table, job, number=number, request=request, attempts=len(known))


def _job_details(
    opened: OpenRun, table: JobTable, job: int, *, number: int, request: Request, attempts: int
) -> JobDetails:
    """Build the description of a job for an attempt of known number and request."""
    settings, stored = table.settings(job), table[job]
    files = {file.name: file.path for file in table.files()}
    by_hand = _job_script(opened, table, job, number=number, request=request, files=files)
    command = substitute_files(stored.c, files)
    return JobDetails(
        run=opened.card.id,
        name=stored.name,
        index=job,
        label=settings.label,
        attempt=number,
        attempts=attempts,
        command=command,
        line=shell_line(command),
        setup=settings.setup,
        environment={name: None if name in by_hand.hidden else value for name, value in by_hand.environment.items()},
        request=request,
        working_directory=by_hand.working_directory,
        inputs=_job_files(stored.inputs, files),
        outputs=_job_files(stored.outputs, files),
        tags=stored.tags,
        tasks=stored.tasks,
        site=settings.site,
        cloud=settings.cloud,
        number_of_retries=settings.number_of_retries,
        retry_unless_exit=settings.retry_unless_exit,
        attributes=settings.attributes,
        parents=tuple(table.names[parent] for parent in table.parents[job]),
        children=tuple(table.names[child] for child in table.children(job)),
        log=str(opened.run.root / opened.log_of(job, stored.name, settings.label, number)),
        script=render_job_script(by_hand),
    )


def _job_script(
    opened: OpenRun, table: JobTable, job: int, *, number: int, request: Request, files: Mapping[str, str]
) -> JobScript:
    """Return the values for the script that runs the attempt by hand."""
    settings, stored, run_dir = table.settings(job), table[job], str(opened.run.root)
    variables = job_variables(name=stored.name, label=settings.label, attempt=number, request=request, run_dir=run_dir)
    environment = {**settings.environment, **stored.env, **variables}
    return JobScript(
        title=f"Attempt {number} of job '{stored.name}' of run '{opened.card.id}'.",
        command=full_command(substitute_files(stored.c, files), settings),
        environment=environment,
        working_directory=settings.working_directory or run_dir,
        hidden=frozenset(name for name, value in environment.items() if is_secret(name) or looks_secret(name, value)),
        umask=_umask(opened),
    )


def _attempt_number(name: str, known: Sequence[Attempt], attempt: int | None) -> int:
    """Return the attempt's number; a job without attempts is shown as its first one will be."""
    there = [each.number for each in known] or [1]
    if attempt is None:
        return there[-1]
    if attempt not in there:
        numbers = ", ".join(map(str, there))
        was = f"It has had: {numbers}." if known else "None has begun: its first is 1."
        raise RunNotFoundError(f"job '{name}' has no attempt {attempt}", hint=was)
    return attempt


def _request(events: Sequence[Event], job: int, number: int, known: Sequence[Attempt]) -> Request | None:
    """Return the request of an attempt, or of the next one."""
    for attempt in known:
        if attempt.number == number:
            return attempt.requested
    changed = [event.request for event in events if isinstance(event, Retry) and event.j == job and event.request]
    return changed[-1] if changed else None


def _job_files(names: Sequence[str], paths: Mapping[str, str]) -> tuple[JobFile, ...]:
    return tuple(JobFile(name=name, path=paths.get(name)) for name in names)


def _umask(opened: OpenRun) -> int | None:
    try:
        return engine_settings.read_settings(opened.run).umask
    except RunUnreadableError:
        # Runs of other services have no such file.
        return None
