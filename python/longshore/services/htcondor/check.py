"""What HTCondor cannot honour of a workflow, and no slot of the pool has, found before anything is written."""

from __future__ import annotations

import ast
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.contract.capabilities import Contradiction, differing_values
from longshore.contract.service import Context, Problem
from longshore.engine.policy.retry import make_retry_rules
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.workflow import MIB, WHOLE_NODE_B, Allocation, Job, JobSettings
from longshore.rundir.registry import state_folder
from longshore.services.batch.answers import BINARY_UNITS, parse_number, parse_size
from longshore.services.htcondor.render import transfer
from longshore.services.htcondor.render.service_nodes import provisioning, unset_variables
from longshore.services.htcondor.render.settings import (
    SETTINGS_KEY,
    CondorJobSettings,
    dagman_settings,
    max_jobs,
    run_value,
)
from longshore.services.htcondor.schedd.client import CondorClient, machines_like
from longshore.sites.requests import ignored_priorities
from longshore.system.sharing import cached_answer

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

# What jobs ask of HTCondor by their requests and their own commands, and which of it no slot of the pool has.


_MEMORY_UNITS: Final = {**BINARY_UNITS, "": MIB}
_DISK_UNITS: Final = {**BINARY_UNITS, "": 1024}
"""Bytes per unit: a number of `request_memory` is in MiB, and one of `request_disk` in KiB (condor_submit(1))."""


_OF_REQUEST: Final = re.compile(r"(?:my\.)?request(cpus|memory|disk)", re.IGNORECASE)
"""Attribute with the amount of the request, as an expression."""
_ATTRIBUTES: Final = {
    "requestcpus": "request_cpus",
    "requestmemory": "request_memory",
    "requestdisk": "request_disk",
    "allowedexecuteduration": "allowed_execute_duration",
}
"""Attributes that a line may set in place of the command, as ``+RequestCpus``."""
_WHOLE_MACHINE: Final = frozenset({"requireswholemachine", "wantwholenode", "wantwholemachine"})
"""Attributes that ask the policy of a pool for a whole machine."""
_PARALLEL: Final = "parallel"


def allocation(job: JobSettings) -> Allocation:
    """Return what a job asks for.

    An expression of numbers is computed. Any other one is decided by the machine: it may be all that this has.
    """
    given = _commands(job.service_settings)
    found = Allocation.of_request(job.request)
    limit_s = parse_number(given.get("allowed_execute_duration", ""))
    cpus = _amount(given.get("request_cpus", ""), {"": 1})
    is_parallel = given.get("universe", "").lower() == _PARALLEL
    machines = parse_number(given.get("machine_count", "")) if is_parallel else None
    memory_b = _amount(given.get("request_memory", ""), _MEMORY_UNITS)
    return msgspec.structs.replace(
        found,
        nodes=machines,
        tasks=machines or 1,
        cpus_per_task=found.cpus_per_task if not cpus or cpus == WHOLE_NODE_B else cpus,
        whole_nodes=cpus == WHOLE_NODE_B
        or any(given.get(name, "").lower() in {"true", "1"} for name in _WHOLE_MACHINE),
        memory_b=memory_b or found.memory_b,
        disk_b=parse_size(given.get("request_disk", ""), _DISK_UNITS) or found.disk_b,
        walltime_s=found.walltime_s if limit_s is None else float(limit_s),
    )


def _amount(text: str, units: Mapping[str, int]) -> int | None:
    """Return the amount that a command asks for; `WHOLE_NODE_B` where a machine decides, ``None`` for the request's."""
    if not text or _OF_REQUEST.fullmatch(text):
        return None
    size = parse_size(text, units)
    if size is None and (number := _compute(text)) is not None:
        size = math.ceil(number * units[""])
    return WHOLE_NODE_B if size is None else size


_ARITHMETIC: Final = re.compile(r"[\d.\s()+*/-]{1,200}")
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _compute(text: str) -> float | None:
    """Return the value of an expression of numbers; ``None`` for any other one."""
    if not _ARITHMETIC.fullmatch(text):
        return None
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError):
        return None


