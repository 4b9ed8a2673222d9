"""Local service, this machine as a workload manager; small so that a report of a run needs no more than this module."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from longshore.contract.capabilities import LoadReporter
from longshore.contract.executor import Executor
from longshore.contract.service import Context, PingReport, Problem, RenderedFile, ServiceTraits
from longshore.engine.run.engine_service import EngineService
from longshore.system.host import usable_cpus

if TYPE_CHECKING:
    from longshore.model.workflow import Request, Workflow


class LocalService(EngineService, LoadReporter):
    """This machine as a workload manager."""

    name: ClassVar[str] = "local"
    traits: ClassVar[ServiceTraits] = ServiceTraits(runs_on_submit_host=True)

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return the executor."""
        from longshore.services.local.executor import LocalExecutor

        return LocalExecutor(settings)

    def import_engine(self) -> None:
        """Import also what the start of a keeper imports."""
        import tempfile  # noqa: F401

        super().import_engine()

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the requests that this machine can never grant."""
        from longshore.services.local.check import check_workflow

        return check_workflow(workflow, ctx)

    def ping(self, ctx: Context) -> PingReport:
        """Return this machine's resources, as the executor's probe does, without the import of what starts jobs."""
        from longshore.services.local.machine import probe_machine

        return probe_machine(ctx.settings.get("executor", {}).get("pool") or {})

    def query_load(self, ctx: Context) -> Mapping[str, float]:
        """Return the processors of this machine, and those that its load of the last minute leaves."""
        cpus = usable_cpus()
        return {"cpus_total": cpus, "cpus_free": max(0.0, cpus - os.getloadavg()[0])}

    def request_problems(self, request: Request, source: str, settings: Mapping[str, Any]) -> Iterator[Problem]:
        """Return the parts of a request that this machine can never grant."""
        from longshore.services.local.check import oversized_requests
        from longshore.services.local.machine import probe_machine

        capacity = probe_machine(settings.get("pool") or {}).capacity or {}
        hint = "Ask for no more than the run has: 'resources' at its submission, else this machine."
        for problem in oversized_requests(f"'{source}'", request.amounts(), capacity):
            yield msgspec.structs.replace(problem, hint=hint)

    def render_extra(self, workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
        """Return the table of jobs and the program that runs one of them."""
        from longshore.services.local import render

        return render.render_files(workflow, ctx)
