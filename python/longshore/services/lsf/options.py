"""Which options of bsub jobs get, from their requests and the keys of the map `lsf`, and what these ask for."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from longshore.config.keys import JOB, SITE
from longshore.contract.capabilities import Contradiction
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.workflow import MIB, Allocation, Request
from longshore.services.batch.answers import BINARY_UNITS, parse_number
from longshore.services.batch.backend_options import BackendOption, describe_options, parse_options
from longshore.services.batch.script import JobSpec, fit_line, raw_lines, to_list
from longshore.services.batch.settings import KIT_KEYS, node_count, one_of
from longshore.services.lsf.answers import parse_bytes
from longshore.services.lsf.keys import TABLE

SERVICE: Final = "lsf"
"""Name of the service, and key of its own map."""
LsfMap: TypeAlias = Mapping[str, YamlValue]
"""The service's own map, ``lsf:``, of a site or of jobs."""
Option: TypeAlias = tuple[str, str | None]
"""An option with its dash and its value; ``None`` for an option without one."""

JOB_NAMES: Final = {
    "project": "-P",
    "userGroup": "-G",
    "application": "-app",
    "serviceClass": "-sla",
    "hosts": "-m",
    "priority": "-sp",
    "exclusive": "-x",
    "resource": "-R",
    "requeue": "-r",
}
"""Names that each stand for an option of bsub."""
_TEXTS: Final = ("userGroup", "application", "serviceClass", "hosts", "priority")
AMOUNT_NAMES: Final = tuple(name for name in TABLE.names(JOB) if name not in (*JOB_NAMES, "bsub"))
"""Names that say how a request is written."""
SITE_NAMES: Final = tuple(name for name in TABLE.names(SITE) if name not in KIT_KEYS)
"""Names that configure access to the cluster, not jobs, beside those of the kit."""

_UNITS: Final = ("MB", "KB", "GB", "TB")
"""Units of LSF_UNIT_FOR_LIMITS."""
_PER: Final = ("job", "host", "task", "none")
_MAIL: Final = {"always": ("-B", "-N"), "complete": ("-N",), "error": ("-Ne",), "never": ()}
"""When to send mail, in HTCondor's (and BPS's) words, as options of bsub."""
_WHOLE_NODES: Final = "-nnodes"
"""Raw option that asks for whole nodes: LSF then takes no number of slots and no span."""
_ESSENTIAL: Final = frozenset({"-J", "-o", "-oo", "-cwd", "-w", "-H", "-K", "-I", "-Is", "-Ip"})
"""Raw options that would make the job another one, or keep it from being found."""
_WORD: Final = re.compile(r"[A-Za-z_][\w.-]*")


def refuse_essential(raw: Iterable[str]) -> None:
    """Raise `ConfigError` for a raw option without which a job could not be found again."""
    for words in raw:
        if words.split()[0] in _ESSENTIAL:
            raise ConfigError(
                f"'bsub' cannot have '{words.split()[0]}': Longshore sets the name, output, directory and dependencies",
                hint="Leave it out. 'lsf.repo_key' is a prefix of names.",
            )


def job_options(job: JobSpec) -> Iterator[Option]:
    """Return the options of a job, but for those that raw options replace.

    Raises `ConfigError` when a setting is invalid.
    """
    given = {words.split()[0] for words in job.raw}
    request, attributes, own = job.batch.request, job.batch.attributes, job.own
    whole = _WHOLE_NODES in given
    account = attributes.get("accountingGroup") or own.get("project") or job.defaults.account
    pairs: list[Option] = [
        ("-q", str(attributes.get("queue") or job.defaults.queue) or None),
        ("-P", str(account) if account else None),
        *((JOB_NAMES[name], " ".join(to_list(own.get(name))) or None) for name in _TEXTS),
        ("-n", None if whole else str(node_count(SERVICE, own) * request.cpus)),
        # In minutes: LSF has no seconds here (bsub(1): -W [hour:]minute).
        ("-W", None if request.walltime_s is None else str(max(1, math.ceil(request.walltime_s / 60)))),
        ("-M", _limit(request, own)),
        ("-gpu", f"num={request.resources['gpus']}" if request.resources.get("gpus") else None),
        ("-R", None if whole else _requirement(request, own)),
    ]
    yield from ((name, value) for name, value in pairs if value and (name == "-R" or name not in given))
    yield from (("-R", text) for text in to_list(own.get("resource")))
    yield from (("-x", None),) if own.get("exclusive") else ()
    yield ("-r" if job.is_engine or own.get("requeue") else "-rn"), None
    if attributes.get("mailTo"):
        yield "-u", str(attributes["mailTo"])
        yield from ((name, None) for name in _MAIL.get(str(attributes.get("whenToMail") or "error").lower(), ("-N",)))


