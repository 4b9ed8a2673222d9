"""Writes submit descriptions: the shared settings of jobs as commands, each job's own values as macros."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from longshore.contract.context import Context
from longshore.engine.policy.retry import RetryRules, make_retry_rules
from longshore.model.workflow.job import JobSettings
from longshore.model.workflow.request import MIB, Request
from longshore.plan.allotted_resources import GPU_RESOURCES, thread_variables
from longshore.plan.job_commands import job_variables
from longshore.services.htcondor.render import log_names, quoting
from longshore.services.htcondor.render.job_groups import SharedText
from longshore.services.htcondor.render.memory_expressions import (
    MACROS,
    RetryInputs,
    max_mib,
    memory_request,
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
IN_PATHS: Final = "f"
IN_VARIABLES: Final = "v"
"""Macros of a node whose name has special characters: the name in paths, and in the environment."""
CPUS: Final = "cpus"
MEMORY: Final = "mem"
DISK: Final = "disk"
TIME: Final = "wall"
"""Macros by which a node overrides its label's request: processors, MiB, MiB, seconds."""


class DescriptionInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a submit description."""

    settings: JobSettings
    """Shared settings of the jobs; amounts of their requests may differ."""
    name: str
    executable: str
    """Path of the program."""
    arguments: SharedText
    variables: SharedText
    """Own environment variables of the jobs."""
    plain: bool = True
    """Whether the jobs' names need no quoting."""
    index: int | None = None
    """Number of the only job; ``None`` if it follows from the name of the node."""
    unset: frozenset[str] = frozenset()
    """Shared variables that these jobs set themselves."""
    exported: frozenset[str] = frozenset()
    """Variables that the command itself exports."""
    quanta: SharedText
    """Number of tasks per label."""
    carried: Mapping[str, SharedText] = msgspec.field(default_factory=dict)
    """Lists of transferred files per macro; empty where jobs see the run directory."""


def description_lines(shape: DescriptionInputs, ctx: Context, attributes: Mapping[str, str]) -> Iterator[str]:
    """The lines of a submit description, without the enclosing ones; `attributes` are those of the run."""
    settings = shape.settings
    words = CondorJobSettings.of(settings)
    lines = [("universe", "vanilla"), ("executable", shape.executable), ("transfer_executable", "false")]
    if text := _pieces(shape.arguments, ARGUMENTS):
        lines.append(("arguments", f'"{text}"'))
    lines.append(("environment", f'"{_environment(shape, ctx)}"'))
    if names := getenv(ctx):
        lines.append(("getenv", names))
    lines += _files(shape, ctx, words)
    lines += _request(settings, ctx, words)
    lines += _who(settings)
    lines += [(f"My.{name}", value) for name, value in _attributes(shape, ctx, attributes)]
    yield from (f"{name} = {value}" for name, value in lines)
    yield from words.lines


def _pieces(text: SharedText, macro: str) -> str:
    own = f"$({macro})" if text.own else ""
    return f"{quoting.escape_description(text.before)}{own}{quoting.escape_description(text.after)}"


def _environment(shape: DescriptionInputs, ctx: Context) -> str:
    settings, asked = shape.settings, request_macros(shape.settings.request, shape.settings, ctx)
    filled = {
        "LONGSHORE_JOB_NAME": f"$({NAME})" if shape.plain else f"$({IN_VARIABLES})",
        # The schedd expands the next two at each match, so that they are right for each attempt.
        "LONGSHORE_JOB_ATTEMPT": f"'{log_names.ATTEMPT}'",
        "LONGSHORE_JOB_MEMORY_MB": "'$$([int(RequestMemory)])'",
        "LONGSHORE_JOB_CPUS": f"$({CPUS}:{asked[CPUS]})",
        "LONGSHORE_JOB_DISK_MB": f"$({DISK}:{asked.get(DISK)})",
    }
    threads = thread_variables(0) if settings.limit_threads else {}
    filled |= dict.fromkeys(threads.keys() - settings.environment.keys(), filled["LONGSHORE_JOB_CPUS"])
    ours = job_variables(
        name="",
        label=settings.label,
        attempt=0,
        request=settings.request,
        run_dir=REMOTE_RUN_DIR if shape.carried else str(ctx.paths.root),
    )
    variables = {**threads, **settings.environment, **ours}
    names = [name for name in variables if name not in shape.unset and name not in shape.exported]
    words = [f"{name}={filled[name]}" if name in filled else _given(name, variables[name]) for name in names]
    return " ".join([*words, _pieces(shape.variables, VARIABLES)]).strip()


def _given(name: str, value: str) -> str:
    return quoting.escape_description(quoting.quote_environment({name: value}))


