"""The Slurm service: our own engine over `SlurmExecutor`, with what a site says of its cluster as settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from jinja2 import TemplateError

from longshore.contract.context import Context, PingReport, Problem, RenderedFile, RunPaths, Unreachable
from longshore.contract.executor import Batch, CancelOutcome, Executor
from longshore.contract.service import Selection
from longshore.engine import settings as engine_settings
from longshore.engine.service import EngineService, engine_command
from longshore.errors import ConfigError, RunUnreadableError
from longshore.model.request import MIB
from longshore.model.submission import Submission
from longshore.services.slurm.asked import check_names, component_count
from longshore.services.slurm.backend import backend_values
from longshore.services.slurm.client import SlurmClient
from longshore.services.slurm.enginejob import TEMPLATE as ENGINE_TEMPLATE
from longshore.services.slurm.enginejob import EngineJob, wants_job
from longshore.services.slurm.executor import SlurmExecutor
from longshore.services.slurm.launch import launcher_line
from longshore.services.slurm.nice import scale
from longshore.services.slurm.pace import pace_of
from longshore.services.slurm.ping import ping
from longshore.services.slurm.script import TEMPLATE, WRAPPER, batch_script, longest_wait_s, on_submit_error
from longshore.services.slurm.states import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from longshore.model.workflow import Workflow

_OF_SITE: Final = ("slurm", "account", "qos", "directives", "partitions")
"""What of a site's description the executor reads."""

_KEYS: Final = {"cpus": "requestCpus", "memory": "requestMemory"}


