"""``sbatch`` options of a job, from its request and its settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from longshore.batch.scripts.job_spec import JobSpec
from longshore.batch.scripts.lines import to_list
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.workflow.request import MIB

COMPONENT_NAMES: Final = (
    *("cpu", "excludes", "features", "gres", "mem", "nodeCount", "nodes", "partition", "qos", "reserv", "tasks"),
    *("tasksPerNode", "tmp", "wckey"),
)
"""Names that may end in the index of a component of a heterogeneous job; no index means component 0."""
JOB_NAMES: Final = (
    *("BB", "DW", "exclusive", "launcher", "licence", "mailType", "mailUser", "nice", "omit", "priority", "requeue"),
    "sbatch",
)
"""Names that apply to the whole job, not to a component."""
SITE_NAMES: Final = ("clusters", "config", "diskGres", "lib_slurm", "nice_factor", "time_origin", "use_nice")
"""Names that configure access to the cluster, not jobs, beside those of the kit."""
ESSENTIAL_OPTIONS: Final = frozenset({"array", "job-name", "output"})
"""Options without which a job could not be found again, or would be another."""
SPELLINGS: Final = {
    "licences": "licence",
    "license": "licence",
    "licenses": "licence",
    "reservation": "reserv",
    "constraint": "features",
    "exclude": "excludes",
    "nodelist": "nodes",
}
_MAIL: Final = {"always": "ALL", "complete": "END", "error": "FAIL", "never": "NONE"}
"""HTCondor's (and BPS's) values for when to send mail, in Slurm's terms."""

SlurmMap: TypeAlias = Mapping[str, YamlValue]
"""The service's own map, ``slurm:``, of a site or of jobs."""


class SbatchOptions(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The ``sbatch`` options of one component of a job, in the order of the script; ``None`` for no option.

    An ordinary job has one component.
    """

    partition: str | None = None
    qos: str | None = None
    account: str | None = None
    reservation: str | None = None
    wckey: str | None = None
    nodes: str | None = None
    ntasks: str | None = None
    ntasks_per_node: str | None = None
    cpus_per_task: str | None = None
    mem: str | None = None
    tmp: str | None = None
    time: str | None = None
    gres: str | None = None
    licenses: str | None = None
    constraint: str | None = None
    nodelist: str | None = None
    exclude: str | None = None
    exclusive: bool | None = None
    priority: str | None = None
    nice: str | None = None
    mail_user: str | None = None
    mail_type: str | None = None

    def pairs(self) -> tuple[tuple[str, str | None], ...]:
        """Return the options without dashes and their values; ``None`` for an option without a value."""
        values = zip(self.__struct_encode_fields__, msgspec.structs.astuple(self), strict=True)
        return tuple((name, None if value is True else value) for name, value in values if value is not None)

    def override(self, other: SbatchOptions) -> SbatchOptions:
        """Return these options with those that `other` has in their place."""
        return msgspec.structs.replace(
            self, **{name: value for name, value in msgspec.structs.asdict(other).items() if value is not None}
        )

    def without(self, names: Iterable[str]) -> SbatchOptions:
        """Return these options without some, which are named as in the script."""
        fields = dict(zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True))
        return msgspec.structs.replace(self, **{fields[name]: None for name in names if name in fields})


def omitted_options(settings: SlurmMap) -> frozenset[str]:
    """Return the options, without dashes, that the user wants left out of the script.

    Raises `ConfigError` when one of them is essential.
    """
    names = frozenset(str(name).strip().lstrip("-") for name in to_list(settings.get("omit")))
    if missing := sorted(names & ESSENTIAL_OPTIONS):
        raise ConfigError(
            f"'slurm.omit' cannot leave out '{missing[0]}': the job is found again by it",
            hint="A line under 'directives' comes later in the script and wins.",
        )
    return names


def is_set(value: YamlValue) -> bool:
    """Whether a value says anything; null and empty text do not."""
    return value not in (None, "", [])


def job_options(job: JobSpec) -> SbatchOptions:
    """Build the options of the whole job: those that every service supports, and those without an index.

    A requested resource is a licence where the cluster has one of that name, and else a gres.
    """
    request, attributes, settings = job.batch.request, job.batch.attributes, job.own
    licences = job.facts.licences if job.facts else ()
    resources = sorted(request.resources.items())
    # Slurm's name of a processor of graphics is singular.
    gres = [f"{'gpu' if name == 'gpus' else name}:{amount}" for name, amount in resources if name not in licences]
    disk = f"{math.ceil(request.disk_b / MIB)}M" if request.disk_b else None
    if disk and (reserve := settings.get("diskGres")):
        gres.append(f"{reserve}:{disk}")
        disk = None
    owned = [f"{name}:{amount}" for name, amount in resources if name in licences]
    owned += to_list(settings.get("licence"))
    when = str(attributes.get("whenToMail") or "error")
    mails = bool(attributes.get("mailTo"))
    return SbatchOptions(
        partition=str(attributes["queue"]) if attributes.get("queue") else None,
        account=str(attributes["accountingGroup"]) if attributes.get("accountingGroup") else None,
        cpus_per_task=str(request.cpus),
        mem=f"{math.ceil(request.memory_b / MIB)}M" if request.memory_b else None,
        tmp=disk,
        time=None if request.walltime_s is None else str(max(1, math.ceil(request.walltime_s / 60))),
        gres=",".join(gres) or None,
        licenses=",".join(owned) or None,
        exclusive=True if settings.get("exclusive") else None,
        priority=_text(settings.get("priority")),
        nice=_text(settings.get("nice")),
        mail_user=_text(settings.get("mailUser")) or (str(attributes["mailTo"]) if mails else None),
        mail_type=_text(settings.get("mailType")) or (_MAIL.get(when.lower(), when) if mails else None),
    )


def site_options(job: JobSpec) -> SbatchOptions:
    """Build the options that the site gives; what jobs removed stays away."""
    site = job.defaults
    given = SbatchOptions(
        partition=site.queue or None,
        account=site.account or None,
        qos=site.qos or None,
        exclusive=site.exclusive or None,
    )
    return given.without(name for name, value in job.own.items() if value is None)


def component_options(part: SlurmMap) -> SbatchOptions:
    """Build the options of one component from Slurm's own settings, which override the common ones."""
    return SbatchOptions(
        partition=_text(part.get("partition")),
        qos=_text(part.get("qos")),
        reservation=_text(part.get("reserv")),
        wckey=_text(part.get("wckey")),
        nodes=_text(part.get("nodeCount")),
        ntasks=_text(part.get("tasks")),
        ntasks_per_node=_text(part.get("tasksPerNode")),
        cpus_per_task=_text(part.get("cpu")),
        mem=_text(part.get("mem")),
        tmp=_text(part.get("tmp")),
        gres=_text(part.get("gres")),
        constraint=_text(part.get("features"), "&"),
        nodelist=_text(part.get("nodes")),
        exclude=_text(part.get("excludes")),
    )


def _text(value: YamlValue, separator: str = ",") -> str | None:
    return separator.join(to_list(value)) if is_set(value) else None