def _value(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left), _value(node.right))
    raise ValueError


def _commands(own: Mapping[str, YamlValue]) -> dict[str, str]:
    """Return the commands of `attrs`, `profile.condor` and raw lines, in lower case; of two, the last."""
    return {name: value for _, name, value in _given(own)}


def contradictions(own: Mapping[str, YamlValue]) -> Iterator[Contradiction]:
    """Yield the settings that give a command different values; lines of one list may."""
    yield from differing_values(_given(own))


def _given(own: Mapping[str, YamlValue]) -> Iterator[tuple[str, str, str]]:
    """Yield the path of each command, its name in lower case, and its value."""
    pairs: list[tuple[str, str, YamlValue]] = []
    for key in ("attrs", "profile.condor"):
        values = own.get(key)
        pairs += (
            ((f"{key}.{name}", name, value) for name, value in values.items()) if isinstance(values, Mapping) else ()
        )
    lines = own.get("directives")
    for number, line in enumerate(lines if isinstance(lines, list) else ()):
        command, _, text = str(line).partition("=")
        pairs.append((f"directives.{number}", command, text))
    for path, name, value in pairs:
        plain = name.strip().lower().removeprefix("+").removeprefix("my.")
        if value is not None:
            yield path, _ATTRIBUTES.get(plain, plain), str(value).strip()


_FRESH_S: Final = 60.0
_REQUIREMENTS: Final = re.compile(r"\s*requirements\s*=\s*(.*)", re.IGNORECASE | re.DOTALL)


class _Unmet(msgspec.Struct, frozen=True):
    """Part of an expression that no slot meets, and the values that slots have for its attributes."""

    part: str
    values: str


def note_unmatched_requirements(jobs: Iterable[Job], client: CondorClient) -> Iterator[Problem]:
    """Note jobs whose requirements no slot of the pool meets: they wait until such a slot joins it.

    Each expression is asked for once with the amounts of a job that it names; answers are shared for a minute by the
    submissions of a user on this host. A text that is no expression is not judged: its submission to the schedd fails.
    """
    asked: dict[tuple[str, tuple[tuple[str, int], ...]], _Unmet | None] = {}
    for job in jobs:
        expression = _requirements(job)
        if not expression or "$(" in expression or not client.is_expression(expression):
            continue
        amounts = _named_amounts(expression, job)
        key = expression, tuple(amounts.items())
        if key not in asked:
            asked[key] = _cached_unmet(expression, amounts, client)
        if (unmet := asked[key]) is not None:
            there = f"Slots have {unmet.values}." if unmet.values else "No slot has its attributes."
            yield Problem(
                message=f"job '{job.name}': no slot of the pool meets its requirements: {unmet.part}",
                hint=f"{there} The job waits until such a slot joins the pool.",
                job=job.name,
                key="nodeset" if job.settings.service_settings.get("nodeset") else SETTINGS_KEY,
                fatal=False,
            )


def _requirements(job: Job) -> str:
    """Return the last requirements in a job's settings; empty without any, or where `check` finds an error."""
    try:
        lines = CondorJobSettings.of(job.settings).lines
    except ConfigError:
        return ""
    found = [match[1].strip() for line in lines if (match := _REQUIREMENTS.fullmatch(line))]
    return found[-1] if found else ""


def _named_amounts(expression: str, job: Job) -> dict[str, int]:
    """Return the amounts of a job that its requirements name, as HTCondor has them."""
    request = job.settings.request
    amounts = {
        "RequestCpus": request.cpus,
        "RequestMemory": (request.memory_b or 0) // MIB,
        "RequestDisk": (request.disk_b or 0) // 1024,
    }
    return {name: amount for name, amount in amounts.items() if name.lower() in expression.lower()}


