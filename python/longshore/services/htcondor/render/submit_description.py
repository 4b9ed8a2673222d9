"""Writes submit descriptions: the shared settings of jobs as commands, each job's own values as macros."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from longshore.contract.service import Context
from longshore.engine.job_wrapper import WRAPPER
from longshore.engine.policy.retry import RetryRules, make_retry_rules
from longshore.jobs.commands import (
    GPU_RESOURCES,
    SHELL,
    fill_attempt,
    job_variables,
    names_attempt,
    thread_variables,
)
from longshore.model.workflow import MIB, JobSettings, Request
from longshore.services.htcondor.render import log_names, quoting
from longshore.services.htcondor.render.job_groups import SharedText
from longshore.services.htcondor.render.retries import (
    MACROS,
    REMOVALS,
    RetryInputs,
    max_mib,
    memory_request,
    removal_retries,
    retry_commands,
    walltime_limit,
)
from longshore.services.htcondor.render.settings import CondorJobSettings, getenv
from longshore.services.htcondor.render.transfer import REMOTE_RUN_DIR

NAME: Final = "n"
FOLDER: Final = "o"
ARGUMENTS: Final = "a"
VARIABLES: Final = "e"
"""Macros of a node: name of the job, subfolder of its logs, own text of its arguments, own environment variables."""
QUANTA: Final = "q"
"""Macro of a node whose numbers of tasks per label differ within its group."""
INPUTS: Final = "ti"
OUTPUTS: Final = "to"
REMAPS: Final = "tr"
"""Macros of a node with file transfer: inputs, outputs, and the outputs' destinations."""
CHECKED: Final = "w"
"""Macro of a node whose outputs the wrapper checks: its words for them."""
IN_PATHS: Final = "f"
IN_VARIABLES: Final = "v"
"""Macros of a node whose name has special characters: the name in paths, and in the environment."""
ATTEMPT: Final = "try"
"""Macro of a description whose jobs use the number of the attempt."""
STARTED: Final = "started"
"""Macro of a node with the number of its job's starts in earlier submissions of the run."""
_ATTEMPT_NUMBER: Final = f"$$([(NumJobStarts?:0)+$({STARTED}:0)+{REMOVALS}])"
"""Expression that the schedd expands at each match: the starts so far.

A job keeps its cluster when it is started again, except after a removal by a person, and in a restart of the run. How
often a removed job had started is known to nobody who submits it again: a removal counts as one start.
"""
CPUS: Final = "cpus"
MEMORY: Final = "mem"
DISK: Final = "disk"
TIME: Final = "wall"
"""Macros by which a node overrides its label's request: processors, MiB, MiB, seconds."""


class SubmitDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a submit description."""

    settings: JobSettings
    """Shared settings of the jobs; amounts of their requests may differ."""
    name: str
    executable: str
    """Path of the program."""
    arguments: SharedText
    variables: SharedText
    """Own environment variables of the jobs."""
    is_plain: bool = True
    """Whether the jobs' names need no quoting."""
    index: int | None = None
    """Number of the only job; ``None`` if it follows from the name of the node."""
    unset: frozenset[str] = frozenset()
    """Shared variables that these jobs set themselves."""
    exported: frozenset[str] = frozenset()
    """Variables that the command itself exports."""
    quanta: SharedText
    """Number of tasks per label."""
    checked: SharedText | None = None
    """Words of the wrapper for the outputs; ``None`` where it does not run."""
    transfers: Mapping[str, SharedText] = msgspec.field(default_factory=dict)
    """Lists of transferred files per macro; empty where jobs see the run directory."""

    @property
    def names_attempt(self) -> bool:
        """Whether a command or a variable has the number of the attempt."""
        shared = (self.arguments, self.variables)
        texts = (text for each in shared for text in (each.before, each.after, *each.own_parts))
        return any(quoting.ATTEMPT in text for text in texts) or any(
            map(names_attempt, self.settings.environment.values())
        )


