"""What a job runs and asks for: command, environment, request, files, and a script to run it by hand."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, cast

import msgspec

from longshore.config.secrets import hide_secrets, hide_words, looks_secret, mask_secrets, secret_spans
from longshore.contract.capabilities import AllocationReader
from longshore.engine.policy.retry import RetryRules, make_retry_rules
from longshore.engine.run_settings import read_settings
from longshore.engine.staging import StageCommands, is_staged
from longshore.errors import ConfigError, LongshoreError, RunNotFoundError, RunUnreadableError
from longshore.jobs.commands import (
    fill_attempt,
    fill_command_attempt,
    full_command,
    job_variables,
    shell_line,
    substitute_files,
)
from longshore.jobs.scripts import JobScript, render_job_script
from longshore.model.event import Attempt, Event, Retry, StagedFiles
from longshore.model.report import INDENT, TextPrinter, escape_controls, format_duration, format_size, staged_text
from longshore.model.states import Cause
from longshore.model.tasks import Command
from longshore.model.values import YamlValue
from longshore.model.wording import first_of
from longshore.model.workflow import Allocation, JobSettings, Request
from longshore.model.workflow_lines import StoredJob
from longshore.reports.attempts import attempts_of
from longshore.rundir.job_table import JobTable
from longshore.runstate.events import event_blocks, events_of_jobs
from longshore.runstate.open_run import OpenRun, find_job
from longshore.sites.inherited_environment import is_secret
from longshore.sites.requests import PartitionRow, choose_partition
from longshore.system.room import bounded_umask


def request_text(request: Request) -> str:
    """Format a request."""
    parts = [f"{request.cpus} cpu" + ("" if request.cpus == 1 else "s")]
    if request.memory_b is not None:
        parts.append(f"{format_size(request.memory_b)} of memory")
    if request.disk_b is not None:
        parts.append(f"{format_size(request.disk_b)} of disk")
    if request.walltime_s is not None:
        parts.append(f"{format_duration(request.walltime_s)} of wall time")
    return ", ".join([*parts, *(f"{amount} of {name}" for name, amount in request.resources.items())])


class RetryBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Retries after one kind of end, which do not count among the others.

    `key` of the configuration gives their number `retries`; `used` of them are spent.
    """

    key: str
    retries: int
    used: int = 0


_BUDGET_ENDS: Final = {
    "retryOnMemory": "lack of memory",
    "retryOnTime": "lack of time",
    "retryOn": "an end that it names",
    "retryOnPreempted": "preemption",
    "retryOnTransfer": "a failed transfer of files",
}
"""What a budget is for, by its key."""


def budget_texts(number: int, budgets: Iterable[RetryBudget]) -> Iterator[str]:
    """Yield a line per budget, which follows the `number` of other retries."""
    for budget in budgets:
        spent = f", {budget.used} used so far" if budget.used else ""
        yield f"{'and' if number else 'but'} {budget.retries} after {_BUDGET_ENDS[budget.key]} ({budget.key}){spent}"


def retry_budgets(rules: RetryRules, used: Mapping[str, int]) -> tuple[RetryBudget, ...]:
    """Return the budgets of memory, time and ``retryOn``, and what is spent of others; `used` is counted by key."""
    own = rules.own_causes
    budgets = {
        "retryOnMemory": rules.retries_on_memory if Cause.OOM in own else None,
        "retryOnTime": rules.retries_on_time if Cause.WALLTIME in own else None,
        "retryOn": rules.retries_on_match,
        "retryOnPreempted": rules.retries_on_preempted if used.get("retryOnPreempted") else None,
        "retryOnTransfer": rules.retries_on_transfer if used.get("retryOnTransfer") else None,
    }
    return tuple(
        RetryBudget(key=key, retries=retries, used=min(used.get(key, 0), retries))
        for key, retries in budgets.items()
        if retries
    )


def retries_text(number: int, unless: Sequence[int]) -> str:
    """Format a number of retries, and the exit codes after which there is none."""
    text = {0: "none", 1: "1 after the first attempt"}.get(number, f"{number} after the first attempt")
    return f"{text}, but not after exit code {', '.join(map(str, unless))}" if unless and number else text


def amount_text(name: str, amount: int) -> str:
    """Format an amount of a resource: memory and disk are in bytes, all others are counts."""
    return format_size(amount) if name in {"memory", "disk"} else str(amount)


class AskedResources(msgspec.Struct, frozen=True, kw_only=True):
    """What a job asks of a workload manager that has words of its own for it.

    `components` are nearly always one. `partition` is the row of the site's ``partitions`` that the job gets; empty
    without one. `settings` is the job's part of the service's own map.
    """

    service: str
    components: tuple[Allocation, ...]
    partition: str
    settings: Mapping[str, YamlValue]


