"""Slurm service: Longshore's engine with the batch kit, or the whole graph as native Slurm dependencies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from longshore.batch.service import BatchService
from longshore.batch.settings import own_map
from longshore.contract.capabilities import BackendOptions, LauncherLine, LoadReporter
from longshore.contract.context import Context, Problem
from longshore.contract.service import ServiceTraits
from longshore.plan.transform import ignored_requests
from longshore.services.slurm.check import IGNORED_SETTINGS, check_clusters, check_library
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.extensions.backend_options import backend_values
from longshore.services.slurm.extensions.components import component_count
from longshore.services.slurm.extensions.launcher import launcher_line
from longshore.services.slurm.load import parse_load

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow


class SlurmService(BatchService, LauncherLine, BackendOptions, LoadReporter):
    """Slurm as a workload manager."""

    name: ClassVar[str] = "slurm"
    traits: ClassVar[ServiceTraits] = ServiceTraits(
        raw_option_keys=("directives", "sbatch"),
        required_variables=SlurmDialect.variables.required,
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

    def query_load(self, ctx: Context) -> Mapping[str, float]:
        """Return what sinfo and squeue show of all nodes and waiting jobs."""
        settings = ctx.settings.get("executor", {})
        client, dialect = self.client(settings), self.dialect(own_map(self.name, settings))
        nodes = client.ask(dialect.query_call("sinfo", "--noheader", "--format=%C|%F"))
        waiting = client.ask(dialect.query_call("squeue", "--noheader", "--states=PENDING", "--format=%C"))
        return parse_load(nodes.out if nodes.ok else "", waiting.out if waiting.ok else "")

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the site's and the jobs' settings that are invalid."""
        return [
            *super().check(workflow, ctx),
            *check_library(ctx),
            *check_clusters(workflow, ctx),
            *ignored_requests(workflow, IGNORED_SETTINGS, "Slurm"),
        ]
