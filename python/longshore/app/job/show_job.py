"""Shows what a job runs: command, environment, request, files, and a script to run it by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from longshore.app.inspect.find_jobs import find_job
from longshore.app.job.job_details import JobDetails, JobFile
from longshore.app.job.job_text import job_text
from longshore.app.job.request_text import retry_budgets
from longshore.app.report.attempts import attempts_of
from longshore.app.runs.event_source import event_blocks
from longshore.app.runs.job_events import events_of_jobs
from longshore.app.runs.open_run import OpenRun
from longshore.config.secrets import (
    hide_secrets,
    hide_words,
    looks_secret,
    secret_spans,
)
from longshore.engine.policy.retry import make_retry_rules
from longshore.engine.rundir.job_table import JobTable
from longshore.engine.rundir.run_settings import read_settings
from longshore.engine.staging.stage_command import StageCommands, is_staged
from longshore.errors import RunNotFoundError, RunUnreadableError
from longshore.model.lines.workflow_codec import StoredJob
from longshore.model.run.attempt import Attempt
from longshore.model.run.event import Event, Retry
from longshore.model.tasks.task import Command
from longshore.model.workflow.job import JobSettings
from longshore.model.workflow.request import Request
from longshore.plan.job_commands import (
    fill_attempt,
    fill_command_attempt,
    full_command,
    job_variables,
    shell_line,
    substitute_files,
)
from longshore.plan.scripts import JobScript, render_job_script
from longshore.sites.profile import is_secret
from longshore.world.files.permissions import bounded_umask


def show_job(opened: OpenRun, reference: str, *, attempt: int | None = None) -> JobDetails:
    """Show a job, given by name, unique beginning of its name, or index; by default its newest attempt.

    Raises `RunNotFoundError` if job or attempt do not exist.
    """
    table = JobTable(opened.run, "names", "parents")
    job = find_job(opened, table, reference)
    events = events_of_jobs(event_blocks(opened), {job})
    attempts = attempts_of(table, {job}, events).of(job)
    settings, stored = table.settings(job), table[job]
    number = _attempt_number(stored.name, attempts, attempt)
    request = _attempt_request(events, job, number, attempts) or settings.request
    files = {file.name: file.path for file in table.files()}
    staging = StageCommands(table) if is_staged(settings, stored) else None
    command = staging.substitute_files(job, stored) if staging else substitute_files(stored.c, files)
    command = fill_command_attempt(command, number - 1)
    script = _job_script(opened, settings, stored, number=number, request=request, command=command)
    hide = partial(hide_secrets, known=script.secrets)
    reason = next((each.reason for each in attempts if each.number == number), None)
    if staging:
        script = msgspec.structs.replace(script, stage=staging.by_hand(job, stored))
    details = JobDetails(
        run=opened.card.id,
        name=stored.name,
        index=job,
        label=settings.label,
        attempt=number,
        attempts=len(attempts),
        cause=next((each.cause for each in attempts if each.number == number), None),
        reason=reason and hide(reason),
        command=hide(command) if isinstance(command, str) else hide_words(command, script.secrets),
        line=hide(shell_line(command)),
        launcher=hide(settings.launcher),
        setup=tuple(map(hide, settings.setup)),
        environment={name: None if name in script.hidden else value for name, value in script.environment.items()},
        request=request,
        working_directory=script.working_directory,
        is_staged=staging is not None,
        inputs=_job_files(stored.inputs, files),
        outputs=_job_files(stored.outputs, files),
        staged=next((each.staged for each in attempts if each.number == number), None),
        tags=stored.tags,
        tasks=stored.tasks,
        site=settings.site,
        cloud=settings.cloud,
        number_of_retries=settings.number_of_retries,
        retry_unless_exit=settings.retry_unless_exit,
        retry_budgets=retry_budgets(make_retry_rules(settings, retries_on_lost=0, capacity=None), {}),
        attributes={
            name: hide(value) if isinstance(value, str) else value for name, value in settings.attributes.items()
        },
        parents=tuple(table.names[parent] for parent in table.parents[job]),
        children=tuple(table.names[child] for child in table.children(job)),
        log=str(opened.run.root / opened.log_of(job, stored.name, settings.label, number)),
        script=render_job_script(script),
    )
    return msgspec.structs.replace(details, text=job_text(details))


def _job_script(
    opened: OpenRun, settings: JobSettings, stored: StoredJob, *, number: int, request: Request, command: Command
) -> JobScript:
    """Return the script that runs an attempt by hand."""
    run_dir = str(opened.directory)
    variables = job_variables(name=stored.name, label=settings.label, attempt=number, request=request, run_dir=run_dir)
    if run_dir != str(opened.run.root):
        # The tool that submitted it sets no variables of Longshore's.
        variables = {}
    own = {**settings.environment, **stored.env}
    environment = {**{name: fill_attempt(value, number - 1) for name, value in own.items()}, **variables}
    secret = {name: value for name, value in environment.items() if is_secret(name) or looks_secret(name, value)}
    secrets = dict.fromkeys(sorted({*secret.values(), *opened.secrets} - {""}, key=len, reverse=True))
    return JobScript(
        title=f"Attempt {number} of job '{stored.name}' of run '{opened.card.id}'.",
        command=fill_command_attempt(full_command(command, settings), number - 1),
        environment=environment,
        working_directory=settings.working_directory or run_dir,
        hidden=frozenset(name for name, value in environment.items() if name in secret or secret_spans(value, secrets)),
        secrets=tuple(secrets),
        umask=_umask(opened),
    )


def _attempt_number(name: str, attempts: Sequence[Attempt], number: int | None) -> int:
    """Return the attempt's number, by default the newest; a job without attempts has its first one to come."""
    numbers = [attempt.number for attempt in attempts] or [1]
    if number is None:
        return numbers[-1]
    if number not in numbers:
        hint = f"It has had: {', '.join(map(str, numbers))}." if attempts else "None has begun: its first is 1."
        raise RunNotFoundError(f"job '{name}' has no attempt {number}", hint=hint)
    return number


def _attempt_request(events: Sequence[Event], job: int, number: int, attempts: Sequence[Attempt]) -> Request | None:
    """Return the request of an attempt, or of the next one; ``None`` if it is that of the workflow."""
    for attempt in attempts:
        if attempt.number == number:
            return attempt.requested
    changed = [event.request for event in events if isinstance(event, Retry) and event.j == job and event.request]
    return changed[-1] if changed else None


def _job_files(names: Sequence[str], paths: Mapping[str, str]) -> tuple[JobFile, ...]:
    return tuple(JobFile(name=name, path=paths.get(name)) for name in names)


def _umask(opened: OpenRun) -> int | None:
    try:
        umask = read_settings(opened.run).umask
    except RunUnreadableError:
        # Runs of other services have no such file.
        return None
    return None if umask is None else bounded_umask(umask)