def _files(shape: DescriptionInputs, ctx: Context, words: CondorJobSettings) -> Iterator[tuple[str, str]]:
    settings = shape.settings
    if shape.carried:
        yield "initialdir", str(ctx.paths.root)
        yield "should_transfer_files", "YES"
        yield "when_to_transfer_output", "ON_EXIT_OR_EVICT"
        yield from _carried(shape)
    else:
        yield "initialdir", settings.working_directory or str(ctx.paths.root)
        yield "should_transfer_files", "NO"
    name = f"$({NAME})" if shape.plain else f"$({IN_PATHS})"
    attempt = "" if words.overwrite else f".{log_names.ATTEMPT}"
    log = f"{ctx.paths.root}/{log_names.log_folder(settings.label, f'$({FOLDER})')}/{name}.$(Cluster){attempt}.log"
    # Both into one file: HTCondor opens it once if the names are equal.
    yield "output", log
    yield "error", log


def _carried(shape: DescriptionInputs) -> Iterator[tuple[str, str]]:
    inputs, outputs, remaps = (_pieces(shape.carried[macro], macro) for macro in (INPUTS, OUTPUTS, REMAPS))
    if inputs:
        yield "transfer_input_files", inputs
    # Without a list, HTCondor would transfer back all new files.
    yield "transfer_output_files", outputs or '""'
    if remaps:
        yield "transfer_output_remaps", f'"{remaps}"'


def _request(settings: JobSettings, ctx: Context, words: CondorJobSettings) -> Iterator[tuple[str, str]]:
    request = settings.request
    rules = _rules(settings, ctx)
    first = request_macros(request, settings, ctx)
    yield "request_cpus", f"$({CPUS}:{first[CPUS]})"
    memory = f"$({MEMORY}:{first[MEMORY]})" if MEMORY in first else None
    attempts = RetryInputs(rules=rules, memory=memory, most=max_mib(rules), release=words.release)
    yield from MACROS
    if memory is not None:
        yield "request_memory", memory_request(attempts)
    if DISK in first:
        yield "request_disk", f"$({DISK}:{first[DISK]})M"
    for name, amount in sorted(request.resources.items()):
        yield f"request_{'gpus' if name in GPU_RESOURCES else name}", str(amount)
    if TIME in first:
        yield "allowed_execute_duration", walltime_limit(f"$({TIME}:{first[TIME]})", rules)
    yield from retry_commands(attempts)


def request_macros(request: Request, settings: JobSettings, ctx: Context) -> dict[str, str]:
    """Request of the first attempt, per macro."""
    rules = _rules(settings, ctx)
    found = {CPUS: str(request.cpus)}
    if request.memory_b is not None:
        most = rules.memory_most_b if rules.memory_factor is not None else None
        asked = request.memory_b if most is None else min(request.memory_b, most)
        found[MEMORY] = str(math.ceil(asked / MIB))
    if request.disk_b is not None:
        found[DISK] = str(math.ceil(request.disk_b / MIB))
    if request.walltime_s is not None:
        found[TIME] = str(math.ceil(request.walltime_s))
    return found


def _rules(settings: JobSettings, ctx: Context) -> RetryRules:
    rules = make_retry_rules(settings, retries_on_lost=0, capacity=ctx.probe.capacity if ctx.probe else None)
    # The exit code that aborts the run is not retried.
    if (value := settings.attributes.get("abortOnValue")) is not None:
        rules = msgspec.structs.replace(rules, unless_exit=(*rules.unless_exit, int(value)))
    return rules


_NOTIFICATION: Final = ("Always", "Complete", "Error", "Never")


def _who(settings: JobSettings) -> Iterator[tuple[str, str]]:
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


def _attributes(shape: DescriptionInputs, ctx: Context, attributes: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    settings = shape.settings
    index = "$SUBSTR(JOB,1)" if shape.index is None else str(shape.index)
    yield "LongshoreRun", quoting.quote_attribute(ctx.run_token)
    yield "LongshoreJob", index
    yield "LongshoreName", f'"$({NAME})"'
    yield "bps_job_name", f'"$({NAME})"'
    yield "bps_job_label", quoting.quote_attribute(settings.label)
    own = f"$({QUANTA})" if shape.quanta.own else ""
    before, after = (quoting.quote_attribute(text)[1:-1] for text in (shape.quanta.before, shape.quanta.after))
    yield "bps_job_quanta", f'"{before}{own}{after}"'
    if settings.attributes.get("preemptible") is False:
        yield "Preemptible", "false"
    yield from ((name, quoting.quote_attribute(value)) for name, value in attributes.items() if value)
