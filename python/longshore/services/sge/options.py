"""Which options of qsub jobs get, from their requests and the keys of the map `sge`, and what these ask for."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

import msgspec

from longshore.config.keys import JOB, SITE
from longshore.contract.capabilities import Contradiction, differing_values
from longshore.contract.executor import Urgency
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import name_all
from longshore.model.workflow import MIB, Allocation, Request
from longshore.services.batch.answers import parse_number
from longshore.services.batch.script import JobSpec, fit_line, raw_lines, text_lines, to_list
from longshore.services.batch.settings import KIT_KEYS, node_count, one_of
from longshore.services.sge.answers import parse_bytes, parse_seconds, requested
from longshore.services.sge.keys import TABLE

SERVICE: Final = "sge"
SITE_NAMES: Final = tuple(name for name in TABLE.names(SITE) if name not in KIT_KEYS)
"""Names that configure access to the cluster and what is done about all jobs, beside those of the kit."""
JOB_NAMES: Final = TABLE.names(JOB)
"""Names that change the options of a job."""
LOWEST_PRIORITY: Final = -1023
HIGHEST_PRIORITY: Final = 1024
"""Priorities above 0 are for operators (qsub(1): -p)."""
_HALF_S: Final = 3600.0
"""Seconds until the latest start at which a job has half of the lowest priority."""
_MEMORY_RESOURCES: Final = frozenset(
    f"{kind}{name}" for kind in ("h_", "s_") for name in ("vmem", "rss", "data", "stack", "core", "fsize")
) | {"mem_free", "mf", "mem_total", "virtual_free", "vf", "virtual_total", "swap_free"}
"""Resources of every Grid Engine whose plain numbers are bytes (complex(5))."""
_SELECTING: Final = frozenset({"-l", "-q", "-masterq", "-pe", "-ar", "-ckpt", "-P"})
"""Options that ``hard`` and ``soft`` may have; each takes a value."""
_COMMENT: Final = "#"
"""Sign that begins a comment in a line of options."""
_MAIL: Final = {"always": "bea", "complete": "e", "error": "a", "never": "n"}

SgeMap: TypeAlias = Mapping[str, YamlValue]
"""The service's own map, ``sge:``, of a site or of jobs."""


def check_site_map(own: SgeMap) -> None:
    """Raise `ConfigError` for an invalid setting of the site, unknown keys aside."""
    memory_per(own)
    read_priority(own)


