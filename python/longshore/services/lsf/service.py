"""LSF service: Longshore's engine with the batch kit, or the whole graph as dependencies that LSF keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from longshore.batch.service import BatchService
from longshore.contract.context import Context, PingReport, Problem
from longshore.contract.service import ServiceTraits
from longshore.plan.ignored_requests import ignored_requests
from longshore.services.lsf.dialect import LsfDialect
from longshore.services.lsf.ping import ping

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow

_IGNORED_SETTINGS: Final = ("accountingUser", "abortReturnValue")
"""Settings of a job without an equivalent in LSF."""


class LsfService(BatchService):
    """LSF as a workload manager; experimental."""

    name: ClassVar[str] = "lsf"
    traits: ClassVar[ServiceTraits] = ServiceTraits(
        raw_option_keys=("directives", "bsub"), required_variables=LsfDialect.required_variables
    )

    def dialect(self, own: Mapping[str, Any]) -> LsfDialect:
        """Return LSF's dialect."""
        return LsfDialect(own)

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the site's and the jobs' settings that are invalid."""
        return [*super().check(workflow, ctx), *ignored_requests(workflow, _IGNORED_SETTINGS, "LSF")]

    def ping(self, ctx: Context) -> PingReport:
        """Return what the cluster reports on itself, on the site's queues and on its unit; submits nothing."""
        settings = {**ctx.settings.get("executor", {}), "queue": ctx.site.settings.get("queue")}
        return ping(self.client(settings), settings)
