"""Grid Engine as a service: the batch kit with its dialect, and checks of what only Grid Engine needs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from longshore.contract.capabilities import BackendOptions, LoadReporter, SiteAccess
from longshore.contract.service import Context, Inventory, PingReport, Problem, ServiceTraits
from longshore.errors import ConfigError, OptionHelpRequest, UnreachableError
from longshore.model.wording import count_noun
from longshore.model.workflow import Job
from longshore.services.batch.answers import SubmitOutcome
from longshore.services.batch.dialect import ProgramCall, Question
from longshore.services.batch.pilots.setup import pilot_settings
from longshore.services.batch.service import BatchService
from longshore.services.batch.settings import own_map
from longshore.services.sge.answers import lines_at
from longshore.services.sge.cluster import PER_JOB, PER_SLOT, blocks, listed_names, parse_load
from longshore.services.sge.dialect import SgeDialect
from longshore.services.sge.options import SERVICE, SgeMap, memory_per, plain_names
from longshore.sites.requests import Unmet, ignored_priorities, unknown_name

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow


def find_missing_access(own: SgeMap, environment: Mapping[str, str]) -> Problem | None:
    """Return what a site's map and the environment lack for the programs to be found and to find the cluster."""
    program = shutil.which("qsub", path=str(own.get("bin") or environment.get("PATH", "")))
    # Whether a folder that the site names is there, only a host can know from which runs are submitted: ping tells.
    if program is None and not own.get("bin"):
        return Problem(
            message=f"'{SERVICE}.bin' is missing, and no folder of PATH has 'qsub'",
            hint="Add 'sge: {bin: FOLDER}' to the site, or the folder of qsub to PATH.",
            key=SERVICE,
        )
    if own.get("root") or environment.get("SGE_ROOT") or (program and _is_script(program)):
        return None
    return Problem(
        message=f"'{SERVICE}.root' is missing, and so is the variable SGE_ROOT",
        hint="Add 'sge: {root: FOLDER}' to the site, or set SGE_ROOT.",
        key=SERVICE,
    )


def _is_script(program: str) -> bool:
    """Whether a program is a script around the real one, which knows the cluster, as those of Debian."""
    try:
        with Path(program).open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False


def fitting_environments(rules: Iterable[str], queues: str) -> list[str]:
    """Return the parallel environments that give a job its slots on one host, those of the most queues first.

    `rules` are those that ``qconf -sp`` shows, and `queues` is what ``qconf -sq '*'`` shows.
    """
    lists = [set(re.findall(r"[^\s,=\[\]]+", fields.get("pe_list", ""))) for fields in blocks(queues, "qname")]
    found = [fields for text in rules for fields in blocks(text, "pe_name")]
    names = [fields["pe_name"] for fields in found if fields.get("allocation_rule") == "$pe_slots"]
    counts = {name: sum(name in each for each in lists) for name in sorted(names)}
    return sorted((name for name, count in counts.items() if count), key=lambda name: -counts[name])


def memory_keys(complexes: str) -> Iterator[dict[str, str]]:
    """Return keys for memory by ``qconf -sc``: resources that jobs must ask for, those that are counted, and h_vmem.

    Every Grid Engine has h_vmem, which limits a job where nothing counts it.
    """
    rows = [row for row in map(str.split, complexes.splitlines()) if len(row) == _COLUMNS]
    # A resource for scratch space is an amount of bytes, too.
    usable = [row for row in rows if row[2:4] == ["MEMORY", "<="] and row[4] != "NO" and _OF_MEMORY.search(row[0])]
    # Where several would do, h_vmem also keeps a job within its amount.
    for row in sorted(usable, key=lambda row: (row[4] != "FORCED", row[5] == "NO", row[0] != "h_vmem")):
        if row[0] == "h_vmem" or row[4:6] != ["YES", "NO"]:
            yield {"mem_resource": row[0]} | ({"memoryPer": "job"} if row[5] == "JOB" else {})


_OF_MEMORY: Final = re.compile(r"mem|virtual|ram|rss", re.IGNORECASE)
_COLUMNS: Final = 8
"""Columns of ``qconf -sc``: name, short name, type, relation, requestable, consumable, default and urgency."""
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


