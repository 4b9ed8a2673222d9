"""The Slurm service: our own engine over `SlurmExecutor`, with what a site says of its cluster as settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from jinja2 import TemplateError

from longshore.contract.context import Context, PingReport, Problem, RenderedFile
from longshore.contract.executor import Batch, Executor
from longshore.engine.service import EngineService
from longshore.errors import ConfigError
from longshore.model.request import MIB
from longshore.services.slurm.asked import check_names, component_count
from longshore.services.slurm.backend import backend_values
from longshore.services.slurm.client import SlurmClient
from longshore.services.slurm.executor import SlurmExecutor
from longshore.services.slurm.launch import launcher_line
from longshore.services.slurm.nice import scale
from longshore.services.slurm.pace import pace_of
from longshore.services.slurm.ping import ping
from longshore.services.slurm.script import TEMPLATE, WRAPPER, batch_script, longest_wait_s, on_submit_error

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
        for path, mode in ((TEMPLATE, 0o644), (WRAPPER, 0o755)):
            text = ctx.templates[path.name.removesuffix(".j2")]
            yield RenderedFile(path=path, mode=mode, chunks=lambda text=text: iter((text,)))  # type: ignore[misc]

    def ping(self, ctx: Context) -> PingReport:
        """Return what the cluster says of itself and of what the site names; submits nothing."""
        settings = {**ctx.settings.get("executor", {}), **_of_site(ctx), "queue": ctx.site.settings.get("queue")}
        client = SlurmClient(settings.get("slurm") or {}, setup=settings.get("setup") or ())
        return ping(client, settings)


def _of_the_site(ctx: Context) -> Iterator[Problem]:
    """What of the site's own map cannot be understood, or is of no use."""
    slurm = ctx.site.settings.get("slurm") or {}
    try:
        check_names(slurm)
        scale(slurm)
        pace_of(slurm)
        on_submit_error(slurm)
        longest_wait_s(slurm)
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
