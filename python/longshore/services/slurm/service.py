"""Slurm as a service: the batch kit with Slurm's dialect, and options and launchers in the words of srun."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from longshore.contract.capabilities import BackendOptions, LauncherLine, LoadReporter
from longshore.contract.service import Context, Problem, ServiceTraits
from longshore.errors import ConfigError
from longshore.services.batch.backend_options import BackendOption, describe_options, parse_options
from longshore.services.batch.service import BatchService
from longshore.services.batch.settings import own_map
from longshore.services.slurm.cluster import parse_load
from longshore.services.slurm.dialect import SlurmDialect
from longshore.services.slurm.keys import TABLE
from longshore.services.slurm.options import component_count
from longshore.sites.requests import ignored_priorities

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

# The options are those of open-lmake's page "Slurm backend".


_OPTIONS: Final = (
    BackendOption("-c", "--cpus-per-task", "cpu", "N", "processors"),
    BackendOption("", "--mem", "mem", "AMOUNT", "memory"),
    BackendOption("", "--mem-per-cpu", "memPerCpu", "AMOUNT", "memory for each processor"),
    BackendOption("", "--mem-per-gpu", "memPerGpu", "AMOUNT", "memory for each gpu"),
    BackendOption("", "--tmp", "tmp", "AMOUNT", "temporary disk space"),
    BackendOption("-C", "--constraint", "features", "LIST", "features of nodes"),
    BackendOption("-x", "--exclude", "excludes", "LIST", "nodes to exclude"),
    BackendOption("", "--gres", "gres", "LIST", "generic resources"),
    BackendOption("-L", "--licenses", "licence", "LIST", "licences"),
    BackendOption("-w", "--nodelist", "nodes", "LIST", "nodes to use"),
    BackendOption("-p", "--partition", "partition", "NAME", "partition"),
    BackendOption("-q", "--qos", "qos", "NAME", "quality of service"),
    BackendOption("", "--reservation", "reserv", "NAME", "reservation"),
)
BACKEND_HELP: Final = describe_options(
    "Options of --backend-options for Slurm, as in srun; a lone ':' separates the components of a job:", _OPTIONS
)
_REQUESTED: Final = {"cpu": "requestCpus", "mem": "requestMemory", "tmp": "requestDisk"}
"""Keys of a request per option: such a request grows when a job is retried."""


def backend_options(text: str) -> dict[str, str]:
    """Parse a string of options into the service's own map.

    Raises `ConfigError` for an unknown option or a missing value, and `OptionHelpRequest` where help is requested.
    """
    parsed = [{key: values[-1] for key, values in each.items()} for each in parse_options(text, _OPTIONS, BACKEND_HELP)]
    first, *others = parsed
    if any("licence" in each for each in others):
        raise ConfigError("licences belong to the whole job: give them before the first ':'")
    numbered = {f"{name}{number}": value for number, each in enumerate(others, 1) for name, value in each.items()}
    return {**first, **numbered}


_SRUN: Final = 'srun --export=ALL --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}"'
"""Since 22.05 srun does not take the processors of a task from the job; and it would take ``--export`` from there."""
_MPIRUN: Final = '-n "${SLURM_NTASKS:-1}"'
_KNOWN: Final = {
    "srun": _SRUN,
    "mpirun": f"mpirun {_MPIRUN}",
    "mpiexec": f"mpiexec {_MPIRUN}",
}


def launcher_line(launcher: object, components: int = 1) -> str:
    """Return the line of shell in front of a command; empty for none.

    ``srun``, ``mpirun`` and ``mpiexec`` start as many tasks as the job has; any other text is such a line itself. A
    heterogeneous job is started in all of its components. Raises `ConfigError` when the launcher is no text.
    """
    if launcher is None or launcher == "":
        return ""
    if not isinstance(launcher, str) or "\n" in launcher.strip():
        raise ConfigError(
            f"'slurm.launcher' must be one line of text, not {launcher!r}",
            hint=f"For example {', '.join(_KNOWN)}, or 'srun --mpi=pmix'.",
        )
    if launcher.strip() == "srun" and components > 1:
        # Their tasks may have different numbers of processors, which one option cannot express.
        return f"srun --export=ALL --het-group={','.join(map(str, range(components)))}"
    return _KNOWN.get(launcher.strip(), launcher.strip())


def check_library(ctx: Context) -> Iterator[Problem]:
    """Note a library that has no use."""
    if own_map("slurm", ctx.site.settings).get("lib_slurm"):
        yield Problem(
            message="'lib_slurm' is not used: Longshore runs Slurm's programs", origin=ctx.site.origin, fatal=False
        )


def check_clusters(workflow: Workflow, ctx: Context) -> Iterator[Problem]:
    """Find jobs for another cluster, which cannot be submitted with the others."""
    site_map = own_map("slurm", ctx.site.settings)
    for job in workflow.samples:
        own = job.settings.service_settings
        for name in ("clusters", "config"):
            if (value := own.get(name, site_map.get(name))) != site_map.get(name):
                yield Problem(
                    message=f"job '{job.name}': 'slurm.{name}' is '{value}', and that of the run's site "
                    f"'{site_map.get(name)}': a run has one cluster",
                    job=job.name,
                    key="slurm",
                )


class SlurmService(BatchService, LauncherLine, BackendOptions, LoadReporter):
    """Slurm as a workload manager."""

    name: ClassVar[str] = "slurm"
    dialect: ClassVar[type[SlurmDialect]] = SlurmDialect
    traits: ClassVar[ServiceTraits] = ServiceTraits(
        raw_option_keys=("directives", *TABLE.raw_keys),
        environment_keys={
            "SBATCH_ACCOUNT": "accountingGroup",
            "SBATCH_CONSTRAINT": "slurm.features",
            "SBATCH_PARTITION": "queue",
            "SBATCH_QOS": "slurm.qos",
            "SBATCH_RESERVATION": "slurm.reserv",
            "SBATCH_WCKEY": "slurm.wckey",
        },
        option_variables="SBATCH_",
        enclosing_variable="SLURM_JOB_ID",
        required_variables=SlurmDialect.variables.required,
    )

    def backend_options(self, text: str) -> Mapping[str, Any]:
        """Return the keys that a string of options, as srun has them, stands for; those of Slurm in its own map."""
        settings = backend_options(text)
        values: dict[str, Any] = {key: settings.pop(name) for name, key in _REQUESTED.items() if name in settings}
        return values | {self.name: settings} if settings else values

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
            *ignored_priorities(workflow, "Slurm"),
        ]
