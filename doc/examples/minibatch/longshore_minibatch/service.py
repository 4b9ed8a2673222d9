"""The service `minibatch`: Longshore's engine, and an executor for the batch system of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from longshore.contract.executor import Executor
from longshore.contract.service import Context, PingReport, Problem, RenderedFile, ServiceTraits, Unreachable
from longshore.engine.job_wrapper import wrapper_file
from longshore.engine.run.engine_service import EngineService
from longshore.model.workflow import Workflow
from longshore_minibatch.client import MinibatchClient
from longshore_minibatch.executor import TEMPLATE, MinibatchExecutor


class MinibatchService(EngineService):
    """The batch system minibatch."""

    name = "minibatch"
    traits = ServiceTraits(runs_on_submit_host=True, settings_key="minibatch")

    def executor(self, settings: Mapping[str, Any]) -> Executor:
        """Return a new executor."""
        return MinibatchExecutor(settings)

    def render_extra(self, workflow: Workflow, ctx: Context) -> Iterator[RenderedFile]:
        """Return the job wrapper and the template of scripts."""
        yield wrapper_file(ctx)
        yield RenderedFile.from_text(TEMPLATE, ctx.templates["batch.sh"])

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the jobs that need more processors than there are."""
        if ctx.probe is None or ctx.probe.capacity is None:
            return []
        most = ctx.probe.capacity["cpus"]
        return [
            Problem(message=f"job '{job.name}' asks for more than {most} processors", job=job.name, key="requestCpus")
            for job in workflow
            if job.settings.request.cpus > most
        ]

    def ping(self, ctx: Context) -> PingReport:
        """Ask minibatch for its processors."""
        cpus = MinibatchClient(ctx.settings.get("executor", {})).processors()
        if isinstance(cpus, Unreachable):
            return PingReport(service=self.name, ok=False, message=cpus.why)
        return PingReport(service=self.name, ok=True, message="minibatch answers", capacity={"cpus": cpus})
