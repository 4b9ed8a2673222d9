"""Slurm service: Longshore's engine with the batch kit, or the whole graph as native Slurm dependencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from longshore.batch.service import BatchService
from longshore.batch.settings import executor_settings
from longshore.contract.capabilities import BackendOptions, LauncherLine
from longshore.contract.context import Context, PingReport, Problem
from longshore.contract.service import ServiceTraits
from longshore.engine.schedule.concurrency_limits import find_missing_limits
from longshore.plan.ignored_requests import ignored_requests
from longshore.services.slurm.check import (
    IGNORED_SETTINGS,
    SETTINGS_KEY,
    check_job_settings,
    check_native_mode,
    check_site,
    check_sizes,
    note_small_arrays,
)
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.ping import ping
from longshore.services.slurm.render.backend_options import backend_values
from longshore.services.slurm.render.launcher import launcher_line
from longshore.services.slurm.render.sbatch_options import component_count

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow


class SlurmService(BatchService, LauncherLine, BackendOptions):
    """Slurm as a workload manager."""

    name: ClassVar[str] = "slurm"
    traits: ClassVar[ServiceTraits] = ServiceTraits(
        settings_key=SETTINGS_KEY,
        raw_option_keys=("directives", "sbatch"),
        required_variables=SlurmDialect.required_variables,
    )

    def dialect(self, own: Mapping[str, Any]) -> SlurmDialect:
        """Return Slurm's dialect."""
        return SlurmDialect(own)

    def backend_options(self, text: str) -> Mapping[str, Any]:
        """Return the keys that a string of options, as srun has them, stands for."""
        return backend_values(text)

    def launcher_line(self, settings: Mapping[str, Any]) -> str:
        """Return the line that starts the tasks of a job."""
        return launcher_line(settings.get("launcher"), component_count(settings))

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the site's and the jobs' settings that are invalid."""
        problems = list(check_site(ctx))
        if not any(problem.fatal for problem in problems):
            problems += check_job_settings(workflow, ctx)
        problems += check_native_mode(workflow, ctx)
        problems += ignored_requests(workflow, IGNORED_SETTINGS, "Slurm")
        problems += find_missing_limits(workflow, ctx.settings)
        problems += note_small_arrays(workflow)
        problems += check_sizes(workflow, (ctx.probe.capacity if ctx.probe else None) or {})
        return problems

    def ping(self, ctx: Context) -> PingReport:
        """Return what the cluster reports on itself and on the site's settings; submits nothing."""
        settings = {
            **executor_settings(SETTINGS_KEY, ctx),
            "queue": ctx.site.settings.get("queue"),
        }
        return ping(self.client(settings), settings)