def description_lines(description: SubmitDescription, ctx: Context, attributes: Mapping[str, str]) -> Iterator[str]:
    """The lines of a submit description, without the enclosing ones; `attributes` are those of the run."""
    settings = description.settings
    own_settings = CondorJobSettings.of(settings)
    executable = SHELL if description.checked else description.executable
    lines = [("universe", "vanilla"), ("executable", executable), ("transfer_executable", "false")]
    if text := _arguments_text(description, ctx):
        lines.append(("arguments", f'"{text}"'))
    lines.append(("environment", f'"{_environment_text(description, ctx)}"'))
    if names := getenv(ctx):
        lines.append(("getenv", names))
    lines += _file_commands(description, ctx, own_settings)
    lines += _request_commands(settings, ctx, own_settings)
    lines += _accounting_commands(settings)
    lines += [(f"My.{name}", value) for name, value in _job_attributes(description, ctx, attributes)]
    if description.names_attempt:
        yield f"{ATTEMPT} = {_ATTEMPT_NUMBER}"
    yield from (f"{name} = {insert_attempt(value)}" for name, value in lines)
    yield from own_settings.lines


def insert_attempt(text: str) -> str:
    """Text of a description, or of a node's variables, with the macro of the attempt's number in its places."""
    return text.replace(quoting.ATTEMPT, f"$({ATTEMPT})")


def _arguments_text(description: SubmitDescription, ctx: Context) -> str:
    arguments = _macro_text(description.arguments, ARGUMENTS)
    if description.checked is None:
        return arguments
    wrapper = quoting.escape_description(quoting.quote_word(str(ctx.rendered_paths.root / WRAPPER)))
    words = _macro_text(description.checked, CHECKED)
    # The cluster names the record of a success with an output that is stale or empty.
    return " ".join(filter(None, (wrapper, "-n", "$(Cluster)", "-o", words, "--", description.executable, arguments)))


def _macro_text(text: SharedText, macro: str) -> str:
    own = f"$({macro})" if text.own_parts else ""
    return f"{quoting.escape_description(text.before)}{own}{quoting.escape_description(text.after)}"


def _environment_text(description: SubmitDescription, ctx: Context) -> str:
    settings, amounts = description.settings, request_macros(description.settings.request, description.settings, ctx)
    macros = {
        "LONGSHORE_JOB_NAME": f"$({NAME})" if description.is_plain else f"$({IN_VARIABLES})",
        # The schedd expands the next two at each match, so that they are right for each attempt.
        "LONGSHORE_JOB_ATTEMPT": f"'{log_names.ATTEMPT}'",
        "LONGSHORE_JOB_MEMORY_MB": "'$$([int(RequestMemory)])'",
        "LONGSHORE_JOB_CPUS": f"$({CPUS}:{amounts[CPUS]})",
        "LONGSHORE_JOB_DISK_MB": f"$({DISK}:{amounts.get(DISK)})",
    }
    threads = thread_variables(0) if settings.limit_threads else {}
    macros |= dict.fromkeys(threads.keys() - settings.environment.keys(), macros["LONGSHORE_JOB_CPUS"])
    job_values = job_variables(
        name="",
        label=settings.label,
        attempt=0,
        request=settings.request,
        run_dir=REMOTE_RUN_DIR if description.transfers else str(ctx.paths.root),
    )
    variables = {**threads, **settings.environment, **job_values}
    names = [name for name in variables if name not in description.unset and name not in description.exported]
    entries = [f"{name}={macros[name]}" if name in macros else _variable(name, variables[name]) for name in names]
    return " ".join([*entries, _macro_text(description.variables, VARIABLES)]).strip()


def _variable(name: str, value: str) -> str:
    text = quoting.escape_description(quoting.quote_environment({name: value}))
    return fill_attempt(text, quoting.ATTEMPT)


def _file_commands(
    description: SubmitDescription, ctx: Context, own_settings: CondorJobSettings
) -> Iterator[tuple[str, str]]:
    settings = description.settings
    if description.transfers:
        yield "initialdir", str(ctx.paths.root)
        yield "should_transfer_files", "YES"
        yield "when_to_transfer_output", "ON_EXIT_OR_EVICT"
        inputs, outputs, remaps = (
            _macro_text(description.transfers[macro], macro) for macro in (INPUTS, OUTPUTS, REMAPS)
        )
        if inputs:
            yield "transfer_input_files", inputs
        # Without a list, HTCondor would transfer back all new files.
        yield "transfer_output_files", outputs or '""'
        if remaps:
            yield "transfer_output_remaps", f'"{remaps}"'
    else:
        yield "initialdir", settings.working_directory or str(ctx.paths.root)
        yield "should_transfer_files", "NO"
    name = f"$({NAME})" if description.is_plain else f"$({IN_PATHS})"
    attempt = "" if own_settings.overwrite else f".{log_names.ATTEMPT}"
    log = f"{ctx.paths.root}/{log_names.log_folder(settings.label, f'$({FOLDER})')}/{name}.$(Cluster){attempt}.log"
    # Both into one file: HTCondor opens it once if the names are equal.
    yield "output", log
    yield "error", log