def memory_unit(own: LsfMap) -> str:
    """Return the unit of the cluster's limits; raises `ConfigError` for an unknown one."""
    return one_of(SERVICE, own, "memoryUnit", _UNITS)


def _limit(request: Request, own: LsfMap) -> str | None:
    """Return the limit of memory with its unit: without one, it would be in KB, or in what the cluster says."""
    if request.memory_b is None:
        return None
    # Where LSF adds up the memory of all hosts, one host's limit would be too small.
    return f"{math.ceil(request.memory_b * node_count(SERVICE, own) / MIB)}MB{'!' if own.get('hardMemory') else ''}"


def _requirement(request: Request, own: LsfMap) -> str:
    """Return the value of ``-R``: the reserved amounts, and one host for all slots, or so many slots on each host."""
    unit, per = BINARY_UNITS[memory_unit(own)[0]], one_of(SERVICE, own, "memoryPer", _PER)
    nodes = node_count(SERVICE, own)
    reserved: dict[str, int] = {}
    if request.memory_b is not None:
        reserved["mem"] = math.ceil(request.memory_b / unit / (request.cpus if per == "task" else 1))
    if request.disk_b is not None:
        reserved["tmp"] = math.ceil(request.disk_b / unit / (request.cpus if per == "task" else 1))
    for name, amount in sorted(request.resources.items()):
        if not _WORD.fullmatch(name):
            raise ConfigError(f"'requestResources' cannot have '{name}': it is no name of a resource of LSF")
        if name != "gpus":
            reserved[name] = math.ceil(amount / request.cpus) if per == "task" else amount
    end = "" if per == "none" else "/host" if nodes > 1 and per == "job" else f"/{per}"
    whole = math.ceil((request.memory_b or 0) / unit)
    parts = [f"select[mem>{whole}]"] if own.get("selectMemory") and whole else []
    parts += [f"rusage[{':'.join(f'{name}={amount}{end}' for name, amount in reserved.items())}]"] if reserved else []
    parts += [f"span[ptile={request.cpus}]"] if nodes > 1 else ["span[hosts=1]"] if request.cpus > 1 else []
    return " ".join(parts)


_PATTERN: Final = re.compile(r"%[A-Za-z]")
"""What LSF replaces in names of files and folders."""
_AGAIN: Final = 99
"""Exit status of an engine's script that wants to be started again."""


def directives(job: JobSpec) -> Iterator[str]:
    """Return the options of a job, without ``#BSUB``; raw ones come last."""
    refuse_essential(job.raw)
    options = (*_head(job), *job_options(job), *(_engine_options(job) if job.is_engine else ()))
    yield from (name if value is None else f"{name} {_quoted(name, value)}" for name, value in options)
    yield from (fit_line("bsub", line) for line in job.raw)


_WITH_VALUE: Final = frozenset(
    {"-G", "-M", "-P", "-R", "-W", "-app", "-gpu", "-m", "-n", "-nnodes", "-q", "-sla", "-sp"}
)
"""Options with a value that have a say in what a job gets, or a key of their own (bsub(1))."""
_RUSAGE: Final = re.compile(r"rusage\[([^]]*)\]")
_RESERVED: Final = re.compile(
    r"\bmem\s*=\s*(\d{1,15}(?:\.\d{1,9})?\s*[KMGT]?)B?\s*(?:/\s*(job|host|task|slot))?", re.IGNORECASE
)
_AFFINITY: Final = re.compile(
    r"affinity\[\s*(thread|core|socket|numa)\s*(?:\(\s*(\d{1,6})[^)]*\))?\s*(?:\*\s*(\d{1,6}))?"
)
"""Units of processors for each slot: ``affinity[core(2)*3]`` are six cores."""
_WHOLE_UNITS: Final = frozenset({"socket", "numa"})
"""Units that have nobody knows how many processors."""


