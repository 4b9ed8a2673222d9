"""What a batch system's site and cluster cannot give a run: its settings and requests, checked before it is written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import msgspec
from jinja2 import TemplateError

from longshore.contract.executor import Batch
from longshore.contract.service import UNUSED, Context, Inventory, Problem
from longshore.errors import ConfigError
from longshore.model.wording import list_words
from longshore.model.workflow import MIB, WHOLE_NODE_B, Allocation, Job, JobSettings, shared_parts_key, total_request
from longshore.services.batch.answers import SubmitOutcome
from longshore.services.batch.client import BatchClient, poll_schedule
from longshore.services.batch.dialect import Dialect
from longshore.services.batch.engine_job import TEMPLATE as ENGINE_TEMPLATE
from longshore.services.batch.engine_job import engine_request, engine_script, wants_engine_job
from longshore.services.batch.records import BATCH_TEMPLATE
from longshore.services.batch.script import JobSpec
from longshore.services.batch.script_writer import ScriptWriter, job_spec
from longshore.services.batch.settings import (
    KIT_KEYS,
    hopeless_after_s,
    max_wait_s,
    on_submit_error,
    own_map,
    wants_fence,
    wants_native,
)
from longshore.sites.limits import exceeded_ceilings
from longshore.sites.requests import (
    CPUS,
    NoPartitionError,
    PartitionRow,
    at_site,
    choose_partition,
    find_unmet_requests,
)

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

# Settings of the site and of jobs.


def check_site(ctx: Context, dialect: Dialect) -> Iterator[Problem]:
    """Find invalid settings in the site's own map."""
    name, own = dialect.name, own_map(dialect.name, ctx.site.settings)
    try:
        dialect.check_site(own)
        poll_schedule(name, own)
        on_submit_error(name, own)
        max_wait_s(name, own)
        hopeless_after_s(name, own)
        fence = wants_fence(name, own)
        native = wants_native(name, ctx.site.settings)
        if wants_engine_job(name, ctx.site.settings) or native:
            dialect.check_job(engine_request(name, own)[1])
            engine_script(
                dialect,
                ctx.paths,
                ctx.settings.get("executor", {}),
                ctx.templates.get(ENGINE_TEMPLATE.name.removesuffix(".j2"), ""),
                run_token="longshore-0",
                by="submit",
                command=("longshore",),
            )
        if native:
            yield Problem(message=NATIVE_WARNING.format(dialect.title), origin=ctx.site.origin, fatal=False)
        if native and fence:
            yield Problem(
                message=f"'{name}.fence' means nothing with '{name}.mode: native': no job has a second attempt",
                origin=ctx.site.origin,
                hint="Leave it out, or leave 'mode: native' out.",
                fatal=False,
            )
    except ConfigError as error:
        yield Problem(message=error.message, hint=error.hint, origin=ctx.site.origin, code=error.code)
    except ValueError as error:
        yield Problem(message=str(error), origin=ctx.site.origin, code=ConfigError.code)


def check_native_mode(workflow: Workflow, ctx: Context, dialect: Dialect) -> Iterator[Problem]:
    """Find parts of a workflow that need an engine, when the site hands whole graphs to the workload manager."""
    if workflow.orderings and wants_native(dialect.name, ctx.site.settings):
        names = ", ".join(f"'{ordering.name}'" for ordering in workflow.orderings)
        yield Problem(
            message=f"mode: native cannot have groups of jobs run one after another, as 'ordering' wants ({names})",
            origin=ctx.site.origin,
            hint="Leave 'mode: native' out: the engine keeps the ordering.",
        )


