"""LSF as a service, which is small because beside its dialect LSF has only the unit of its limits to itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from longshore.contract.capabilities import BackendOptions
from longshore.contract.service import Context, PingReport, Problem, ServiceTraits
from longshore.errors import ConfigError
from longshore.services.batch.service import BatchService
from longshore.services.batch.settings import own_map
from longshore.services.lsf.cluster import parse_unit
from longshore.services.lsf.dialect import LsfDialect
from longshore.services.lsf.keys import TABLE
from longshore.services.lsf.options import SERVICE, backend_options, memory_unit
from longshore.sites.requests import ignored_priorities

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow


class LsfService(BatchService, BackendOptions):
    """LSF as a workload manager; experimental."""

    name: ClassVar[str] = SERVICE
    dialect: ClassVar[type[LsfDialect]] = LsfDialect
    traits: ClassVar[ServiceTraits] = ServiceTraits(
        raw_option_keys=("directives", *TABLE.raw_keys),
        environment_keys={
            "LSB_DEFAULTPROJECT": "accountingGroup",
            "LSB_DEFAULTQUEUE": "queue",
            "LSB_DEFAULT_USERGROUP": "lsf.userGroup",
        },
        option_variables="LSB_DEFAULT",
        enclosing_variable="LSB_JOBID",
        required_variables=LsfDialect.variables.required,
    )

    def backend_options(self, text: str) -> Mapping[str, Any]:
        """Return the keys that a string of options, as bsub has them, stands for; those of LSF in its own map."""
        return backend_options(text)

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the site's and the jobs' settings that are invalid."""
        return [*super().check(workflow, ctx), *ignored_priorities(workflow, "LSF")]

    def ping(self, ctx: Context) -> PingReport:
        """Return what the cluster reports on itself and on the site's settings; submits nothing."""
        report = super().ping(ctx)
        if not report.details:
            return report
        settings = ctx.settings.get("executor", {})
        client = self.client(settings)
        unit = parse_unit(client.ask(client.dialect.query_call("badmin", "showconf", "mbd")).out)
        assumed = memory_unit(own_map(self.name, settings))
        problems = report.problems
        if unit and unit != assumed:
            message = f"the cluster's LSF_UNIT_FOR_LIMITS is {unit}: set 'lsf.memoryUnit: {unit}', which is {assumed}"
            problems = (*problems, Problem(message=message, code=ConfigError.code))
        details = {**report.details, "unit of limits": unit or f"unknown; 'lsf.memoryUnit' is {assumed}"}
        return msgspec.structs.replace(report, details=details, problems=problems)