def _cached_unmet(expression: str, amounts: dict[str, int], client: CondorClient) -> _Unmet | None:
    def query() -> tuple[str | None, str]:
        return msgspec.json.encode(_find_unmet(expression, amounts, client)).decode(), ""

    variables = sorted((name, value) for name, value in os.environ.items() if "CONDOR" in name)
    key = sha256(repr((client.identity, expression, amounts, variables)).encode(errors="surrogateescape")).hexdigest()
    answer = cached_answer(state_folder() / "probes" / f"{key[:32]}.json", max_age_s=_FRESH_S, query=query)
    if answer is None or answer.text is None:
        return None
    return msgspec.json.decode(answer.text, type=_Unmet | None)


def _find_unmet(expression: str, amounts: dict[str, int], client: CondorClient) -> _Unmet | None:
    """Return the part of an expression that no slot meets, the whole where each part is met by some slot."""
    total, matched, _ = client.count_matching_slots(expression, amounts)
    if matched or not total:
        return None
    for part in split_conjunction(expression):
        if not client.is_expression(part):
            continue
        _, matched, values = client.count_matching_slots(part, amounts)
        if not matched:
            return _Unmet(part, values)
    return _Unmet(expression, "")


def split_conjunction(expression: str) -> list[str]:
    """Split an expression at its outermost ``&&``, without the parentheses around the parts."""
    parts, depth, begin, quoted = [], 0, 0, False
    for index, sign in enumerate(expression):
        if sign == '"' and expression[index - 1 : index] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (sign in "([{") - (sign in ")]}")
            if depth == 0 and (sign == "?" or expression.startswith("||", index)):
                # They bind less than a conjunction.
                return [expression.strip()]
            if depth == 0 and expression.startswith("&&", index):
                parts.append(expression[begin:index])
                begin = index + 2
    plain = [part.strip() for part in (*parts, expression[begin:])]
    found: list[str] = []
    for part in plain:
        inner = part[1:-1] if part.startswith("(") and part.endswith(")") and _is_whole(part) else None
        found += split_conjunction(inner) if inner else [part]
    return [part for part in found if part]


def _is_whole(part: str) -> bool:
    """Whether the first parenthesis of a text is closed by its last sign."""
    depth = 0
    for index, sign in enumerate(part):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return index == len(part) - 1
    return False


# Finds settings of a workflow that HTCondor cannot honour, before anything is written; no side effects.


KEY_EFFECTS: Final = {
    "abortOnValue": "the line ABORT-DAG-ON of the node",
    "abortReturnValue": "RETURN in the line ABORT-DAG-ON of the node",
    "accountingGroup": "accounting_group",
    "accountingUser": "accounting_group_user",
    "attrs": "an attribute each, My.NAME",
    "checkOutputs": "a program around the command, which checks the outputs",
    "category": "the line CATEGORY of the node; htcondor.maxJobs is the limit",
    "concurrencyLimit": "concurrency_limits",
    "container": "a prefix to the command",
    "directives": "lines of the submit description, after all others",
    "fileSystem": "should_transfer_files; with transfer or scratch, HTCondor transfers the files of each job",
    "environment": "environment; a value that HTCondor's syntax cannot express is set before the command",
    "htcondor": "the schedd and the pool, and the limits of categories",
    "inheritEnvironment": "getenv: names and patterns without values",
    "limitThreads": "variables in environment",
    "mailTo": "notify_user",
    "memoryGrowth": "request_memory",
    "memoryLimit": "request_memory, periodic_release and periodic_remove",
    "memoryMultiplier": "request_memory, on_exit_hold, periodic_release and periodic_remove",
    "nodeset": "requirements, and the attribute JobNodeset",
    "numberOfRetries": "max_retries, periodic_release and periodic_remove",
    "overwriteJobFiles": "output and error",
    "postCmdline": "the command",
    "preCmdline": "the command",
    "preemptible": "the attribute Preemptible, if false, for the policy of the pool",
    "priority": "the line PRIORITY of the node, with more weight than pressure",
    "profile": "commands and attributes of profile.condor unchanged",
    "releaseExpr": "periodic_release",
    "requestCpus": "request_cpus",
    "requestDisk": "request_disk",
    "requestMemory": "request_memory",
    "requestMemoryMax": "request_memory, periodic_release and periodic_remove",
    "requestResources": "request_NAME",
    "requestWalltime": "allowed_execute_duration",
    "requestWalltimeMax": "allowed_execute_duration",
    "resumeTasks": "a variable in environment",
    "retryDelay": "periodic_release, for holds; other ends are retried at once",
    "retryDelayMax": "periodic_release, for holds",
    "retryOn": "retry_until, for exit codes and signals; RETRY of the DAG, for removals by a person",
    "retryOnMemory": "max_retries, on_exit_hold, periodic_release and periodic_remove",
    "retryOnTime": "periodic_release and periodic_remove",
    "retryOnTransfer": "periodic_release and periodic_remove, for holds by the system",
    "retryUnlessExit": "retry_until",
    "retryUnstartable": "retry_until, periodic_release and periodic_remove",
    "setup": "lines before the command",
    "walltimeMultiplier": "allowed_execute_duration",
    "whenToMail": "notification",
    "workingDirectory": "initialdir",
}
"""Key of a job -> the line of the submit description, or of the DAG, that it sets."""
REFUSED_KEYS: Final = {
    "nodeCount": "HTCondor gives each job a part of one machine",
    "successIf": "for DAGMan, only exit code 0 is a success",
}
"""Key -> why HTCondor refuses it."""


