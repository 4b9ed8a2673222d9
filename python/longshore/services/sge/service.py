"""Grid Engine service: Longshore's engine with the batch kit."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from longshore.batch.dialect import Question
from longshore.batch.service import BatchService
from longshore.batch.settings import own_map
from longshore.contract.capabilities import BackendOptions, LoadReporter, SiteAccess
from longshore.contract.context import Context, Problem
from longshore.contract.inventory import Inventory
from longshore.contract.service import ServiceTraits
from longshore.errors import ConfigError, OptionHelpRequest
from longshore.plan.transform import ignored_requests
from longshore.services.sge.check import IGNORED_SETTINGS, check_jobs, pilot_questions
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.load import parse_load
from longshore.services.sge.options import SERVICE
from longshore.sites.requests import Unmet

if TYPE_CHECKING:
    from longshore.model.workflow.workflow import Workflow

BACKEND_HELP = """\
--backend-options for Grid Engine is the priority of the jobs, as behind qsub's -p: a whole number from -1023 to 0."""


class SgeService(BatchService, BackendOptions, LoadReporter, SiteAccess):
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

    def pilot_questions(self, settings: Mapping[str, Any]) -> Iterator[Question[tuple[Unmet, ...]]]:
        """Return the questions for the parallel environment of pilots on several hosts."""
        return pilot_questions(settings, self.dialect(own_map(self.name, settings)).query_call)

    def query_load(self, ctx: Context) -> Mapping[str, float]:
        """Return the slots that qstat shows for all queues."""
        settings = ctx.settings.get("executor", {})
        dialect = self.dialect(own_map(self.name, settings))
        answer = self.client(settings).ask(dialect.query_call("qstat", "-g", "c"))
        return parse_load(answer.out) if answer.ok else {}

    def site_access(self, inventory: Inventory | None = None) -> Mapping[str, Any]:
        """Return where the programs of this host are, and the variables by which they find the cluster."""
        program = shutil.which("qsub")
        found = {
            "bin": str(Path(program).parent) if program else "",
            "root": os.environ.get("SGE_ROOT", ""),
            "cell": os.environ.get("SGE_CELL", ""),
        }
        names = inventory.names if inventory else {}
        # Every Grid Engine has h_vmem. One parallel environment leaves no choice, several do.
        found["mem_resource"] = "h_vmem" if "h_vmem" in names.get("resource", ()) else ""
        environments = names.get("parallel environment", ())
        found["parallelEnvironment"] = environments[0] if len(environments) == 1 else ""
        return {key: value for key, value in found.items() if value}

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the site's and the jobs' settings that are invalid."""
        return [
            *super().check(workflow, ctx),
            *check_jobs(workflow, ctx),
            *ignored_requests(workflow, IGNORED_SETTINGS, SgeDialect.title),
        ]
