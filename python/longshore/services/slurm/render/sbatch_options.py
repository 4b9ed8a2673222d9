"""``sbatch`` options of a job, from its request and its settings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, cast

import msgspec

from longshore.contract.batch import Batch
from longshore.errors import ConfigError
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean
from longshore.model.values import YamlValue
from longshore.model.workflow.request import MIB

COMPONENT_NAMES: Final = (
    "cpu",
    "excludes",
    "features",
    "gres",
    "mem",
    "nodeCount",
    "nodes",
    "partition",
    "qos",
    "reserv",
    "tasks",
    "tasksPerNode",
    "tmp",
    "wckey",
)
"""Names that may end in the index of a component of a heterogeneous job; no index means component 0."""
JOB_NAMES: Final = (
    "BB",
    "DW",
    "exclusive",
    "launcher",
    "licence",
    "mailType",
    "mailUser",
    "nice",
    "omit",
    "priority",
    "requeue",
    "sbatch",
)
"""Names that apply to the whole job, not to a component."""
PASSED_KEYS: Final = ("container", "directives")
"""Configuration keys beside the service's own map that are passed on with it."""
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
SITE_NAMES: Final = (
    "clusters",
    "config",
    "diskGres",
    "engineAs",
    "engineJob",
    "fence",
    "gather",
    "lib_slurm",
    "n_max_queued_jobs",
    "nice_factor",
    "pollCeiling",
    "pollInterval",
    "maxpendtime",
    "hopelessAfter",
    "mode",
    "onSubmitError",
    "repo_key",
    "time_origin",
    "use_nice",
)
"""Names that configure access to the cluster, not jobs."""

_NAME: Final = re.compile(r"([A-Za-z_]+?)(\d*)")
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


def slurm_map(settings: Mapping[str, object]) -> SlurmMap:
    """Return the service's own map in the settings of a site or of an executor."""
    return cast("SlurmMap", settings.get("slurm") or {})


def normalize_names(settings: SlurmMap) -> dict[str, YamlValue]:
    """Normalize each name in a map to its first spelling.

    Raises `ConfigError` when two spellings of one name are used.
    """
    plain: dict[str, YamlValue] = {}
    for name, value in settings.items():
        found = _NAME.fullmatch(name)
        first = SPELLINGS.get(found[1], found[1]) + found[2] if found else name
        if first in plain:
            raise ConfigError(f"'slurm' has both '{name}' and another spelling of it", hint=f"Keep '{first}'.")
        plain[first] = value
    return plain


def components(
    batch: Batch,
    settings: SlurmMap,
    *,
    licences: Iterable[str] = (),
    defaults: SbatchOptions | None = None,
) -> tuple[SbatchOptions, ...]:
    """Build the options of each component of a batch's jobs.

    `settings` is the service's own map, merged from site, run and label. Requested resources named in `licences` become
    licences; all others become a gres. `defaults` has the default account, qos and partition.

    Raises `ConfigError` when a name is unknown, or an index is missing.
    """
    plain = normalize_names(settings)
    parts = [_component_options(part) for part in _split_components(plain)]
    first = (defaults or SbatchOptions()).override(_job_options(batch, plain, frozenset(licences))).override(parts[0])
    # Account and time limit apply to the whole job, not to one component.
    whole = SbatchOptions(account=first.account, time=first.time)
    omitted = omitted_options(plain)
    return tuple(part.without(omitted) for part in (first, *(part.override(whole) for part in parts[1:])))


def omitted_options(settings: SlurmMap) -> frozenset[str]:
    """Return the options, without dashes, that the user wants left out of the script.

    Raises `ConfigError` when one of them is essential.
    """
    names = frozenset(str(name).strip().lstrip("-") for name in _to_list(settings.get("omit")))
    if missing := sorted(names & ESSENTIAL_OPTIONS):
        raise ConfigError(
            f"'slurm.omit' cannot leave out '{missing[0]}': the job is found again by it",
            hint="A line under 'directives' comes later in the script and wins.",
        )
    return names


def component_count(settings: SlurmMap) -> int:
    """Count the components of jobs with these settings; an ordinary job has one.

    Raises `ConfigError` when a name is unknown, or an index is missing.
    """
    return len(_split_components(normalize_names(settings)))


def check_names(settings: SlurmMap) -> None:
    """Raise `ConfigError` for an unknown name, two spellings of one name, or a missing index."""
    plain = normalize_names(settings)
    _split_components(plain)
    omitted_options(plain)


def _split_components(settings: SlurmMap) -> list[dict[str, YamlValue]]:
    """Split indexed names by component."""
    by_index: dict[int, dict[str, YamlValue]] = {0: {}}
    for name, value in settings.items():
        if name in JOB_NAMES or name in SITE_NAMES or name in PASSED_KEYS or not _is_set(value):
            continue
        found = _NAME.fullmatch(name)
        if not found or found[1] not in COMPONENT_NAMES:
            raise _unknown(name)
        index = int(found[2] or 0)
        part = by_index.setdefault(index, {})
        if found[1] in part:
            raise ConfigError(f"'slurm' has both '{found[1]}' and '{name}', which mean the same")
        part[found[1]] = value
    missing = sorted(set(range(max(by_index) + 1)) - by_index.keys())
    if missing:
        raise ConfigError(
            f"'slurm' asks for component {max(by_index)} of a heterogeneous job, but says nothing of {missing[0]}",
            hint=f"Number the components without gaps: add 'cpu{missing[0]}', say.",
        )
    return [by_index[index] for index in range(len(by_index))]


def _is_set(value: YamlValue) -> bool:
    """Whether a value says anything; null and empty text do not."""
    return value not in (None, "", [])


def _unknown(name: str) -> ConfigError:
    known = [*COMPONENT_NAMES, *JOB_NAMES, *SITE_NAMES, *SPELLINGS]
    return ConfigError(
        f"'slurm' has no key '{name}'",
        hint=did_you_mean(name, known, likeness=NAME_LIKENESS)
        or f"There are {', '.join(sorted(known))}; other options of sbatch go under 'directives'.",
    )


def _job_options(batch: Batch, settings: SlurmMap, licences: frozenset[str]) -> SbatchOptions:
    """Build the options of the whole job: those that every service supports, and those without an index."""
    request, attributes = batch.request, batch.attributes
    resources = sorted(request.resources.items())
    # Slurm's name of a processor of graphics is singular.
    gres = [f"{'gpu' if name == 'gpus' else name}:{amount}" for name, amount in resources if name not in licences]
    disk = f"{math.ceil(request.disk_b / MIB)}M" if request.disk_b else None
    if disk and (reserve := settings.get("diskGres")):
        gres.append(f"{reserve}:{disk}")
        disk = None
    owned = [f"{name}:{amount}" for name, amount in resources if name in licences]
    owned += _to_list(settings.get("licence"))
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


def _component_options(part: SlurmMap) -> SbatchOptions:
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
    return separator.join(_to_list(value)) if _is_set(value) else None


def _to_list(value: object) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list | tuple) else [str(value)]


def raw_options(*sources: object) -> tuple[str, ...]:
    """Collect raw options from several sources, as written: with or without ``#SBATCH`` in front."""
    lines = (line for source in sources for line in text_lines(source))
    return tuple(plain for line in lines if (plain := line.removeprefix("#SBATCH").strip()))


def text_lines(source: object) -> list[str]:
    """Return the lines of a text or of a list of texts."""
    return [line.strip() for text in _to_list(source) for line in text.splitlines()]