def _request_commands(
    settings: JobSettings, ctx: Context, own_settings: CondorJobSettings
) -> Iterator[tuple[str, str]]:
    request = settings.request
    rules = _retry_rules(settings, ctx)
    amounts = request_macros(request, settings, ctx)
    yield "request_cpus", f"$({CPUS}:{amounts[CPUS]})"
    memory = f"$({MEMORY}:{amounts[MEMORY]})" if MEMORY in amounts else None
    attempts = RetryInputs(rules=rules, memory=memory, max_mib=max_mib(rules), release=own_settings.release)
    if removal_retries(settings):
        yield from ((name, f"({text} + {REMOVALS})" if name == "spent" else text) for name, text in MACROS)
    else:
        yield from MACROS
    if memory is not None:
        yield "request_memory", memory_request(attempts)
    if DISK in amounts:
        yield "request_disk", f"$({DISK}:{amounts[DISK]})M"
    for name, amount in sorted(request.resources.items()):
        yield f"request_{'gpus' if name in GPU_RESOURCES else name}", str(amount)
    if TIME in amounts:
        yield "allowed_execute_duration", walltime_limit(f"$({TIME}:{amounts[TIME]})", rules)
    yield from retry_commands(attempts)


def request_macros(request: Request, settings: JobSettings, ctx: Context) -> dict[str, str]:
    """Request of the first attempt, per macro."""
    rules = _retry_rules(settings, ctx)
    found = {CPUS: str(request.cpus)}
    if request.memory_b is not None:
        most = rules.memory_most_b if rules.memory_factor is not None else None
        memory_b = request.memory_b if most is None else min(request.memory_b, most)
        found[MEMORY] = str(math.ceil(memory_b / MIB))
    if request.disk_b is not None:
        found[DISK] = str(math.ceil(request.disk_b / MIB))
    if request.walltime_s is not None:
        found[TIME] = str(math.ceil(request.walltime_s))
    return found


def _retry_rules(settings: JobSettings, ctx: Context) -> RetryRules:
    rules = make_retry_rules(settings, retries_on_lost=0, capacity=ctx.probe.capacity if ctx.probe else None)
    # The exit code that aborts the run is not retried.
    if (value := settings.attributes.get("abortOnValue")) is not None:
        rules = msgspec.structs.replace(rules, unless_exit=(*rules.unless_exit, int(value)))
    return rules


_NOTIFICATION: Final = ("Always", "Complete", "Error", "Never")


def _accounting_commands(settings: JobSettings) -> Iterator[tuple[str, str]]:
    given = settings.attributes
    for key, command in (
        ("accountingGroup", "accounting_group"),
        ("accountingUser", "accounting_group_user"),
        ("concurrencyLimit", "concurrency_limits"),
        ("mailTo", "notify_user"),
    ):
        if given.get(key):
            yield command, str(given[key])
    if when := str(given.get("whenToMail") or ("Error" if given.get("mailTo") else "")):
        yield "notification", when.capitalize() if when.capitalize() in _NOTIFICATION else when


def _job_attributes(
    description: SubmitDescription, ctx: Context, attributes: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    settings = description.settings
    index = "$SUBSTR(JOB,1)" if description.index is None else str(description.index)
    yield "LongshoreRun", quoting.quote_attribute(ctx.run_token)
    yield "LongshoreJob", index
    yield "LongshoreName", f'"$({NAME})"'
    yield "bps_job_name", f'"$({NAME})"'
    yield "bps_job_label", quoting.quote_attribute(settings.label)
    own = f"$({QUANTA})" if description.quanta.own_parts else ""
    before, after = (
        quoting.quote_attribute(text)[1:-1] for text in (description.quanta.before, description.quanta.after)
    )
    yield "bps_job_quanta", f'"{before}{own}{after}"'
    if settings.attributes.get("preemptible") is False:
        yield "Preemptible", "false"
    yield from ((name, quoting.quote_attribute(value)) for name, value in attributes.items() if value)
