"""Grid Engine as a service: the batch kit with its dialect, and checks of what only Grid Engine needs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from longshore.contract.capabilities import BackendOptions, LoadReporter, SiteAccess
from longshore.contract.service import Context, Inventory, Problem, ServiceTraits
from longshore.errors import ConfigError, OptionHelpRequest
from longshore.model.wording import count_noun
from longshore.model.workflow import Job
from longshore.services.batch.dialect import ProgramCall, Question
from longshore.services.batch.pilots.setup import pilot_settings
from longshore.services.batch.service import BatchService
from longshore.services.batch.settings import own_map
from longshore.services.sge.answers import lines_at
from longshore.services.sge.cluster import listed_names, parse_load
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.options import SERVICE, SgeMap
from longshore.sites.requests import Unmet, ignored_requests, unknown_name

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

IGNORED_SETTINGS: Final = ("accountingUser", "abortReturnValue")
"""Settings of a job without an equivalent in Grid Engine."""
_NODES: Final = f"{SERVICE}.nodesEnvironment"
_ONE_CLUSTER: Final = ("bin", "root", "cell", "cluster")
_NAMES: Final = {"requestCpus": "parallelEnvironment", "requestMemory": "mem_resource", "requestDisk": "tmp_resource"}


def check_jobs(workflow: Workflow, ctx: Context) -> Iterator[Problem]:
    """Find jobs for another cluster, and note amounts that Grid Engine is not told of."""
    site_map = own_map(SERVICE, ctx.site.settings)
    for job in workflow.samples:
        own = job.settings.service_settings
        for name in _ONE_CLUSTER:
            if (value := own.get(name, site_map.get(name))) != site_map.get(name):
                yield Problem(
                    message=f"job '{job.name}': '{SERVICE}.{name}' is '{value}', and that of the run's site "
                    f"'{site_map.get(name)}': a run has one cluster",
                    job=job.name,
                    key=SERVICE,
                )
        yield from _unsaid_amounts(job, {**site_map, **own})


def _unsaid_amounts(job: Job, own: SgeMap) -> Iterator[Problem]:
    """Note amounts for which the site has no name."""
    request = job.settings.request
    unsaid = {
        "requestCpus": request.cpus > 1 and not (own.get("cpu_resource") or own.get("parallelEnvironment")),
        "requestMemory": bool(request.memory_b) and not own.get("mem_resource"),
        "requestDisk": bool(request.disk_b) and not own.get("tmp_resource"),
    }
    for key, is_unsaid in unsaid.items():
        if is_unsaid:
            yield Problem(
                message=f"job '{job.name}': Grid Engine is not told of '{key}'",
                hint=f"Name the cluster's resource for it in the site's profile: 'sge: {{{_NAMES[key]}: NAME}}'.",
                job=job.name,
                key=key,
                fatal=False,
            )


def pilot_questions(
    settings: Mapping[str, Any], ask: Callable[..., ProgramCall]
) -> Iterator[Question[tuple[Unmet, ...]]]:
    """Return the questions whether the parallel environment of a site's pilots can start them; `ask` makes calls."""
    name, pilot = str(own_map(SERVICE, settings).get("nodesEnvironment") or ""), pilot_settings(settings)
    # A pattern stands for several, and Grid Engine chooses.
    if pilot.nodes < 2 or re.search(r"[*?\[]", name):
        return
    yield Question(ask("qconf", "-spl"), lambda text: _find_missing(name, listed_names(text)))
    if not name:
        return
    yield Question(ask("qconf", "-sp", name), lambda text: tuple(find_unfit(text, pilot.cpus)))


def _find_missing(name: str, known: tuple[str, ...]) -> tuple[Unmet, ...]:
    if not name:
        hint = f"Name one of {', '.join(known)}: 'qconf -sp NAME' shows its allocation_rule." if known else ""
        return (Unmet(f"pilots on several hosts need a parallel environment: '{_NODES}' is missing", hint),)
    return () if name in known else (unknown_name("parallel environment", name, known),)


def find_unfit(text: str, cpus: int) -> Iterator[Unmet]:
    """Find why a parallel environment, as ``qconf -sp`` prints it, cannot start pilots with so many processors."""
    fields = {name: value.strip() for name, _, value in lines_at(text, " ")}
    name = fields.get("pe_name", "")
    subject = f"the parallel environment '{name}' cannot start pilots on several hosts"
    if (control := fields.get("control_slaves", "not set")).upper() != "TRUE":
        yield Unmet(
            f"{subject}: its control_slaves is {control}",
            f"Name one with 'control_slaves TRUE' under '{_NODES}'. Else raise 'pilot.count' instead of 'pilot.nodes'.",
        )
    if (rule := fields.get("allocation_rule", "")) != str(cpus):
        hint = f", or give pilots as many processors: pilot: {{cpus: {rule}}}" if rule.isdecimal() else ""
        yield Unmet(
            f"{subject} with {count_noun(cpus, 'processor')} each: its allocation_rule is '{rule}'",
            f"Name one with the rule {cpus} under '{_NODES}'{hint}. Else raise 'pilot.count' instead of 'pilot.nodes'.",
        )


BACKEND_HELP = """\
--backend-options for Grid Engine is the priority of the jobs, as behind qsub's -p: a whole number from -1023 to 0."""


class SgeService(BatchService, BackendOptions, LoadReporter, SiteAccess):
    """Grid Engine as a workload manager."""

    name: ClassVar[str] = SERVICE
    dialect: ClassVar[type[SgeDialect]] = SgeDialect
    traits: ClassVar[ServiceTraits] = ServiceTraits(
        raw_option_keys=("directives",),
        required_variables=SgeDialect.variables.required,
    )

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