_UNCOUNTED: Final = frozenset({"local", "scheduler"})
"""Universes of jobs that run on the schedd's host, without a claimed machine."""
_OF_SEVERAL: Final = frozenset({"mpi", "parallel"})
"""Universes of jobs that run on several machines at once."""
_COUNTS: Final = frozenset({"machine_count", "node_count", "nodecount", "nodes"})
"""Names of commands and attributes that request a number of machines."""


def check(workflow: Workflow, ctx: Context) -> list[Problem]:
    """Return the problems of a workflow; each kind of job is checked once."""
    problems = [*_run_problems(ctx), *transfer.problems(workflow, ctx)]
    problems += ignored_priorities(workflow, "HTCondor")
    endless: dict[str, None] = {}
    for job in workflow.samples:
        problems += _job_problems(job.name, job.settings, ctx)
        if _grows_without_end(job.settings, ctx):
            endless[job.label] = None
    return [*problems, *_growth_problems(list(endless), ctx)]


def _run_problems(ctx: Context) -> Iterator[Problem]:
    for read in (dagman_settings, max_jobs, provisioning, _machines):
        try:
            read(ctx)
        except ConfigError as error:
            yield Problem(message=error.message, hint=error.hint, origin=ctx.site.origin)
    for name in unset_variables(ctx):
        yield Problem(
            message=f"the notifier of a run on HTCondor has no variable '{name}': its value would be in the job's ad",
            hint="Name a file with the address: webhook: {file: ~/.config/address}.",
        )


def _machines(ctx: Context) -> None:
    machines_like(str(run_value(ctx, "executeMachinesPattern") or ""))


def _universe_problems(name: str, settings: JobSettings) -> Iterator[Problem]:
    """Warns of jobs that the schedd starts itself, on its own host."""
    profile = dict(settings.service_settings.get("profile.condor") or {})
    universe = str(profile.get("universe", "")).lower()
    if universe in _UNCOUNTED:
        yield Problem(
            message=f"job '{name}' is of the universe '{universe}', in which HTCondor counts no ends of attempts: "
            "a job that fails stays in the queue, and may be started for ever",
            hint="Leave 'universe' out, or give such a job a limit of its own: periodic_remove, for example.",
            key="profile",
            job=name,
            fatal=False,
        )


