"""Checks of a site's and of jobs' Slurm settings before a run is written (pure functions)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from jinja2 import TemplateError

from longshore.batch.commands.poll_schedule import poll_schedule
from longshore.batch.engine_job import TEMPLATE as ENGINE_TEMPLATE
from longshore.batch.engine_job import engine_request, engine_script, wants_engine_job
from longshore.batch.scripts import TEMPLATE
from longshore.batch.settings import executor_settings, max_wait_s, on_submit_error, wants_native
from longshore.contract.batch import Batch
from longshore.contract.context import Context, Problem, Site
from longshore.errors import ConfigError
from longshore.model.workflow.job import Job, shared_parts_key
from longshore.model.workflow.request import MIB
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.render.batch_script import batch_script
from longshore.services.slurm.render.nice import scale
from longshore.services.slurm.render.sbatch_options import SlurmMap, check_names, slurm_map

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow

SETTINGS_KEY: Final = "slurm"
"""Key of the service's own map."""
IGNORED_SETTINGS: Final = ("accountingUser", "abortReturnValue")
"""Settings of a job without an equivalent in Slurm."""
_MANY_REQUESTS: Final = 1000
_SMALL_ARRAY: Final = 10
"""Mean number of jobs per request below which arrays are of little use."""
_REQUEST_KEYS: Final = {"cpus": "requestCpus", "memory": "requestMemory"}


def check_site(ctx: Context) -> Iterator[Problem]:
    """Find invalid or useless settings in the site's own map."""
    slurm = slurm_map(ctx.site.settings)
    try:
        check_names(slurm)
        scale(slurm)
        poll_schedule(SETTINGS_KEY, slurm)
        on_submit_error(SETTINGS_KEY, slurm)
        max_wait_s(SETTINGS_KEY, slurm)
        native = wants_native(SETTINGS_KEY, ctx.site.settings)
        if wants_engine_job(SETTINGS_KEY, ctx.site.settings) or native:
            _, own_settings = engine_request(SETTINGS_KEY, slurm)
            check_names(own_settings)
            template = ctx.templates[ENGINE_TEMPLATE.name.removesuffix(".j2")]
            engine_script(
                SlurmDialect(slurm),
                ctx.paths,
                executor_settings(SETTINGS_KEY, ctx),
                template,
                run_token="longshore-0",
                by="submit",
                command=("longshore",),
            )
        if native:
            yield Problem(message=NATIVE_WARNING, origin=ctx.site.origin, fatal=False)
    except ConfigError as error:
        yield Problem(message=error.message, hint=error.hint, origin=ctx.site.origin)
    except ValueError as error:
        yield Problem(message=str(error), origin=ctx.site.origin)
    if slurm.get("lib_slurm"):
        yield Problem(
            message="'lib_slurm' is not used: Longshore runs Slurm's programs",
            origin=ctx.site.origin,
            fatal=False,
        )


def check_native_mode(workflow: Workflow, ctx: Context) -> Iterator[Problem]:
    """Find parts of a workflow that need an engine, when the site hands whole graphs to Slurm."""
    if workflow.orderings and wants_native(SETTINGS_KEY, ctx.site.settings):
        names = ", ".join(f"'{ordering.name}'" for ordering in workflow.orderings)
        yield Problem(
            message=f"mode: native cannot have groups of jobs run one after another, as 'ordering' wants ({names})",
            origin=ctx.site.origin,
            hint="Leave 'mode: native' out: the engine keeps the ordering.",
        )


def check_job_settings(workflow: Workflow, ctx: Context) -> Iterator[Problem]:
    """Find jobs' settings that cannot be written into a script, by rendering one for each distinct map."""
    settings = executor_settings(SETTINGS_KEY, ctx)
    template = ctx.templates[TEMPLATE.name.removesuffix(".j2")]
    kinds: dict[tuple[object, ...], list[Job]] = {}
    for job in workflow:
        request = job.settings.request
        # An amount is a number in the script, whichever it is: there may be as many as jobs.
        key = (*shared_parts_key(job.settings), *request.amounts(), request.walltime_s is None)
        kinds.setdefault(key, []).append(job)
    for job, *others in kinds.values():
        batch = Batch(
            id="0",
            tag="longshore-0",
            request=job.settings.request,
            members=(),
            attributes=job.settings.attributes,
            settings=job.settings.service_settings,
        )
        found = Problem(message="", job=job.name, key=SETTINGS_KEY, jobs=1 + len(others))
        if problem := _cluster_problem(job.settings.service_settings, ctx.site):
            yield msgspec.structs.replace(found, message=f"job '{job.name}': {problem}")
            continue
        try:
            check_names(job.settings.service_settings)
            max_wait_s(SETTINGS_KEY, job.settings.service_settings)
            batch_script(batch, settings, ctx.paths, template)
        except ConfigError as error:
            yield msgspec.structs.replace(found, message=f"job '{job.name}': {error.message}", hint=error.hint)
        except TemplateError as error:
            yield Problem(message=f"the template 'batch.sh' cannot be used: {error}", origin=ctx.site.origin)
            return


def note_small_arrays(workflow: Workflow) -> Iterator[Problem]:
    """Note labels whose jobs nearly all have requests of their own: an array has jobs of one request."""
    requests: dict[str, set[int]] = {}
    for job in workflow:
        requests.setdefault(job.label, set()).add(id(job.settings))
    for label, jobs in workflow.counts().items():
        different = len(requests.get(label, ()))
        if different >= _MANY_REQUESTS and jobs < _SMALL_ARRAY * different:
            yield Problem(
                message=f"the {jobs:,} jobs of '{label}' have {different:,} different requests, and so are at least "
                f"as many submissions: round the amounts, as in 'round({{size_mb}} * 3, -2)'",
                fatal=False,
            )


def _cluster_problem(own: SlurmMap, site: Site) -> str:
    """Explain why jobs for another cluster cannot be submitted with the others; empty when they can."""
    site_map = slurm_map(site.settings)
    for name in ("clusters", "config"):
        if (value := own.get(name, site_map.get(name))) != site_map.get(name):
            return (
                f"'slurm.{name}' is '{value}', and that of the run's site '{site_map.get(name)}': a run has one cluster"
            )
    return ""


def check_sizes(workflow: Workflow, capacity: Mapping[str, int]) -> Iterator[Problem]:
    """Find requests that no node can hold: Slurm would refuse some, and let others wait for ever."""
    checked_settings: set[int] = set()
    for job in workflow:
        # Jobs of one profile share their settings, so one check covers them.
        if id(job.settings) in checked_settings:
            continue
        checked_settings.add(id(job.settings))
        for name, amount in job.settings.request.amounts().items():
            if name in _REQUEST_KEYS and amount > capacity.get(name, amount):
                requested, available = (
                    (f"{number / MIB:.0f} MiB" if name == "memory" else str(number))
                    for number in (amount, capacity[name])
                )
                yield Problem(
                    message=f"job '{job.name}' asks for {requested} of '{name}', and the largest node has {available}",
                    job=job.name,
                    key=_REQUEST_KEYS[name],
                    hint="Ask for less, or choose another site.",
                )


NATIVE_WARNING: Final = (
    "mode: native hands the whole graph to Slurm: no job is tried again or gets more memory, nothing of the run can be "
    "held, throttled or set, success is exit code 0, and no order but that of Slurm holds"
)
"""Warning, in a line, of what native runs do not support."""
