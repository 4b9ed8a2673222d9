"""Grid Engine service: Longshore's engine with the batch kit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from longshore.batch.service import BatchService
from longshore.contract.capabilities import BackendOptions
from longshore.contract.context import Context, PingReport, Problem
from longshore.contract.service import ServiceTraits
from longshore.errors import ConfigError, OptionHelpRequest
from longshore.plan.ignored_requests import ignored_requests
from longshore.services.sge.check import IGNORED_SETTINGS, check_jobs, find_unknown_names
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.options import SERVICE
from longshore.services.sge.parse_cluster import resource_names

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow

BACKEND_HELP = """\
--backend-options for Grid Engine is the priority of the jobs, as behind qsub's -p: a whole number from -1023 to 0."""


class SgeService(BatchService, BackendOptions):
    """Grid Engine as a workload manager."""

    name: ClassVar[str] = SERVICE
    traits: ClassVar[ServiceTraits] = ServiceTraits(
        raw_option_keys=("directives",),
        required_variables=SgeDialect.variables.required,
    )

    def dialect(self, own: Mapping[str, Any]) -> SgeDialect:
        """Return Grid Engine's dialect."""
        return SgeDialect(own)

    def backend_options(self, text: str) -> Mapping[str, Any]:
        """Return the key that a priority stands for."""
        word = text.strip()
        if word in ("-h", "--help"):
            raise OptionHelpRequest(BACKEND_HELP)
        if not re.fullmatch(r"[+-]?\d{1,4}", word):
            raise ConfigError(f"the option of the back end must be a priority, not '{word}'", hint=BACKEND_HELP)
        return {SERVICE: {"priority": int(word)}}

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the site's and the jobs' settings that are invalid."""
        return [
            *super().check(workflow, ctx),
            *check_jobs(workflow, ctx),
            *ignored_requests(workflow, IGNORED_SETTINGS, SgeDialect.title),
        ]

    def ping(self, ctx: Context) -> PingReport:
        """Return what the cluster reports on itself and on the site's settings; submits nothing."""
        report = super().ping(ctx)
        if report.capacity is None and not report.ok:
            return report
        settings = ctx.settings.get("executor", {})
        client = self.client(settings)
        resources = client.ask(client.dialect.query_call("qconf", "-sc"))
        environments = client.ask(client.dialect.query_call("qconf", "-spl"))
        known = {
            "resource": resource_names(resources.out) if resources.ok else None,
            "parallel environment": frozenset(environments.out.split()) if environments.ok else None,
        }
        errors = [*([] if report.ok else [report.message]), *find_unknown_names(settings, known)]
        return msgspec.structs.replace(report, ok=not errors, message="; ".join(errors) or report.message)
