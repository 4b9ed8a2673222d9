"""Which options of sbatch jobs get, from their requests and the keys of the map `slurm`, and what these ask for.

A heterogeneous job has a component for each index at the end of a key. Nice values come from jobs' start times, so that
runs share one order: the formula, and the two parameters of the cluster that it takes, are those of open-lmake's page
on back ends.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final, TypeAlias, TypeVar

import msgspec

from longshore.config.keys import JOB, SITE
from longshore.contract.capabilities import Contradiction
from longshore.contract.executor import Urgency
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.workflow import MIB, WHOLE_NODE_B, Allocation, Request
from longshore.services.batch.answers import parse_size as parse_amount
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.batch.script import JobSpec, raw_lines, to_list
from longshore.services.batch.settings import KIT_KEYS, PASSED_KEYS
from longshore.services.slurm.cluster import RESERVATION, parse_time_limit
from longshore.services.slurm.keys import TABLE
from longshore.sites.requests import expand_hosts

COMPONENT_NAMES: Final = tuple(row.steps[-1] for row in TABLE.below("slurm") if row.series)
"""Names that may end in the index of a component of a heterogeneous job; no index means component 0."""
JOB_NAMES: Final = tuple(name for name in TABLE.names(JOB) if name not in COMPONENT_NAMES)
"""Names that apply to the whole job, not to a component."""
SITE_NAMES: Final = tuple(name for name in TABLE.names(SITE) if name not in KIT_KEYS)
"""Names that configure access to the cluster, not jobs, beside those of the kit."""
EXCLUSIVE_OPTIONS: Final = (
    frozenset({"mem", "mem-per-cpu", "mem-per-gpu"}),
    frozenset({"cpus-per-task", "cpus-per-gpu"}),
    frozenset({"exclusive", "oversubscribe"}),
)
"""Long names of options of which a job can have only one: sbatch refuses two of them, or forgets the first."""
_GPU_OPTIONS: Final = frozenset({"gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task"})
"""Options that say the number of gpus, as an item of ``--gres`` does."""
ESSENTIAL_OPTIONS: Final = frozenset({"array", "job-name", "output"})
"""Options without which a job could not be found again, or would be another."""
SPELLINGS: Final = {other: row.steps[-1] for row in TABLE.below("slurm") for other in row.spellings}
"""Name per other spelling of it."""
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
    mem_per_cpu: str | None = None
    mem_per_gpu: str | None = None
    tmp: str | None = None
    time: str | None = None
    gres: str | None = None
    licenses: str | None = None
    constraint: str | None = None
    prefer: str | None = None
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
        """Return these options with those that `other` has in their place, and without what these exclude."""
        given = {name: value for name, value in other.pairs_by_field() if value is not None}
        return msgspec.structs.replace(self.yielding_to(name for name, _ in other.pairs()), **given)

    def pairs_by_field(self) -> Iterable[tuple[str, object]]:
        """Return the names of the fields, and their values."""
        return msgspec.structs.asdict(self).items()

    def yielding_to(self, names: Iterable[str]) -> SbatchOptions:
        """Return these options without those that sbatch does not take beside options of such names."""
        names = frozenset(names)
        kept = self.without(other for group in EXCLUSIVE_OPTIONS if names & group for other in group - names)
        if kept.gres and names & _GPU_OPTIONS:
            others = [item for item in kept.gres.split(",") if item.partition(":")[0] != "gpu"]
            kept = msgspec.structs.replace(kept, gres=",".join(others) or None)
        return kept

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
        mem_per_cpu=_text(part.get("memPerCpu")),
        mem_per_gpu=_text(part.get("memPerGpu")),
        gres=_text(part.get("gres")),
        constraint=_text(part.get("features"), "&"),
        prefer=_text(part.get("prefer"), "&"),
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

    Raw lines win: what they exclude is left out of the first component, to which they belong. Raises `ConfigError`
    when a name is unknown, or an index is missing.
    """
    parts = [component_options(part) for part in _split_components(job.own)]
    first = (defaults or SbatchOptions()).override(job_options(job)).override(parts[0])
    first = first.yielding_to(raw_values(_of_components(job.raw)[0]))
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
_FLAGS: Final = frozenset("hHkOQsvVW")
"""Short options without a value: others may follow in the same word."""
_SHORT: Final = {
    "A": "account",
    "B": "extra-node-info",
    "c": "cpus-per-task",
    "C": "constraint",
    "G": "gpus",
    "L": "licenses",
    "n": "ntasks",
    "N": "nodes",
    "p": "partition",
    "q": "qos",
    "s": "oversubscribe",
    "S": "core-spec",
    "t": "time",
    "w": "nodelist",
    "x": "exclude",
}
"""Long names of the options that have a say in an allocation (sbatch(1))."""
_NUMBER: Final = re.compile(r"\d{1,9}")
_FEATURE: Final = re.compile(r"(?<!!)\b[A-Za-z_][\w.-]*")
"""A word in an expression over features that is not negated (sbatch(1): --constraint)."""
_SEPARATE: Final = frozenset({"hetjob", "packjob"})
"""Raw lines between two components of a heterogeneous job."""
_SHARED_NODES: Final = frozenset({"user", "mcs"})
"""Values of ``--exclusive`` with which a job has no node to itself."""
_ONE_THREAD: Final = frozenset({"compute_bound", "memory_bound", "nomultithread"})
"""Values of ``--hint`` with which a job uses one thread of each core."""
_WHOLE: Final = ("core-spec", "thread-spec")
"""Options that give a job its nodes to itself, as ``--exclusive`` does."""