def asked_resources(opened: OpenRun, job: JobSettings) -> AskedResources | None:
    """Return what a job asks for; ``None`` if its service has no other words than those of the request."""
    try:
        service, executor = opened.service, read_settings(opened.run).executor
    except LongshoreError:
        # Without the installed service or its settings, the request is all that is known.
        return None
    if not isinstance(service, AllocationReader):
        return None
    components = tuple(service.allocations(job, executor))
    rows = cast("Sequence[PartitionRow]", executor.get("partitions") or ())
    try:
        row = choose_partition(rows, components[0])
    except ConfigError:
        row = None
    return AskedResources(
        service=opened.card.service,
        components=components,
        partition=row["name"] if row else "",
        settings={name: mask_secrets(name, value, opened.secrets) for name, value in job.service_settings.items()},
    )


class JobFile(msgspec.Struct, frozen=True, kw_only=True):
    """File that a job reads or writes; a path of ``None`` is not in the workflow."""

    name: str
    path: str | None


class JobDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Job as one of its attempts runs it.

    `attempts` is their number; `cause` and `reason` say what was wrong with the end of this one.
    If `is_staged`, it starts in a scratch directory, which has the files of `working_directory` below their relative
    paths; `staged` has the transfers of these.
    `command` is that of the workflow with paths of files, in the scratch directory if they are staged; `line` is the
    same for a shell. Secrets in texts are masked, and `script` asks for them.
    `launcher` is a shell prefix of the command, such as that of a container. `setup` holds shell lines that run
    before. `environment` holds variables that the run sets, ``None`` for hidden values.
    `attributes` are further values for the workload manager. `log` is the attempt's log; `script` runs the
    attempt by hand. `text` is all this as ``longshore show-job`` prints it; ``print`` and notebooks show it.
    """

    run: str
    name: str
    index: int
    label: str
    attempt: int
    attempts: int
    cause: Cause | None
    reason: str | None
    command: Command
    line: str
    launcher: str
    setup: tuple[str, ...]
    environment: Mapping[str, str | None]
    request: Request
    working_directory: str
    is_staged: bool
    inputs: tuple[JobFile, ...]
    outputs: tuple[JobFile, ...]
    staged: StagedFiles | None
    tags: Mapping[str, object]
    tasks: int
    site: str | None
    cloud: str | None
    number_of_retries: int
    retry_unless_exit: tuple[int, ...]
    retry_budgets: tuple[RetryBudget, ...]
    attributes: Mapping[str, object]
    parents: tuple[str, ...]
    children: tuple[str, ...]
    log: str
    script: str
    text: str = ""

    def __str__(self) -> str:
        """Return the text."""
        return self.text

    def _repr_pretty_(self, printer: TextPrinter, *_: object) -> None:
        printer.text(self.text)


_MAX_NAMES: Final = 5


def job_text(job: JobDetails) -> str:
    """Format a job's command, environment, request and files, as ``show-job`` prints it."""
    attempts = "not begun yet" if not job.attempts else f"of {job.attempts} so far"
    facts: list[tuple[str, str]] = [
        ("Job", f"{job.name} (number {job.index}, label {job.label}) of run {job.run}"),
        ("Attempt", f"{job.attempt}, {attempts}"),
        *([("Ended", f"{job.cause or 'succeeded'}: {job.reason}")] if job.reason else []),
        ("Request", request_text(job.request)),
        ("Retries", retries_text(job.number_of_retries, job.retry_unless_exit)),
        *(("", text) for text in budget_texts(job.number_of_retries, job.retry_budgets)),
        ("Directory", f"{'scratch, with files of ' if job.is_staged else ''}{job.working_directory}"),
        ("Log", job.log),
        ("Launcher", job.launcher),
        ("Staged", staged_text(job.staged) if job.staged else ""),
        ("Tags", ", ".join(f"{name}={value}" for name, value in job.tags.items())),
        ("Tasks", str(job.tasks) if job.tasks > 1 else ""),
        ("Site", " ".join(filter(None, [job.site, job.cloud and f"(cloud {job.cloud})"]))),
        ("Asked for", ", ".join(f"{name}={value}" for name, value in job.attributes.items())),
        ("Parents", first_of(job.parents, _MAX_NAMES)),
        ("Children", first_of(job.children, _MAX_NAMES)),
    ]
    lines = [f"{name and name + ':':10} {value}" for name, value in facts if value]
    lines += _file_lines("Reads", job.inputs) + _file_lines("Writes", job.outputs)
    lines += ["", "Environment set by the run:"]
    for name, value in job.environment.items():
        lines.append(f"{INDENT}{name}={'(hidden: it looks like a secret)' if value is None else value}")
    lines += ["", "Command:"]
    lines += [INDENT + line for setup in job.setup for line in setup.splitlines()]
    lines += [INDENT + line for line in job.line.splitlines()]
    where = f"longshore show-job {job.run} {shlex.quote(job.name)} --attempt {job.attempt} --script | sh"
    lines += ["", f"By hand: {where}"]
    return "\n".join(map(escape_controls, lines))


def _file_lines(title: str, files: Sequence[JobFile]) -> list[str]:
    more = [f"{INDENT}... and {len(files) - _MAX_NAMES} more"] if files[_MAX_NAMES:] else []
    names = (f"{INDENT}{file.path or file.name}" for file in files[:_MAX_NAMES])
    return [f"{title}:", *names, *more] if files else []


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