def allocation(job: JobSpec, *, least: bool = False) -> Allocation:
    """Return what jobs ask for, or need at least on one host, by their request and by raw lines, which win."""
    own, found = job.own, Allocation.of_request(job.batch.request)
    values, requirements = raw_values(job.raw)
    requirements += to_list(own.get("resource"))
    queue = values.get("-q") or str(job.batch.attributes.get("queue") or "")
    # Of a range of slots, the largest counts.
    numbers = [parse_number(part) or 0 for part in values.get("-n", "").split(",")]
    slots = min(numbers) if least else max(numbers)
    on_one_host = job.batch.request.cpus > 1 or any("hosts=1]" in text for text in requirements)
    if slots and least and not on_one_host:
        # They may be on as many hosts.
        slots = 1
    whole = parse_number(values.get("-nnodes", ""))
    nodes = whole or (node_count(SERVICE, own) if own.get("nodeCount") and not slots else None)
    cpus = slots or found.cpus_per_task
    units = [unit for text in requirements for unit in _AFFINITY.findall(text)]
    for _, number, times in units:
        cpus = max(cpus, (slots or found.cpus_per_task) * int(number or 1) * int(times or 1))
    limit = parse_run_limit(values.get("-W", ""))
    memory_b = parse_bytes(values.get("-M", "").rstrip("!")) or found.memory_b
    if memory_b and "-M" not in values and one_of(SERVICE, own, "memoryPer", _PER) == "task":
        # Each slot reserves its share of what the request's processors would have together.
        memory_b = math.ceil(memory_b / found.cpus_per_task) * max(slots, found.cpus_per_task)
    if reserved := _reserved_memory(requirements, own, slots or found.cpus_per_task):
        memory_b = max(memory_b or 0, reserved)
    return msgspec.structs.replace(
        found,
        cpus_per_task=cpus,
        nodes=nodes,
        whole_nodes=bool(whole or own.get("exclusive")) or "-x" in values or any(u in _WHOLE_UNITS for u, *_ in units),
        walltime_s=found.walltime_s if limit is None else limit,
        memory_b=memory_b,
        partitions=tuple(queue.split()),
    )