def allocations(job: JobSpec) -> tuple[Allocation, ...]:
    """Return what each component of a job asks for, by the request, the own maps and raw lines."""
    first, *others = components(job)
    raw, *more = _of_components(job.raw)
    asked = allocation(first, job.batch.request, raw)
    if reserve := job.own.get("diskGres"):
        # A job without disk uses none of it, but the name must be there all the same.
        resources = {str(reserve): 0, **asked.resources}
        asked = msgspec.structs.replace(asked, resources=resources, disk_b=asked.disk_b or job.batch.request.disk_b)
    whole = SbatchOptions(account=first.account, time=first.time)
    return (
        asked,
        *(allocation(whole, job.batch.request, lines) for lines in more),
        *(allocation(part, job.batch.request) for part in others),
    )


def _of_components(raw: Iterable[str]) -> list[list[str]]:
    """Return raw lines by the component that they are of: a line may begin another one."""
    found: list[list[str]] = [[]]
    for line in raw:
        if line.strip() in _SEPARATE:
            found.append([])
        else:
            found[-1].append(line)
    return found


def allocation(options: SbatchOptions, request: Request, raw: Iterable[str] = ()) -> Allocation:
    """Return what a component of a job asks for; `raw` are lines of options.

    `request` has exact amounts where the options have them rounded up. How options combine was read from the answers
    of a controller (Slurm 22.05).
    """
    values = {name: value or "" for name, value in options.pairs()}
    for name, value in raw_values(raw).items():
        for group in EXCLUSIVE_OPTIONS if name not in values else ():
            values = {key: kept for key, kept in values.items() if name not in group or key not in group}
        values[name] = value
    nodes, most_nodes, tasks, threads = _shape(values)
    cpus = _number(values.get("cpus-per-task")) or 1
    resources = _resources(values, nodes or 1, tasks)
    least = _number(values.get("mincpus")) or 0
    if most_nodes and not values.get("ntasks"):
        # Nodes beyond the least number have as many tasks as the others.
        least = max(least, (_number(values.get("ntasks-per-node")) or 0) * cpus)
    if each := _number(values.get("cpus-per-gpu")):
        least = max(least, each * resources.get("gpus", 0))
    if tasks_per_core := _number(values.get("ntasks-per-core")):
        threads = threads or (tasks_per_core * cpus if tasks > 1 else None)
    memory = parse_size(values.get("mem"))
    if "mem-per-gpu" in values and (each := parse_size(values["mem-per-gpu"])):
        memory = each * resources.get("gpus", 1)
    if per_cpu := parse_size(values.get("mem-per-cpu")):
        memory = per_cpu * max(cpus * -(-tasks // (nodes or 1)), least)
    exclusive = values.get("exclusive")
    return Allocation(
        nodes=nodes,
        most_nodes=most_nodes,
        tasks=tasks,
        cpus_per_task=cpus,
        least_cpus=least,
        whole_nodes=(exclusive is not None and exclusive not in _SHARED_NODES)
        or any(_number(values.get(name)) for name in _WHOLE),
        threads_per_core=threads,
        memory_b=WHOLE_NODE_B if memory == 0 else _exact(memory, request.memory_b, MIB),
        memory_per_cpu_b=per_cpu,
        disk_b=_exact(parse_size(values.get("tmp")), request.disk_b, MIB),
        walltime_s=_exact(_walltime(values.get("time")), request.walltime_s, 60),
        resources=resources,
        features=tuple(
            frozenset(words)
            for part in re.split("[&,]", values.get("constraint", ""))
            if (words := _FEATURE.findall(part))
        ),
        partitions=tuple(filter(None, values.get("partition", "").split(","))),
        account=values.get("account", ""),
        qos=tuple(filter(None, values.get("qos", "").split(","))),
        licences=_licences(values.get("licenses", "")),
        hosts=tuple(filter(None, (values.get("nodelist", ""), values.get("exclude", "")))),
        names={RESERVATION: names} if (names := tuple(filter(None, values.get("reservation", "").split(",")))) else {},
    )


def _shape(values: Mapping[str, str]) -> tuple[int | None, int | None, int, int | None]:
    """Return the least and the most nodes, the number of tasks, and the threads of a core that these use."""
    least, _, most = values.get("nodes", "").partition("-")
    nodes, most_nodes = _number(least), _number(most)
    named = len(expand_hosts(values.get("nodelist", "")))
    tasks, per_node = _number(values.get("ntasks")), _number(values.get("ntasks-per-node"))
    sockets = values.get("extra-node-info", "")
    parts = [_number(part) for part in sockets.split(":")] if sockets else []
    threads = parts[2] if len(parts) > 2 else None
    threads = _number(values.get("threads-per-core")) or threads
    if _ONE_THREAD & set(values.get("hint", "").split(",")):
        threads = 1
    if tasks:
        # A node without a task is not given.
        nodes, most_nodes = (min(each, tasks) if each else None for each in (nodes, most_nodes))
        nodes = nodes or (-(-tasks // per_node) if per_node else None)
    else:
        nodes = max(nodes or 0, named if named > 1 else 0) or nodes
        tasks = (nodes or 1) * (per_node or math.prod(part or 1 for part in parts))
        if per_node and not nodes:
            nodes = 1
    return nodes, most_nodes if most_nodes and most_nodes > (nodes or 1) else None, tasks, threads


def _walltime(text: str | None) -> float | None:
    """Return the seconds of ``--time``, where 0 is no limit."""
    if (text or "").strip().upper() in {"0", "INFINITE", "UNLIMITED"}:
        return math.inf
    return parse_time_limit(text)


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


def raw_values(lines: Iterable[str]) -> dict[str, str]:
    """Return the values of long options in raw lines, in which names may be shortened; the last of two counts."""
    values: dict[str, str] = {}
    for line in lines:
        for name, value in parse_line(line):
            for group in EXCLUSIVE_OPTIONS[2:]:
                values = {key: kept for key, kept in values.items() if name not in group or key not in group}
            values[name] = value
    return values


def parse_line(line: str) -> Iterator[tuple[str, str]]:
    """Yield the options of a raw line that have a say in an allocation, by their long names, and their values."""
    try:
        words = iter(shlex.split(line, comments=True))
    except ValueError:
        # sbatch tells what is wrong with it.
        return
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = _whole_name(name)
            if not equals and name in _WITH_VALUE:
                value = next(words, "")
            if name in _WITH_VALUE or name in _WITHOUT_VALUE:
                yield _SAME.get(name, name), value
        elif word.startswith("-"):
            yield from _short_options(word[1:], words)


def _short_options(letters: str, words: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a word of letters, of which one without a value may have others behind it."""
    while letters:
        first, letters = letters[0], letters[1:]
        name = _SHORT.get(first, "")
        if first not in _FLAGS:
            if name:
                yield name, letters.removeprefix("=") or next(words, "")
            return
        if name:
            yield name, ""


def _whole_name(name: str) -> str:
    """Return the long name of which a name is the beginning, if sbatch has just one."""
    if name in _WITH_VALUE or name in _WITHOUT_VALUE or name in _OTHERS:
        return name
    found = [each for each in (*_WITH_VALUE, *_WITHOUT_VALUE, *_OTHERS) if each.startswith(name)]
    return found[0] if len(found) == 1 else name


_WITH_VALUE: Final = frozenset(_SHORT.values()) - {"oversubscribe"} | {
    *("cpus-per-gpu", "gpus-per-node", "gpus-per-task", "gres", "hint", "mem", "mem-per-cpu", "mem-per-gpu", "mincpus"),
    *("ntasks-per-core", "ntasks-per-node", "reservation", "thread-spec", "threads-per-core", "tmp"),
}
_WITHOUT_VALUE: Final = frozenset({"exclusive", "oversubscribe", "share"})
"""Options that have a value only behind a sign of equality, if at all."""
_SAME: Final = {"share": "oversubscribe"}
_OTHER_WORDS: Final = (
    "acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment contiguous cores-per-socket "
    "cpu-freq deadline delay-boot dependency distribution error export export-file get-user-env gid gpu-bind "
    "gpu-freq gpus-per-socket gres-flags help hold ignore-pbs input job-name kill-on-invalid-dep license mail-type "
    "mail-user mcs-label mem-bind network nice no-kill no-requeue nodefile ntasks-per-gpu ntasks-per-socket "
    "open-mode output overcommit parsable power prefer priority profile propagate quiet reboot requeue segment "
    "signal sockets-per-node spread-job stepmgr switches test-only time-min tres-bind tres-per-task uid usage "
    "use-min-nodes verbose version wait wait-all-nodes wckey wrap"
)
_OTHERS: Final = frozenset(_OTHER_WORDS.split())
"""Long names that have no say in it, but with which the beginning of a name may be ambiguous."""


def _number(text: str | None) -> int | None:
    """Return the first number in a text, the least of ``2-4``; ``None`` for none, and for 0."""
    found = _NUMBER.match((text or "").strip())
    return int(found[0]) or None if found else None


def _resources(values: Mapping[str, str], nodes: int, tasks: int) -> dict[str, int]:
    """Return generic resources per node: of ``gpu:a100:2`` two gpus."""
    found: dict[str, int] = {}
    for item in filter(None, values.get("gres", "").split(",")):
        name, *rest = item.strip().removeprefix("gres:").removeprefix("gres/").split(":")
        count = _number(rest[-1]) if rest else None
        name = "gpus" if name == "gpu" else name
        found[name] = found.get(name, 0) + (count or 1)
    for option, times, parts in (("gpus", 1, nodes), ("gpus-per-node", 1, 1), ("gpus-per-task", tasks, nodes)):
        if text := values.get(option, ""):
            gpus = (_number(text.rpartition(":")[2]) or 1) * times
            found["gpus"] = max(found.get("gpus", 0), -(-gpus // parts))
    return found


_OPTION_OF: Final = {
    "cpu": "cpus-per-task",
    "excludes": "exclude",
    "features": "constraint",
    "licence": "licenses",
    "mem": "mem",
    "memPerCpu": "mem-per-cpu",
    "memPerGpu": "mem-per-gpu",
    "nodeCount": "nodes",
    "nodes": "nodelist",
    "partition": "partition",
    "qos": "qos",
    "tasks": "ntasks",
    "tasksPerNode": "ntasks-per-node",
    "tmp": "tmp",
}
"""Long name of the option that a key of the map stands for."""


def contradictions(own: SlurmMap) -> Iterator[Contradiction]:
    """Yield the keys and raw lines of jobs that cannot both hold: sbatch refuses them, or forgets one without a word.

    Two raw lines with one option are none: those of a label come later than those of the run, and win.
    """
    keys = [*_given_keys(own)]
    lines: list[tuple[str, str, str]] = []
    for path, line in raw_lines(own, "directives", "sbatch"):
        if line in _SEPARATE:
            break
        lines += ((path, name, value) for name, value in parse_line(line.removeprefix("#SBATCH").strip()))
    for group in EXCLUSIVE_OPTIONS:
        names = " or ".join(f"'--{name}'" for name in sorted(group))
        found = {name: path for path, name, _ in (*keys, *lines) if name in group}
        if len(found) > 1:
            first, second, *_ = found.values()
            yield Contradiction(first=first, second=second, why=f"exclude each other: a job has {names}")
    for path, name, value in keys:
        last = next((each for each in reversed(lines) if each[1] == name), None)
        if last is not None and _plain_value(name, last[2]) != _plain_value(name, value):
            yield Contradiction(first=path, second=last[0], why=f"say different things of '--{name}'")
        is_number = name == "nodelist" and value.isdecimal()
        counted = next((each for each in reversed(lines) if each[1] == "nodes"), None) if is_number else None
        if counted is not None:
            why = "do not fit: 'slurm.nodes' has names of nodes, and 'slurm.nodeCount' is their number"
            yield Contradiction(first=path, second=counted[0], why=why)


def _given_keys(own: SlurmMap) -> Iterator[tuple[str, str, str]]:
    """Yield the keys that say an option of the first component: path, long name and value."""
    for key, value in own.items():
        plain = SPELLINGS.get(key, key).removesuffix("0")
        if is_set(value) and plain in _OPTION_OF:
            yield key, _OPTION_OF[plain], ",".join(to_list(value))
        elif plain == "exclusive" and value:
            yield key, "exclusive", ""


def _plain_value(name: str, value: str) -> object:
    """Return what values of an option have in common that mean the same."""
    if name in {"mem", "mem-per-cpu", "mem-per-gpu", "tmp"}:
        return parse_size(value)
    return value.replace("&", ",").strip()


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
