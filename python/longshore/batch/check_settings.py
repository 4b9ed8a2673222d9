"""Checks of a site's and of jobs' settings for a batch system, before a run is written (pure functions)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec
from jinja2 import TemplateError

from longshore.batch.commands.pace import poll_schedule
from longshore.batch.dialect import Dialect
from longshore.batch.engine_job import TEMPLATE as ENGINE_TEMPLATE
from longshore.batch.engine_job import engine_request, engine_script, wants_engine_job
from longshore.batch.records import BATCH_TEMPLATE
from longshore.batch.script_writer import ScriptWriter
from longshore.batch.settings import hopeless_after_s, max_wait_s, on_submit_error, own_map, wants_fence, wants_native
from longshore.contract.executor import Batch
from longshore.contract.service import Context, Problem
from longshore.errors import ConfigError
from longshore.model.workflow import Job, JobSettings, KeepPolicy, shared_parts_key

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow


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
        yield Problem(message=error.message, hint=error.hint, origin=ctx.site.origin)
    except ValueError as error:
        yield Problem(message=str(error), origin=ctx.site.origin)


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
        except ConfigError as error:
            yield msgspec.structs.replace(found, message=f"job '{job.name}': {error.message}", hint=error.hint)
        except TemplateError as error:
            yield Problem(message=f"the template 'batch.sh' cannot be used: {error}", origin=ctx.site.origin)
            return


def note_kept_folders(workflow: Workflow) -> Iterator[Problem]:
    """Note the labels whose jobs should keep their temporary directories."""
    labels = {job.label: None for job in workflow if job.settings.rules.bounds.tmp is not KeepPolicy.NONE}
    if labels:
        names = ", ".join(f"'{label}'" for label in labels)
        yield Problem(
            message=f"'keepTmp' of {names} has no effect: the wrapper removes the temporary directory of each job",
            hint="Copy what you need from $TMPDIR at the end of the command.",
            key="keepTmp",
            fatal=False,
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