def options(job: JobSpec, slack_s: float | None = None) -> Iterator[str]:
    """Return the lines of options of jobs, without ``#$``; those of ``soft`` are last.

    `slack_s` is the time until the latest start of the jobs. Raises `ConfigError` when a setting is invalid.
    """
    request, attributes, own = job.batch.request, job.batch.attributes, job.own
    number = read_priority(own, slack_s)
    if number:
        yield f"-p {number}"
    if queue := attributes.get("queue") or job.defaults.queue:
        yield f"-q {_word('queue', queue)}"
    if project := attributes.get("accountingGroup") or job.defaults.account:
        yield f"-P {_word('accountingGroup', project)}"
    if mail_to := attributes.get("mailTo"):
        when = str(attributes.get("whenToMail") or "error")
        yield f"-M {_word('mailTo', mail_to)}"
        yield f"-m {_word('whenToMail', _MAIL.get(when.lower(), when))}"
    nodes, key, environment = slots_environment(own, request.cpus)
    slots = request.cpus if environment else 1
    raw = _raw_slots(_hard_text(job), least=True)
    if environment and not raw:
        yield f"-pe {_word(key, environment)} {nodes * slots}"
    # The memory of a job is divided by the slots that it gets, also where a raw line says how many: at least so many.
    slots = -(-raw // nodes) or slots
    byte_resources = {*_MEMORY_RESOURCES, *(job.facts.byte_resources if job.facts else ())}
    resources = (*_amounts(request, own, slots, byte_resources), *_resources(request))
    yield from (f"-l {name}={value}" for name, value in resources)
    yield from _selection("hard", own)
    yield from (fit_line("directives", line, reserved=_COMMENT) for line in job.raw)
    yield from _selection("soft", own)


def _amounts(request: Request, own: SgeMap, slots: int, byte_resources: set[str]) -> Iterator[tuple[str, str]]:
    """Return the amounts that the request has on every service, under the cluster's names for them."""
    memory_b = request.memory_b or 0
    if memory_per(own) == "slot":
        memory_b = math.ceil(memory_b / slots)
    for key, amount, is_size in (
        ("cpu_resource", request.cpus, False),
        ("mem_resource", math.ceil(memory_b / MIB), True),
        ("tmp_resource", math.ceil((request.disk_b or 0) / MIB), True),
    ):
        if (written := own.get(key)) and amount:
            name = _word(f"{SERVICE}.{key}", written)
            # Where a plain number is bytes, megabytes are said.
            yield name, f"{amount}M" if is_size and name in byte_resources else str(amount)
    if request.walltime_s is not None:
        yield "h_rt", str(max(1, math.ceil(request.walltime_s)))


def _resources(request: Request) -> Iterator[tuple[str, str]]:
    return ((_word("requestResources", name), str(amount)) for name, amount in sorted(request.resources.items()))


def slots_environment(own: SgeMap, cpus: int) -> tuple[int, str, str]:
    """Return the number of hosts of jobs, and the key and the name of the parallel environment of their slots.

    The name is empty where jobs need none, or the site has none. Raises `ConfigError` if it has none for several hosts.
    """
    nodes = node_count(SERVICE, own)
    name = "nodesEnvironment" if nodes > 1 else "parallelEnvironment"
    if nodes > 1 and not own.get(name):
        raise ConfigError(
            f"jobs and pilots on {nodes} hosts need a parallel environment: '{SERVICE}.{name}' is missing",
            hint=f"Name one with 'allocation_rule {cpus}' and 'control_slaves TRUE', as 'qconf -sp' shows them.",
        )
    return nodes, f"{SERVICE}.{name}", str(own.get(name) or "") if nodes * cpus > 1 else ""


def memory_per(own: SgeMap) -> str:
    """Return what the amount of ``mem_resource`` is for: a ``slot``, or the ``job``; raises `ConfigError`."""
    return one_of(SERVICE, own, "memoryPer", ("slot", "job"))


def read_priority(own: SgeMap, slack_s: float | None = None) -> int:
    """Return the priority of jobs: the given one, else the site's default, less what their slack allows.

    Raises `ConfigError` when it is out of range.
    """
    if own.get("priority") is not None:
        return _priority("priority", own["priority"])
    base = _priority("default_prio", own.get("default_prio") or 0)
    if slack_s is None or not own.get("use_priority"):
        return base
    # 0 for jobs on the longest chain, less for those that have time.
    below = LOWEST_PRIORITY * (1.0 - float(0.5 ** (max(0.0, slack_s) / _HALF_S)))
    return max(LOWEST_PRIORITY, base + int(below))


def _priority(name: str, value: YamlValue) -> int:
    text = str(value).strip()
    if not re.fullmatch(r"[+-]?\d{1,4}", text) or not LOWEST_PRIORITY <= int(text) <= HIGHEST_PRIORITY:
        raise ConfigError(
            f"'{SERVICE}.{name}' must be a whole number from {LOWEST_PRIORITY} to 0, not '{value}'",
            hint=f"Operators may give up to {HIGHEST_PRIORITY}.",
        )
    return int(text)


def _selection(name: str, own: SgeMap) -> Iterator[str]:
    """Return the line behind ``-hard`` or ``-soft``; raises `ConfigError` for options that select nothing."""
    lines = to_list(own.get(name))
    try:
        words = [word for line in lines for word in shlex.split(line)]
    except ValueError as error:
        raise ConfigError(f"'{SERVICE}.{name}' cannot be split into words: {error}") from error
    for option, value in zip(words[::2], [*words[1::2], *([""] if len(words) % 2 else [])], strict=True):
        if not option.startswith("-"):
            raise ConfigError(f"'{SERVICE}.{name}': '{option}' is no option: it does not begin with '-'")
        if option not in _SELECTING:
            raise ConfigError(
                f"'{SERVICE}.{name}' cannot have the option '{option}'",
                hint=f"{name_all(sorted(_SELECTING))} Other options of qsub go under 'directives'.",
            )
        if not value or value.startswith("-"):
            raise ConfigError(f"'{SERVICE}.{name}': the option '{option}' needs a value")
    if words:
        yield f"-{name} {' '.join(_word(f'{SERVICE}.{name}', word) for word in words)}"


def _word(name: str, value: object) -> str:
    """Return a value as one word of a line of options."""
    text = fit_line(name, str(value), reserved=_COMMENT)
    if re.fullmatch(r"[\w@%+=:,./&|*!?;()\[\]<>$-]+", text, re.ASCII):
        return text
    if '"' in text and "'" in text:
        raise ConfigError(f"'{name}' cannot be {text!r}: qsub has no way to write both kinds of quotes")
    return f"'{text}'" if '"' in text else f'"{text}"'


_CLOSE: Final = str.maketrans({":": ";", "@": "a", "/": "_", "\\": "_", "*": "_", "?": "_"})
"""Signs that no name may have, and close ones; those of patterns have none."""
_ILLEGAL: Final = re.compile(r"[^A-Za-z0-9._;+=-]+")


def directives(job: JobSpec) -> Iterator[str]:
    """Return the options of a job, without ``#$``."""
    # Inherited variables are already selected: qsub sees no others. Its own paths know no quotes and may not have
    # colons, so the script opens its output and enters its folder itself.
    yield from (f'-N "{job.name}"', "-S /bin/sh", "-V", "-wd /", "-j y", "-o /dev/null", "-w e")
    yield f"-r {'y' if job.is_engine else 'n'}"
    if job.array:
        yield f"-t 1-{job.array}"
    limit = job.batch.request.walltime_s
    if limit and job.warning_s:
        # USR1 at the soft limit, KILL at the hard one (queue_conf(5): s_rt).
        yield f"-l s_rt={max(1, int(limit) - job.warning_s)}"
    yield from options(job, slack_s(job.batch.urgency) if job.batch.urgency else None)


def slack_s(urgency: Urgency) -> float:
    """Return the seconds until the latest start that does not delay the end of the run."""
    return urgency.end_at - urgency.pressure_s - time.time()


def plain_name(name: str) -> str:
    """Return a name that Grid Engine and its patterns accept; its first sign is a letter."""
    plain = _ILLEGAL.sub("_", name.translate(_CLOSE))
    return plain if plain[:1].isalpha() else f"j{plain}"


def plain_names(*names: object) -> tuple[str, ...]:
    """Return the names among some texts; a pattern stands for several, and Grid Engine chooses (sge_types(1))."""
    return tuple(dict.fromkeys(str(name) for name in names if name and not re.search(r"[*?\[|&!()]", str(name))))


_RESOURCE_KEYS: Final = ("cpu_resource", "mem_resource", "tmp_resource")


_ONCE: Final = re.compile(r"(?:^|\s)(-pe|-p|-P|-ar|-ckpt)\s+(\S+(?:\s+\d\S*)?)")
"""Options of which a job has one, with their values."""


def contradictions(own: SgeMap) -> Iterator[Contradiction]:
    """Yield the keys and raw lines of jobs that say different things of one option; lines of one list may."""
    given: list[tuple[str, str, str]] = []
    for path, line in raw_lines(own, "hard", "directives"):
        plain = line.replace('"', "").replace("'", "")
        if re.search(r"(?:^|\s)-soft\b", plain):
            break
        given += ((path, name, value) for name, value in _ONCE.findall(plain))
        given += ((path, f"-l {name}", value) for name, value in requested(plain).items())
    if own.get("priority") is not None:
        given.insert(0, ("priority", "-p", str(own["priority"])))
    yield from differing_values(given)


_SAME: Final = {"mf": "mem_free", "vf": "virtual_free"}
"""Short names of resources of every Grid Engine (complex(5))."""
_ENFORCED: Final = ("h_vmem", "s_vmem", "h_rss", "s_rss")
"""Resources that limit the memory of each slot, whichever resource the site uses for requests."""
_EXCLUSIVE: Final = re.compile(r"excl", re.IGNORECASE)
"""Beginning of the names of resources that give a job its hosts to itself; each cluster defines its own."""
_TRUE: Final = frozenset({"1", "true"})
_NO_END: Final = 9_999_999
"""Slots of a range without an end (sge_types(1))."""


def _hard_text(job: JobSpec) -> str:
    """Return the options of the site's and the job's raw lines, without those behind ``-soft``, which are wishes."""
    lines = "\n".join((*text_lines(job.own.get("hard")), *job.raw))
    return re.sub(r"(?s)(?:^|\s)-soft\b.*?(?=\s-hard\b|$)", "", lines).replace('"', "").replace("'", "")


def _raw_slots(text: str, *, least: bool = False) -> int:
    """Return the slots that the last ``-pe`` of raw options asks for, of a range the most or least; 0 without one."""
    ranges = re.findall(r"(?:^|\s)-pe\s+\S+\s+(\S+)", text)
    if not ranges:
        return 0
    numbers = [int(number) for number in re.findall(r"\d{1,9}", ranges[-1])]
    if least:
        # A range may have no beginning: -16.
        return 1 if ranges[-1].startswith("-") else min(numbers, default=0)
    slots = max(numbers, default=0)
    return _NO_END if ranges[-1].endswith("-") else slots


def allocation(job: JobSpec, *, least: bool = False) -> Allocation:
    """Return what jobs ask for, or need at least; options behind ``-soft`` are wishes, and do not count."""
    own, request = job.own, job.batch.request
    text = _hard_text(job)
    written = {name: str(amount) for name, amount in request.resources.items()} | requested(text)
    asked = {_SAME.get(name, name): value for name, value in written.items()}
    found = Allocation.of_request(request)
    queues = re.findall(r"(?:^|\s)-q\s+(\S+)", text) or [str(job.batch.attributes.get("queue") or "")]
    # Those of each host.
    slots = -(-_raw_slots(text, least=least) // node_count(SERVICE, own))
    cpus = slots or parse_number(asked.get(str(own.get("cpu_resource")), "")) or found.cpus_per_task
    nodes, _, environment = slots_environment(own, cpus)
    disk = parse_bytes(asked.get(str(own.get("tmp_resource")), ""))
    memory = _SAME.get(str(own.get("mem_resource")), str(own.get("mem_resource")))
    per_slot = slots or (cpus if environment else 1)
    size = parse_bytes(asked.get(memory, "")) * (per_slot if memory_per(own) == "slot" else 1) or found.memory_b or 0
    fewest = -(-_raw_slots(text, least=True) // node_count(SERVICE, own))
    if memory not in asked and own.get("mem_resource") and memory_per(own) == "slot" and per_slot > fewest > 0:
        # Each slot has its share of what the fewest would have together.
        size = math.ceil(size / fewest / MIB) * MIB * per_slot
    enforced = max(parse_bytes(asked.get(name, "")) for name in _ENFORCED if name != memory) * per_slot
    projects = [str(job.batch.attributes.get("accountingGroup") or ""), *re.findall(r"(?:^|\s)-P\s+(\S+)", text)]
    return msgspec.structs.replace(
        found,
        nodes=nodes if nodes > 1 else None,
        cpus_per_task=cpus,
        whole_nodes=any(_EXCLUSIVE.match(name) and value.lower() in _TRUE for name, value in asked.items()),
        memory_b=max(size, enforced) or None,
        disk_b=disk or found.disk_b,
        walltime_s=parse_seconds(asked["h_rt"]) if "h_rt" in asked else found.walltime_s,
        # A queue may be that of some hosts: all.q@@fast.
        partitions=plain_names(*(queue.partition("@")[0] for queue in queues[-1].split(","))),
        account=projects[-1],
        names={
            "resource": tuple(written.keys() | {str(own[key]) for key in _RESOURCE_KEYS if own.get(key)}),
            # That of the site, though this job has one slot: others will use it.
            "parallel environment": plain_names(
                *(re.findall(r"(?:^|\s)-pe\s+(\S+)", text) or [environment or own.get("parallelEnvironment")])
            ),
        },
    )