class SlurmService(EngineService):
    """Slurm as a workload manager."""

    name: ClassVar[str] = "slurm"
    own_map: ClassVar[str] = "slurm"
    raw_lines: ClassVar[tuple[str, ...]] = ("directives", "sbatch")

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return the executor."""
        return SlurmExecutor(settings)

    def backend_options(self, text: str) -> Mapping[str, Any]:
        """Return the keys that a string of options, as srun has them, stands for."""
        return backend_values(text)

    def launcher(self, own: Mapping[str, Any]) -> str:
        """Return the line that starts the tasks of a job."""
        return launcher_line(own.get("launcher"), component_count(own))

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return what of the site's and the jobs' own maps cannot be understood."""
        problems = list(_of_the_site(ctx))
        if not any(problem.fatal for problem in problems):
            problems += _unfit(workflow, ctx)
        problems += _too_large(workflow, (ctx.probe.capacity if ctx.probe else None) or {})
        return problems

    def render(self, workflow: Workflow, ctx: Context) -> Iterable[RenderedFile]:
        """Return the settings, the template of a batch's script, and the program that runs a member."""
        executor = {**ctx.settings.get("executor", {}), **_of_site(ctx)}
        yield from super().render(
            workflow, msgspec.structs.replace(ctx, settings={**ctx.settings, "executor": executor})
        )

    def by_hand(self, workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
        """Return the template and the wrapper."""
        for path, mode in ((TEMPLATE, 0o644), (ENGINE_TEMPLATE, 0o644), (WRAPPER, 0o755)):
            text = ctx.templates[path.name.removesuffix(".j2")]
            yield RenderedFile(path=path, mode=mode, chunks=lambda text=text: iter((text,)))  # type: ignore[misc]

    # -------------------------------------------------------------------------------------------- an engine as a job

    def start_engine(self, run: RunPaths, by: str) -> str:
        """Start an engine here, or have Slurm start it, as the site wishes."""
        settings = engine_settings.read(run).executor
        # What is to be ended is not to wait in a queue for somebody who ends it.
        if by == "cancel" or not wants_job(settings):
            return super().start_engine(run, by)
        return EngineJob(run, _client(settings)).start(settings, by, engine_command(run))

    def alive(self, run: RunPaths) -> bool | Unreachable:
        """Return whether an engine gives signs of life, or is a job that Slurm has in its queue."""
        found = super().alive(run)
        if found:
            return found
        job = self._engine_job(run)
        # A job of which Slurm says nothing for now may well be there.
        return job is not None and job.phase() in (Phase.WAITING, Phase.RUNNING, Phase.UNKNOWN)

    def cancel(self, run: RunPaths, selection: Selection) -> CancelOutcome:
        """Cancel; an engine that waits in the queue does not take the order, and is replaced by one that does."""
        job = self._engine_job(run)
        if job is not None and not super().alive(run) and job.phase() is Phase.WAITING:
            job.end()
        return super().cancel(run, selection)

    def resume(self, run: RunPaths, *, take_over: bool = False, force: bool = False) -> Submission | None:
        """Take the run up; the job of an engine that is taken over from is ended first."""
        job = self._engine_job(run)
        if take_over and job is not None:
            job.end()
        return super().resume(run, take_over=take_over, force=force)

    def _engine_job(self, run: RunPaths) -> EngineJob | None:
        try:
            settings = engine_settings.read(run).executor
        except RunUnreadableError:
            return None
        return EngineJob(run, _client(settings)) if wants_job(settings) else None

    def ping(self, ctx: Context) -> PingReport:
        """Return what the cluster says of itself and of what the site names; submits nothing."""
        settings = {**ctx.settings.get("executor", {}), **_of_site(ctx), "queue": ctx.site.settings.get("queue")}
        return ping(_client(settings), settings)


def _client(settings: Mapping[str, Any]) -> SlurmClient:
    return SlurmClient(
        settings.get("slurm") or {}, setup=settings.get("setup") or (), inherit=settings.get("inherit") or "all"
    )


def _of_the_site(ctx: Context) -> Iterator[Problem]:
    """What of the site's own map cannot be understood, or is of no use."""
    slurm = ctx.site.settings.get("slurm") or {}
    try:
        check_names(slurm)
        scale(slurm)
        pace_of(slurm)
        on_submit_error(slurm)
        longest_wait_s(slurm)
        wants_job(ctx.site.settings)
    except ConfigError as error:
        yield Problem(message=error.message, hint=error.hint, origin=ctx.site.origin)
    except ValueError as error:
        yield Problem(message=str(error), origin=ctx.site.origin)
    if slurm.get("lib_slurm"):
        yield Problem(
            message="'lib_slurm' is not used: Slurm is spoken to through its programs",
            origin=ctx.site.origin,
            fatal=False,
        )


def _unfit(workflow: Workflow, ctx: Context) -> Iterator[Problem]:
    """What of the jobs' own maps cannot be written into a script: each is tried once, beforehand."""
    settings = {**ctx.settings.get("executor", {}), **_of_site(ctx)}
    template = ctx.templates[TEMPLATE.name.removesuffix(".j2")]
    judged: set[int] = set()
    for job in workflow:
        if id(job.settings) in judged:
            continue
        judged.add(id(job.settings))
        batch = Batch(
            id="0",
            tag="longshore-0",
            request=job.settings.request,
            members=(),
            attributes=job.settings.attributes,
            settings=job.settings.own,
        )
        try:
            check_names(job.settings.own)
            longest_wait_s(job.settings.own)
            batch_script(batch, settings, ctx.paths, template)
        except ConfigError as error:
            yield Problem(
                message=f"job '{job.name}': {error.message}", hint=error.hint, job=job.name, key=SlurmService.own_map
            )
        except TemplateError as error:
            yield Problem(message=f"the template 'batch.sh' cannot be used: {error}", origin=ctx.site.origin)
            return


def _too_large(workflow: Workflow, capacity: Mapping[str, int]) -> Iterator[Problem]:
    """Requests that no node can hold: Slurm would refuse some of them, and let others wait for ever."""
    judged: set[int] = set()
    for job in workflow:
        # Jobs of one profile share their settings and so their fate.
        if id(job.settings) in judged:
            continue
        judged.add(id(job.settings))
        for name, amount in job.settings.request.amounts().items():
            if name in _KEYS and amount > capacity.get(name, amount):
                asked, there = (
                    (f"{number / MIB:.0f} MiB" if name == "memory" else str(number))
                    for number in (amount, capacity[name])
                )
                yield Problem(
                    message=f"job '{job.name}' asks for {asked} of '{name}', and the largest node has {there}",
                    job=job.name,
                    key=_KEYS[name],
                    hint="Ask for less, or choose another site.",
                )


def _of_site(ctx: Context) -> dict[str, Any]:
    """What the executor has to know of the site."""
    said = ctx.site.settings
    found = {name: said[name] for name in _OF_SITE if said.get(name)}
    if lines := (said.get("setup") or {}).get("submit"):
        found["setup"] = list(lines)
    return found