def check_job_settings(workflow: Workflow, ctx: Context, dialect: Dialect) -> Iterator[Problem]:
    """Find jobs' settings that cannot be written into a script, by rendering one for each distinct map."""
    # A job that no partition holds is found by its amounts, see `check_requests`.
    settings = {key: value for key, value in ctx.settings.get("executor", {}).items() if key != "partitions"}
    scripts = ScriptWriter(dialect, ctx.paths, settings, ctx.templates[BATCH_TEMPLATE.name.removesuffix(".j2")])
    ceilings = settings.get("ceilings")
    kinds: dict[tuple[object, ...], list[Job]] = {}
    for job in workflow:
        request = job.settings.request
        # An amount is a number in the script, whichever it is: there may be as many as jobs.
        key = (*shared_parts_key(job.settings), *request.amounts(), request.walltime_s is None)
        kinds.setdefault(key, []).append(job)
    for job, *others in kinds.values():
        found = Problem(message="", job=job.name, key=dialect.name, jobs=1 + len(others))
        try:
            dialect.check_job(job.settings.service_settings)
            batch = batch_of(job.settings)
            scripts.max_wait_s(batch)
            scripts.hopeless_after_s(batch)
            scripts.text(batch)
            if ceilings:
                own = scripts.options_of_template(batch)
                yield from _exceeded_by_template(job, own, job_spec(dialect, batch, settings), dialect, ctx)
        except ConfigError as error:
            message = f"job '{job.name}': {error.message}"
            yield msgspec.structs.replace(found, message=message, hint=error.hint, code=error.code)
        except TemplateError as error:
            yield Problem(message=f"the template 'batch.sh' cannot be used: {error}", origin=ctx.site.origin)
            return


def _exceeded_by_template(
    job: Job, own: Sequence[str], spec: JobSpec, dialect: Dialect, ctx: Context
) -> Iterator[Problem]:
    """Find ceilings of the site that a job exceeds by options which its template has by itself."""
    if not own:
        return
    ceilings = ctx.settings.get("executor", {}).get("ceilings") or {}
    asked = dialect.allocations(msgspec.structs.replace(spec, raw=(*spec.raw, *own)))
    before = set(exceeded_ceilings(total_request(dialect.allocations(spec)), ceilings))
    for words in exceeded_ceilings(total_request(asked), ceilings):
        if words not in before:
            yield Problem(
                message=f"job '{job.name}' asks for {words}, by lines of the template 'batch.sh': {'; '.join(own)}",
                job=job.name,
                origin=ctx.site.origins.get("templates.batch.sh") or ctx.site.origins.get("templates"),
                key="templates",
                hint="Leave these lines out of the template.",
            )


_JOB_KIT_KEYS: Final = frozenset({"hopelessAfter", "maxpendtime"})
"""Keys of the kit that jobs may have values of their own for."""


def note_run_keys(workflow: Workflow, ctx: Context, dialect: Dialect) -> Iterator[Problem]:
    """Note settings in the own map of jobs that only the run's site has."""
    site = own_map(dialect.name, ctx.site.settings)
    names = (KIT_KEYS - _JOB_KIT_KEYS) | dialect.run_keys
    for job in workflow.samples:
        own = job.settings.service_settings
        unused = [f"'{dialect.name}.{name}'" for name in sorted(names & own.keys()) if own[name] != site.get(name)]
        if unused:
            has = "have" if unused[1:] else "has"
            yield Problem(
                message=f"{list_words(unused)} of '{job.label}' {has} no effect: the site sets such keys for the run",
                hint=f"Write them below 'site.{ctx.site.name}.{dialect.name}'.",
                job=job.name,
                key=dialect.name,
                fatal=False,
                code=UNUSED,
            )


def batch_of(job: JobSettings) -> Batch:
    """Return a batch of jobs with these settings, without members."""
    return Batch(
        id="0",
        tag="longshore-0",
        request=job.request,
        members=(),
        attributes=job.attributes,
        settings=job.service_settings,
    )


NATIVE_WARNING: Final = (
    "mode: native hands the whole graph to {0}: no job is tried again or gets more memory, nothing of the run can be "
    "held, throttled or set, success is exit code 0, and no order but that of {0} holds"
)
"""Warning, in a line, of what native runs do not support."""