def find_wrong_share(own: SgeMap, inventory: Inventory) -> Iterator[Problem]:
    """Note that jobs of several slots get another amount of memory than they ask for, by how the cluster counts it."""
    name, said = str(own.get("mem_resource") or ""), memory_per(own)
    kinds = {"slot": (PER_JOB, "job", "a share of"), "job": (PER_SLOT, "slot", "more than")}
    kind, right, what = kinds[said]
    if name in inventory.names.get(kind, ()):
        yield Problem(
            message=f"the cluster counts '{name}' per {right}, and '{SERVICE}.memoryPer' is '{said}': jobs of several "
            f"slots get {what} their memory",
            hint=f"Write 'sge: {{memoryPer: {right}}}' in the site's profile.",
            key=SERVICE,
            fatal=False,
        )


def pilot_questions(
    settings: Mapping[str, Any], ask: Callable[..., ProgramCall]
) -> Iterator[Question[tuple[Unmet, ...]]]:
    """Return the questions whether the parallel environment of a site's pilots can start them; `ask` makes calls."""
    name, pilot = str(own_map(SERVICE, settings).get("nodesEnvironment") or ""), pilot_settings(settings)
    if pilot.nodes < 2 or (name and not plain_names(name)):
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
        if inventory is not None:
            found |= self._size_keys({key: value for key, value in found.items() if value}, inventory)
        return {key: value for key, value in found.items() if value}

    def _size_keys(self, access: SgeMap, inventory: Inventory) -> dict[str, str]:
        """Return the keys by which jobs ask for memory and for several slots."""
        client, dialect = self.client({self.name: access}), self.dialect(access)

        def ask(*words: str) -> str:
            answer = client.ask(dialect.query_call("qconf", *words))
            return answer.out if answer.ok else ""

        def is_taken(*options: str) -> bool:
            call = dialect.trial_call(":\n", *options)
            return call is None or dialect.submit_reply(client.ask(call)).outcome is not SubmitOutcome.REFUSED

        # A resource may be counted on no host, and an environment may not be for this user: qsub knows.
        memory = next((keys for keys in memory_keys(ask("-sc")) if is_taken("-l", f"{keys['mem_resource']}=1M")), {})
        asked = ("-l", f"{memory['mem_resource']}=1M") if memory else ()
        rules = [ask("-sp", name) for name in inventory.names.get("parallel environment", ())]
        names = fitting_environments(rules, ask("-sq", "*"))
        environment = next((name for name in names if is_taken(*asked, "-pe", name, "1")), "")
        return {**memory, "parallelEnvironment": environment}

    def probe_jobs(self, jobs: Iterable[Job], ctx: Context) -> list[Problem]:
        """Return what the cluster does not have for these jobs, and how it counts their memory otherwise."""
        chosen, inventory = list(jobs), ctx.probe.inventory if ctx.probe else None
        own = own_map(self.name, ctx.settings.get("executor", {}))
        found = find_wrong_share(own, inventory) if inventory and chosen else ()
        notes = (msgspec.structs.replace(each, job=chosen[0].name) for each in found)
        return [*super().probe_jobs(chosen, ctx), *notes]

    def ping(self, ctx: Context) -> PingReport:
        """Return what the cluster reports; where it is not found, also the two ways to say where it is."""
        report = super().ping(ctx)
        if report.inventory is not None:
            return report
        own = own_map(self.name, ctx.settings.get("executor", {}))
        if own.get("bin") and shutil.which("qsub", path=str(own["bin"])) is None:
            words = f"'{SERVICE}.bin' is '{own['bin']}': correct it, or leave it out where PATH has the folder of qsub"
            return msgspec.structs.replace(report, message=f"{report.message}; {words}")
        if (missing := find_missing_access(own, os.environ)) is None:
            return report
        hint = missing.hint[0].lower() + missing.hint[1:].rstrip(".")
        return msgspec.structs.replace(report, message=f"{missing.message}: {hint}")

    def check(self, workflow: Workflow, ctx: Context) -> list[Problem]:
        """Return the site's and the jobs' settings that are invalid."""
        problems = super().check(workflow, ctx)
        # Lines of the site's set-up may load what is missing here.
        if not ctx.settings.get("executor", {}).get("setup"):
            missing = find_missing_access(own_map(self.name, ctx.site.settings), os.environ)
            where = {"origin": ctx.site.origin, "code": UnreachableError.code}
            problems += [msgspec.structs.replace(missing, **where)] if missing else []
        return [
            *problems,
            *check_jobs(workflow, ctx),
            *ignored_priorities(workflow, SgeDialect.title),
        ]
