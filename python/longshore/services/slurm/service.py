"""The Slurm service: our own engine over `SlurmExecutor`, with what a site says of its cluster as settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from longshore.config.settings import walltime
from longshore.contract.context import Context, PingReport, Problem, RenderedFile
from longshore.contract.executor import Executor
from longshore.engine.service import EngineService
from longshore.errors import ConfigError
from longshore.model.request import MIB
from longshore.services.slurm.asked import check_names
from longshore.services.slurm.client import SlurmClient
from longshore.services.slurm.executor import SlurmExecutor
from longshore.services.slurm.handing import on_submit_error
from longshore.services.slurm.nice import scale
from longshore.services.slurm.pace import pace_of
from longshore.services.slurm.ping import ping
from longshore.services.slurm.scripts import TEMPLATE, WRAPPER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from longshore.model.workflow import Workflow

_OF_SITE: Final = ("slurm", "account", "qos", "directives", "partitions")
"""What of a site's description the executor reads."""

_KEYS: Final = {"cpus": "requestCpus", "memory": "requestMemory"}


class SlurmService(EngineService):
    """Slurm as a workload manager."""

    name: ClassVar[str] = "slurm"

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return the executor."""
        return SlurmExecutor(settings)

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return what of the site's and the jobs' own maps cannot be understood."""
        problems = []
        slurm = ctx.site.settings.get("slurm") or {}
        try:
            check_names(slurm)
            scale(slurm)
            pace_of(slurm)
            on_submit_error(slurm)
            if slurm.get("maxpendtime") is not None:
                walltime(slurm["maxpendtime"], "slurm.maxpendtime")
        except (ConfigError, ValueError) as error:
            problems.append(Problem(message=str(error), origin=ctx.site.origin))
        problems += _too_large(workflow, (ctx.probe.capacity if ctx.probe else None) or {})
        if slurm.get("lib_slurm"):
            problems.append(
                Problem(
                    message="'lib_slurm' is not used: Slurm is spoken to through its programs",
                    origin=ctx.site.origin,
                    fatal=False,
                )
            )
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
        settings = {**ctx.settings.get("executor", {}), **_of_site(ctx)}
        client = SlurmClient(settings.get("slurm") or {}, setup=settings.get("setup") or ())
        return ping(client, settings)


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