Allocate: TypeAlias = Callable[[JobSettings, Mapping[str, Any]], Sequence[Allocation]]
"""Returns what each component of a job asks for, by its settings and those of the executor."""
_MANY_REQUESTS: Final = 1000
_SMALL_ARRAY: Final = 10
"""Mean number of jobs per request below which arrays are of little use."""


def check_requests(workflow: Workflow, ctx: Context, allocate: Allocate, service_key: str) -> Iterator[Problem]:
    """Find requests that no partition of the site, or no node of the cluster, can hold."""
    settings = ctx.settings.get("executor", {})
    rows = cast("Sequence[PartitionRow]", settings.get("partitions") or ())
    capacity = (ctx.probe.capacity if ctx.probe else None) or {}
    if not rows and not capacity:
        return
    for job in workflow.samples:
        components = allocate(job.settings, settings)
        try:
            choose_partition(rows, components[0])
        except NoPartitionError as error:
            key = _lacking_key(job, components[0], error.lacks) or service_key
            yield Problem(message=f"job '{job.name}': {error.message}", hint=error.hint, job=job.name, key=key)
        for each in components:
            yield from _check_size(job, each, capacity, service_key)


def _lacking_key(job: Job, asked: Allocation, lacks: Sequence[str]) -> str:
    """Return the key of the one amount that a partition lacks; empty for several, or one of the service's map."""
    request = job.settings.request
    amounts = {
        CPUS: (asked.cpus_per_node, request.cpus, "requestCpus"),
        "memory": (asked.memory_b, request.memory_b, "requestMemory"),
        "disk": (asked.disk_b, request.disk_b, "requestDisk"),
        "walltime": (asked.walltime_s, request.walltime_s, "requestWalltime"),
    }
    keys = [key for name, (amount, wanted, key) in amounts.items() if name in lacks and amount == wanted]
    return keys[0] if len(keys) == len(lacks) == 1 else ""


def _check_size(job: Job, asked: Allocation, capacity: Mapping[str, int], service_key: str) -> Iterator[Problem]:
    """Find amounts that no node has: a batch system would refuse some, and let others wait for ever."""
    request = job.settings.request
    amounts = (
        ("cpus", asked.cpus_per_node, request.cpus, "requestCpus"),
        ("memory", asked.memory_b, request.memory_b, "requestMemory"),
    )
    for name, amount, requested, key in amounts:
        there = capacity.get(name)
        if amount is None or there is None or amount <= there or amount == WHOLE_NODE_B:
            continue
        words, available = (f"{each / MIB:.0f} MiB" if name == "memory" else str(each) for each in (amount, there))
        yield Problem(
            message=f"job '{job.name}' asks for {words} of '{name}', and the largest node has {available}",
            job=job.name,
            key=key if amount == requested else service_key,
            hint="Ask for less, or choose another site.",
        )


def note_small_arrays(workflow: Workflow) -> Iterator[Problem]:
    """Note labels whose jobs nearly all have requests of their own: an array has jobs of one request."""
    requests = Counter(job.label for job in workflow.samples)
    for label, jobs in workflow.counts().items():
        different = requests[label]
        if different >= _MANY_REQUESTS and jobs < _SMALL_ARRAY * different:
            yield Problem(
                message=f"the {jobs:,} jobs of '{label}' have {different:,} different requests, and so are at least "
                f"as many submissions: round the amounts, as in 'round({{size_mb}} * 3, -2)'",
                fatal=False,
            )


# By what the cluster has, which is asked before a run is submitted.