def _node_count_problems(name: str, settings: JobSettings) -> Iterator[Problem]:
    """Refuses jobs that request several machines: they would wait for ever, or run once on each."""
    own = settings.service_settings
    lines = (str(line).partition("=") for line in own.get("directives") or ())
    values: dict[str, object] = {f"directives {command.strip()}": value.strip() for command, _, value in lines}
    values |= {f"profile.condor.{command}": value for command, value in (own.get("profile.condor") or {}).items()}
    values |= {f"requestResources.{resource}": amount for resource, amount in settings.request.resources.items()}
    values[f"{SETTINGS_KEY}.nodeCount"] = own.get("nodeCount") or 1
    for key, value in values.items():
        word = key.replace(" ", ".").rpartition(".")[2].lower()
        is_several = str(value).lower() in _OF_SEVERAL if word == "universe" else word in _COUNTS and str(value) != "1"
        if is_several:
            yield Problem(
                message=f"job '{name}' asks for several nodes ('{key}' is '{value}'): {REFUSED_KEYS['nodeCount']}",
                job=name,
                key=key.partition(" ")[0].partition(".")[0],
                hint="Let it run on one machine, or choose a site of another kind, such as Slurm.",
            )


def _job_problems(name: str, settings: JobSettings, ctx: Context) -> Iterator[Problem]:
    node_count_problems = list(_node_count_problems(name, settings))
    yield from node_count_problems
    try:
        CondorJobSettings.of(settings)
    except ConfigError as error:
        # The problem of several nodes explains more than the unknown key.
        if not any(problem.key == SETTINGS_KEY for problem in node_count_problems):
            yield Problem(message=f"job '{name}': {error.message}", hint=error.hint, job=name, key=SETTINGS_KEY)
    yield from _universe_problems(name, settings)
    rules = settings.rules
    if rules.success_if is not None:
        yield Problem(
            message=f"job '{name}' has 'successIf', which has no effect on HTCondor: {REFUSED_KEYS['successIf']}",
            job=name,
            key="successIf",
            hint="Let the command itself exit with 0 on success.",
        )
    if rules.retry_on is not None and rules.retry_on.log is not None:
        yield Problem(
            message=f"job '{name}' has 'retryOn.log', but logs are not read while DAGMan runs the jobs",
            job=name,
            key="retryOn",
            hint="Let the command exit with a certain code, and list it under 'retryOn.exit'.",
        )
    yield from _size_problems(name, settings, ctx)


def _grows_without_end(settings: JobSettings, ctx: Context) -> bool:
    capacity = ctx.probe.capacity if ctx.probe else None
    rules = make_retry_rules(settings, retries_on_lost=0, capacity=capacity)
    return rules.memory_factor is not None and rules.memory_most_b is None and settings.request.memory_b is not None


def _growth_problems(labels: Sequence[str], ctx: Context) -> Iterator[Problem]:
    """Warns, once for all labels, that memory may grow beyond the largest machine; not where no pool was asked."""
    if not labels or ctx.probe is None:
        return
    more = len(labels) - 1
    others = f" and of {more} other label{'s'[: more > 1]}" if more else ""
    why = "no machine of the pool says how much memory it has"
    if not ctx.probe.ok:
        why = f"what the machines of the pool have is not known ({ctx.probe.message.rstrip('.')})"
    yield Problem(
        message=f"the memory of '{labels[0]}'{others} grows without a limit: there is no 'memoryLimit', and {why}. A "
        "job that asks for more than any machine has waits for ever",
        hint="Set 'memoryLimit', or 'requestMemoryMax' of the label.",
        fatal=False,
    )


_KEYS: Final = {"cpus": "requestCpus", "memory": "requestMemory", "disk": "requestDisk"}


def _size_problems(name: str, settings: JobSettings, ctx: Context) -> Iterator[Problem]:
    """Refuses a request larger than the largest machine of the pool: such a job would wait for ever."""
    capacity = (ctx.probe.capacity if ctx.probe else None) or {}
    for resource, amount in settings.request.amounts().items():
        if amount <= capacity.get(resource, amount):
            continue
        wanted, most = (
            (f"{value // MIB} MiB" if resource in ("memory", "disk") else str(value))
            for value in (amount, capacity[resource])
        )
        yield Problem(
            message=f"job '{name}' asks for {wanted} of '{resource}', and the largest machine of the pool has {most}",
            job=name,
            key=_KEYS.get(resource, "requestResources"),
            hint="Ask for less, or choose another site.",
        )
