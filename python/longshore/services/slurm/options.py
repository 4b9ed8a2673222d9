"""Which options of sbatch jobs get, from their requests and the keys of the map `slurm`, and what these ask for.

A heterogeneous job has a component for each index at the end of a key. Nice values come from jobs' start times, so that
runs share one order: the formula, and the two parameters of the cluster that it takes, are those of open-lmake's page
on back ends.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar

import msgspec

from longshore.contract.executor import Urgency
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.workflow import MIB, WHOLE_NODE_B, Allocation, Request
from longshore.services.batch.answers import parse_size as parse_amount
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.batch.script import JobSpec, to_list
from longshore.services.batch.settings import KIT_KEYS, PASSED_KEYS
from longshore.services.slurm.cluster import parse_time_limit

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


# Components of heterogeneous jobs: names of keys that end in a component's index.


_NAME: Final = re.compile(r"([A-Za-z_]+?)(\d*)")


def normalize_names(own: SlurmMap) -> dict[str, YamlValue]:
    """Normalize each name in a map to its first spelling.

    Raises `ConfigError` when two spellings of one name are used.
    """
    plain: dict[str, YamlValue] = {}
    for name, value in own.items():
        found = _NAME.fullmatch(name)
        first = SPELLINGS.get(found[1], found[1]) + found[2] if found else name
        if first in plain:
            raise ConfigError(f"'slurm' has both '{name}' and another spelling of it", hint=f"Keep '{first}'.")
        plain[first] = value
    return plain


def components(job: JobSpec, defaults: SbatchOptions | None = None) -> tuple[SbatchOptions, ...]:
    """Build the options of each component of a job; `defaults` are those of the site.

    Raises `ConfigError` when a name is unknown, or an index is missing.
    """
    parts = [component_options(part) for part in _split_components(job.own)]
    first = (defaults or SbatchOptions()).override(job_options(job)).override(parts[0])
    # Account and time limit apply to the whole job, not to one component.
    whole = SbatchOptions(account=first.account, time=first.time)
    omitted = omitted_options(job.own)
    return tuple(part.without(omitted) for part in (first, *(part.override(whole) for part in parts[1:])))


def component_count(settings: SlurmMap) -> int:
    """Count the components of jobs with these settings; an ordinary job has one.

    Raises `ConfigError` when a name is unknown, or an index is missing.
    """
    return len(_split_components(normalize_names(settings)))


def _split_components(settings: SlurmMap) -> list[dict[str, YamlValue]]:
    """Split indexed names by component."""
    by_index: dict[int, dict[str, YamlValue]] = {0: {}}
    for name, value in settings.items():
        if name in JOB_NAMES or name in SITE_NAMES or name in KIT_KEYS or name in PASSED_KEYS or not is_set(value):
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


def _unknown(name: str) -> ConfigError:
    known = [*COMPONENT_NAMES, *JOB_NAMES, *SITE_NAMES, *KIT_KEYS, *SPELLINGS]
    return ConfigError(
        f"'slurm' has no key '{name}'",
        hint=did_you_mean(name, known, likeness=NAME_LIKENESS)
        or f"{name_all(sorted(known))} Other options of sbatch go under 'directives'.",
    )


# What jobs ask for, by their options and by raw lines, which come later and win.


_Amount = TypeVar("_Amount", int, float)
_SHORT: Final = {
    "A": "account",
    "c": "cpus-per-task",
    "C": "constraint",
    "G": "gpus",
    "L": "licenses",
    "n": "ntasks",
    "N": "nodes",
    "p": "partition",
    "q": "qos",
    "t": "time",
    "w": "nodelist",
}
"""Long names of the options that have a say in an allocation (sbatch(1))."""
_NUMBER: Final = re.compile(r"\d{1,9}")
_FEATURE: Final = re.compile(r"(?<!!)\b[A-Za-z_][\w.-]*")
"""A word in an expression over features that is not negated (sbatch(1): --constraint)."""


def allocations(job: JobSpec) -> tuple[Allocation, ...]:
    """Return what each component of a job asks for, by the request, the own maps and raw lines."""
    first, *others = components(job)
    asked = allocation(first, job.batch.request, job.raw)
    if job.own.get("diskGres") and asked.disk_b is None:
        asked = msgspec.structs.replace(asked, disk_b=job.batch.request.disk_b)
    return (asked, *(allocation(part, job.batch.request) for part in others))


def allocation(options: SbatchOptions, request: Request, raw: Iterable[str] = ()) -> Allocation:
    """Return what a component of a job asks for; `raw` are lines of options.

    `request` has exact amounts where the options have them rounded up.
    """
    values = {name: value or "" for name, value in options.pairs()} | _raw_values(raw)
    nodes, per_node = _number(values.get("nodes")), _number(values.get("ntasks-per-node"))
    tasks = _number(values.get("ntasks")) or (nodes or 1) * (per_node or 1)
    if per_node and not nodes:
        nodes = -(-tasks // per_node)
    cpus = _number(values.get("cpus-per-task")) or 1
    memory = parse_size(values.get("mem"))
    if "mem-per-cpu" in values and (each := parse_size(values["mem-per-cpu"])):
        memory = each * cpus * -(-tasks // (nodes or 1))
    return Allocation(
        nodes=nodes,
        tasks=tasks,
        cpus_per_task=cpus,
        memory_b=WHOLE_NODE_B if memory == 0 else _exact(memory, request.memory_b, MIB),
        disk_b=_exact(parse_size(values.get("tmp")), request.disk_b, MIB),
        walltime_s=_exact(parse_time_limit(values.get("time")), request.walltime_s, 60),
        resources=_resources(values),
        features=tuple(
            frozenset(words)
            for part in re.split("[&,]", values.get("constraint", ""))
            if (words := _FEATURE.findall(part))
        ),
        partitions=tuple(filter(None, values.get("partition", "").split(","))),
        account=values.get("account", ""),
        qos=tuple(filter(None, values.get("qos", "").split(","))),
        licences=_licences(values.get("licenses", "")),
        hosts=tuple(filter(None, (values.get("nodelist", ""),))),
    )


def _licences(text: str) -> dict[str, int]:
    """Return the number of each licence; none for a list of alternatives, of which one is enough."""
    found: dict[str, int] = {}
    for item in () if "|" in text else filter(None, text.split(",")):
        name, _, amount = item.strip().partition(":")
        found[name] = found.get(name, 0) + (_number(amount) or 1)
    return found


def _exact(rounded: _Amount | None, amount: _Amount | None, unit: int) -> _Amount | None:
    """Return the amount of a request, if an option is this amount rounded up to its unit; else that of the option."""
    is_same = rounded is not None and amount is not None and rounded - unit < amount <= rounded
    return amount if is_same else rounded


def parse_size(text: str | None) -> int | None:
    """Parse a size of sbatch, in MB without a unit, to bytes; ``None`` for no size."""
    if not text:
        return None
    plain = text.strip().upper().removesuffix("B")
    return parse_amount(plain + "M" if plain.isdecimal() else plain)


def _raw_values(lines: Iterable[str]) -> dict[str, str]:
    """Return the values of long options in raw lines; the last of two counts."""
    values: dict[str, str] = {}
    for line in lines:
        try:
            words = iter(shlex.split(line, comments=True))
        except ValueError:
            # sbatch tells what is wrong with it.
            continue
        for word in words:
            if word.startswith("--"):
                name, equals, value = word[2:].partition("=")
            elif word.startswith("-") and word[1:2] in _SHORT:
                name, value = _SHORT[word[1]], word[2:].removeprefix("=")
                equals = value
            else:
                continue
            if not equals and name in _WITH_VALUE:
                value = next(words, "")
            if name in _WITH_VALUE:
                values[name] = value
    return values


_WITH_VALUE: Final = {*_SHORT.values(), "ntasks-per-node", "mem", "mem-per-cpu", "tmp", "gres", "gpus-per-node"}


def _number(text: str | None) -> int | None:
    """Return the first number in a text, the least of ``2-4``; ``None`` for none, and for 0."""
    found = _NUMBER.match((text or "").strip())
    return int(found[0]) or None if found else None


def _resources(values: Mapping[str, str]) -> dict[str, int]:
    """Return generic resources per node: of ``gpu:a100:2`` two gpus."""
    found: dict[str, int] = {}
    for item in filter(None, values.get("gres", "").split(",")):
        name, *rest = item.strip().removeprefix("gres:").removeprefix("gres/").split(":")
        count = _number(rest[-1]) if rest else None
        name = "gpus" if name == "gpu" else name
        found[name] = found.get(name, 0) + (count or 1)
    for option, parts in (("gpus", _number(values.get("nodes")) or 1), ("gpus-per-node", 1)):
        if text := values.get(option, ""):
            found["gpus"] = max(found.get("gpus", 0), -(-(_number(text.rpartition(":")[2]) or 1) // parts))
    return found


# Nice values from jobs' start times.


ORIGIN: Final = "2023-01-01 00:00:00"
"""Default local time from which values are counted."""
MOST: Final = (1 << 31) - 2
"""Largest value that ``sbatch --nice`` takes without loss (sbatch(1): +/- 2147483645, less the sign of two)."""

_MOMENT: Final = re.compile(r"(\d{4})-(\d\d?)-(\d\d?) (\d\d?):(\d\d)(?::(\d\d))?(?: *([+-])(\d\d?):?(\d\d))?")


class NiceScale(msgspec.Struct, frozen=True, kw_only=True):
    """Conversion of times to nice values.

    `origin` is the time of the value 0, in seconds since the epoch; `factor` the increase per second.
    """

    origin: float
    factor: float = 1.0

    def nice(self, eta: float, pressure_s: float) -> int:
        """Return the nice value of a job: larger pressure gives a smaller value and an earlier start.

        `eta` is the expected end of the run, in seconds since the epoch. `pressure_s` is the work on the longest path
        from the job to the run's end, its own included, in seconds.
        """
        value = (eta - pressure_s - self.origin) * self.factor
        # A time before the origin, from a wrong estimate of the run's end, counts as most urgent.
        return int(min(max(math.floor(value), 0), MOST)) if math.isfinite(value) else MOST


def nice_value(own: Mapping[str, YamlValue], urgency: Urgency | None, facts: ClusterFacts | None) -> int | None:
    """Return the nice value for an urgency; ``None`` where one is given to all jobs, or without ``use_nice``."""
    if urgency is None or "nice" in own or not own.get("use_nice"):
        return None
    return scale(own, facts.priority_parameters if facts else "").nice(urgency.end_at, urgency.pressure_s)


def with_nice(job: JobSpec) -> JobSpec:
    """Return a job with the nice value of its urgency, if it has one."""
    value = nice_value(job.own, job.batch.urgency, job.facts)
    return job if value is None else msgspec.structs.replace(job, own={**job.own, "nice": value})


def scale(site: Mapping[str, object], priority_parameters: str = "") -> NiceScale:
    """Make a site's scale from its own map, else the cluster's ``PriorityParameters``, else the defaults.

    Raises `ValueError` when a time or a factor is malformed.
    """
    of_cluster = dict(_pairs(priority_parameters))
    origin = site.get("time_origin", of_cluster.get("time_origin", ORIGIN))
    factor = site.get("nice_factor", of_cluster.get("nice_factor", 1.0))
    try:
        number = float(str(factor))
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"'nice_factor' must be a number above 0, not '{factor}'")
    return NiceScale(origin=_moment(str(origin)), factor=number)


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = (word.partition("=") for word in text.split(","))
    return [(name.strip().lower(), value.strip()) for name, equals, value in pairs if equals]


def _moment(text: str) -> float:
    found = _MOMENT.fullmatch(text.strip())
    if not found:
        raise ValueError(f"'time_origin' must be like '{ORIGIN} +01:00', not '{text}'")
    year, month, day, hour, minute, second, sign, ahead, minutes = found.groups()
    try:
        local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0))  # noqa: DTZ001
        if sign is None:
            return local.timestamp()
        offset = (int(ahead) * 60 + int(minutes)) * 60
        return local.replace(tzinfo=UTC).timestamp() - (offset if sign == "+" else -offset)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"'time_origin' is no moment: '{text}': {error}") from error