def find_unmet_jobs(jobs: Iterable[Job], ctx: Context, allocate: Allocate, service_key: str) -> list[Problem]:
    """Find names and amounts that the cluster does not have.

    A job that no partition of the site's table holds is found by `check_requests`.
    """
    inventory = ctx.probe.inventory if ctx.probe else None
    if ctx.probe is None or inventory is None:
        return []
    settings = ctx.settings.get("executor", {})
    rows = cast("Sequence[PartitionRow]", settings.get("partitions") or ())
    checked_settings: set[int] = set()
    found: list[Problem] = []
    for job in jobs:
        # Jobs of one profile share their settings, so one check covers them.
        if id(job.settings) in checked_settings:
            continue
        checked_settings.add(id(job.settings))
        components = allocate(job.settings, settings)
        try:
            row = choose_partition(rows, components[0])
        except ConfigError:
            continue
        for each in components:
            asked = _within(at_site(each, settings, row), ctx.probe.capacity or {})
            found += _check_inventory(job, asked, inventory, service_key)
    return found


def _within(asked: Allocation, capacity: Mapping[str, int]) -> Allocation:
    """Return what a job asks for without the amounts that no node has, which `check_requests` reports."""
    if (
        asked.memory_b is not None
        and asked.memory_b != WHOLE_NODE_B
        and asked.memory_b > capacity.get("memory", math.inf)
    ):
        asked = msgspec.structs.replace(asked, memory_b=None)
    if asked.cpus_per_node > capacity.get("cpus", math.inf):
        asked = msgspec.structs.replace(asked, tasks=1, cpus_per_task=1, least_cpus=0)
    return asked


_MOST_TRIALS: Final = 4
"""Kinds of jobs of one submission that are tried."""


def find_refused_jobs(jobs: Iterable[Job], ctx: Context, client: BatchClient) -> Iterator[Problem]:
    """Find jobs that the workload manager does not take, by scripts that it judges and does not run.

    What Longshore writes itself is judged by `find_unmet_jobs`, so that jobs without raw options are tried only where
    a trial knows more (`Dialect.trial_judges_all`). Of jobs that differ in their amounts, the largest is tried.
    """
    dialect, settings = client.dialect, ctx.settings.get("executor", {})
    template = ctx.templates.get(BATCH_TEMPLATE.name.removesuffix(".j2"))
    if template is None or dialect.trial_call("") is None:
        return
    kinds: dict[tuple[object, ...], Job] = {}
    for job in sorted(jobs, key=_size, reverse=True):
        with suppress(ConfigError):
            raw = tuple(job_spec(dialect, batch_of(job.settings), settings).raw)
            others = (job.settings.request.cpus, *shared_parts_key(job.settings)) if dialect.trial_judges_all else ()
            if raw or others:
                kinds.setdefault((raw, *others), job)
    scripts = ScriptWriter(dialect, ctx.paths, settings, template)
    for job in islice(kinds.values(), _MOST_TRIALS):
        with suppress(ConfigError):
            call = dialect.trial_call(scripts.text(batch_of(job.settings)))
            answer = client.ask(call) if call is not None else None
            if answer is not None and dialect.submit_reply(answer).outcome is SubmitOutcome.REFUSED:
                is_raw = bool(job_spec(dialect, batch_of(job.settings), settings).raw)
                yield Problem(
                    message=f"job '{job.name}': {dialect.title} refuses it: {answer.why}",
                    job=job.name,
                    key="directives" if is_raw else dialect.name,
                    hint=f"Correct the {'raw options' if is_raw else 'request'} of the job or of its site.",
                )


def _size(job: Job) -> tuple[float, float]:
    return (job.settings.request.memory_b or 0, job.settings.request.walltime_s or 0)


def _check_inventory(job: Job, asked: Allocation, inventory: Inventory, service_key: str) -> Iterator[Problem]:
    """Find what the cluster does not have, or not as much of."""
    for unmet in find_unmet_requests(asked, inventory):
        yield Problem(
            message=f"job '{job.name}': {unmet.message}",
            hint=unmet.hint,
            job=job.name,
            key=service_key,
            fatal=unmet.fatal,
        )