def raw_values(lines: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the values of options in raw lines, the last of two, and all values of ``-R``, which add up."""
    values: dict[str, str] = {}
    requirements: list[str] = []
    for line in lines:
        try:
            words = iter(shlex.split(line, comments=True))
        except ValueError:
            # bsub tells what is wrong with it.
            continue
        for word in words:
            value = next(words, "") if word in _WITH_VALUE else ""
            if word == "-R":
                requirements.append(value)
            elif word.startswith("-"):
                values[word] = value
    return values, requirements


def contradictions(own: LsfMap) -> Iterator[Contradiction]:
    """Yield the keys and raw lines of jobs that say different things of one option, or of which bsub takes one."""
    given = [
        (key, JOB_NAMES[key], " ".join(to_list(value)))
        for key, value in own.items()
        if key in _TEXTS or key == "project"
        if value is not None
    ]
    found: dict[str, str] = {}
    for path, line in raw_lines(own, "directives", "bsub"):
        values, _ = raw_values([line.removeprefix("#BSUB").strip()])
        found |= dict.fromkeys(values, path)
        for name, value in values.items():
            keys = [key for key, option, said in given if option == name and said != value]
            yield from (Contradiction(first=key, second=path, why=f"say different things of '{name}'") for key in keys)
    for first, second in (("-n", _WHOLE_NODES), ("nodeCount", _WHOLE_NODES), ("nodeCount", "-n")):
        places = [name if own.get(name) else found.get(name) for name in (first, second)]
        if places[0] and places[1]:
            why = f"exclude each other: a job has '{first}' or '{second}'"
            yield Contradiction(first=places[0], second=places[1], why=why)


def _reserved_memory(requirements: Iterable[str], own: LsfMap, slots: int) -> int:
    """Return the most memory that requirements reserve on a host, in bytes."""
    unit, per = BINARY_UNITS[memory_unit(own)[0]], one_of(SERVICE, own, "memoryPer", _PER)
    found = 0
    for text in (inner for each in requirements for inner in _RUSAGE.findall(each)):
        for amount, written in _RESERVED.findall(text):
            plain = amount.strip()
            size = parse_bytes(plain) if plain[-1:].isalpha() else math.ceil(float(plain) * unit)
            found = max(found, (size or 0) * (slots if (written or per).lower() in {"task", "slot"} else 1))
    return found


def parse_run_limit(text: str) -> float | None:
    """Return the seconds of a run limit, ``[hour:]minute[/host]``; ``None`` for another text (bsub(1): -W)."""
    hours, _, minutes = text.partition("/")[0].rpartition(":")
    return None if (late := parse_number(minutes)) is None else ((parse_number(hours) or 0) * 60 + late) * 60.0


# Options of bsub in one string (``--backend-options``), and the keys that they stand for.


_BACKEND_OPTIONS: Final = (
    BackendOption("-q", "", "queue", "NAME", "queue"),
    BackendOption("-n", "", "requestCpus", "N", "slots"),
    BackendOption("-M", "", "requestMemory", "AMOUNT", "memory, in MB or with a unit"),
    BackendOption("-W", "", "requestWalltime", "[HOURS:]MINUTES", "run limit"),
    BackendOption("-P", "", "accountingGroup", "NAME", "project"),
    BackendOption("-gpu", "", "bsub", "TEXT", "GPUs, such as num=2"),
    *(
        BackendOption(JOB_NAMES[name], "", f"{SERVICE}.{name}", value, meaning)
        for name, value, meaning in (
            ("application", "NAME", "application profile"),
            ("hosts", "HOSTS", "hosts or groups of hosts"),
            ("resource", "TEXT", "a resource requirement; may be repeated"),
            ("serviceClass", "NAME", "service class"),
            ("priority", "N", "priority among the user's own jobs"),
            ("userGroup", "NAME", "group of users"),
            ("exclusive", "", "hosts for a job alone"),
            ("requeue", "", "LSF may start a job again by itself"),
        )
    ),
)
BACKEND_HELP: Final = describe_options("Options of --backend-options for LSF, as in bsub:", _BACKEND_OPTIONS)


def backend_options(text: str) -> dict[str, Any]:
    """Return the keys that a string of options stands for; those of LSF in its own map.

    Raises `ConfigError` for an unknown option or a wrong value, and `OptionHelpRequest` where help is requested.
    """
    parts = parse_options(text, _BACKEND_OPTIONS, BACKEND_HELP)
    if parts[1:]:
        raise ConfigError("a job of LSF has no components: there is no ':' of the back end", hint=BACKEND_HELP)
    found: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for key, values in parts[0].items():
        service, _, name = key.rpartition(".")
        if service:
            own[name] = _own_value(name, values)
        elif key == "bsub":
            found[key] = [f"-gpu {shlex.quote(value)}" for value in values]
        elif key == "requestWalltime":
            seconds = parse_run_limit(values[-1])
            if seconds is None:
                raise ConfigError(f"the option '-W' of the back end must be [HOURS:]MINUTES, not '{values[-1]}'")
            found[key] = int(seconds)
        else:
            found[key] = values[-1]
    return found | ({SERVICE: own} if own else {})


def _own_value(name: str, values: list[str]) -> YamlValue:
    """Return the value of a key of the service's own map."""
    if name == "resource":
        return list(values)
    if name == "priority":
        if (number := parse_number(values[-1])) is None:
            raise ConfigError(f"the option '-sp' of the back end must be a whole number, not '{values[-1]}'")
        return number
    return values[-1] or True


def _head(job: JobSpec) -> Iterator[Option]:
    for what, path in (("the directory of the run", job.folder), ("its output", job.output)):
        if found := _PATTERN.search(path):
            raise ConfigError(
                f"{what} cannot be '{path}': LSF replaces '{found[0]}' in paths",
                hint="Move the run to a directory without percent signs.",
            )
    yield "-J", job.name + (f"[1-{job.array}]" if job.array else "")
    yield "-Jd", f"longshore run={job.run_name}"
    if job.own.get("group"):
        yield "-g", str(job.own["group"])
    yield "-cwd", job.folder
    # The engine's script opens its output itself: LSF would write it at the end.
    yield "-o", "/dev/null" if job.is_engine else job.output


def _engine_options(job: JobSpec) -> Iterator[Option]:
    """Return the options by which a job is started again, and warned before its end."""
    yield "-Q", str(_AGAIN)
    if job.warning_s:
        # LSF does not send the warning without the time limit that it warns of.
        yield "-wa", "USR1"
        yield "-wt", str(math.ceil(job.warning_s / 60))


def _quoted(name: str, value: str) -> str:
    """Quote a value as the shell does: bsub reads its lines like the words of a command."""
    text = fit_line(name, value)
    return text if re.fullmatch(r"[\w@%+=:,./!-]+", text, re.ASCII) else shlex.quote(text)
