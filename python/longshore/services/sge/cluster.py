"""What a Grid Engine has and allows, apart from the answers on jobs because it is asked once, not in each round."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from longshore.contract.service import NodeGroup, PartitionState
from longshore.model.workflow import MIB
from longshore.services.batch.answers import parse_number
from longshore.services.batch.dialect import HostOffer, InventoryQuestions, PartitionLimits, ProgramCall, Question
from longshore.services.batch.jobs import ClusterFacts
from longshore.services.sge.answers import lines_at, parse_bytes, parse_seconds

_CLOSED: Final = "cdsuE"
"""Column of ``qstat -g c``: slots of instances that take no jobs until a person acts."""


def resource_names(text: str) -> tuple[str, ...]:
    """Return the names and short names of resources in ``qconf -sc``."""
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return tuple(dict.fromkeys(name for row in rows for name in row[:2]))


PER_JOB: Final = "resource counted per job"
PER_SLOT: Final = "resource counted per slot"
"""Kinds of names in `Inventory.names`."""


def counted_names(text: str, word: str) -> tuple[str, ...]:
    """Return the names and short names of resources in ``qconf -sc`` whose column ``consumable`` has a word."""
    rows = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return tuple(dict.fromkeys(name for row in rows if len(row) > 5 and row[5] == word for name in row[:2]))


def listed_names(text: str) -> tuple[str, ...]:
    """Return the names in a list of qconf, one a line."""
    return tuple(text.split())


_QUEUE_LIMITS: Final = re.compile(r"[hs]_(vmem|rss|data|stack|core|fsize)")
"""Limits of a queue that bound what a job may ask for under the same name (queue_conf(5))."""
_COUNTED: Final = re.compile(r"([\w.]+)=([^,=\]\s]+)(?=[,\]\s]|$)")


def parse_limits(text: str, memory: str = "", *, is_per_slot: bool = False) -> dict[str, PartitionLimits]:
    """Return the limits of each queue in ``qconf -sq``: the longest run time, and the most memory of a job.

    `memory` is the name of the resource for memory. Where that is counted per slot, a job has it as often as a host of
    the queue has slots.
    """
    found: dict[str, PartitionLimits] = {}
    for fields in blocks(text, "qname"):
        own = _limit(fields.get(memory, ""), _size) if _QUEUE_LIMITS.fullmatch(memory) else math.inf
        # A queue can also count a resource by itself: complex_values  h_vmem=8G,[@big=h_vmem=64G].
        counted = [
            _size(amount) for name, amount in _COUNTED.findall(fields.get("complex_values", "")) if name == memory
        ]
        most_b = min(own, max(counted, default=math.inf))
        slots = _limit(fields.get("slots", "1"), float) if is_per_slot else 1
        limit = _limit(fields.get("h_rt", ""), parse_seconds)
        found[fields["qname"]] = PartitionLimits(
            walltime_s=None if math.isinf(limit) else limit,
            max_memory_b=None if math.isinf(most_b) else int(most_b * slots),
        )
    return found


def blocks(text: str, first: str) -> Iterator[dict[str, str]]:
    """Return the fields of each object that qconf shows, whose first field is `first`; backslashes continue lines."""
    fields: dict[str, str] = {}
    for name, _, value in lines_at(re.sub(r"\\\n\s*", "", text), " "):
        if name == first and fields:
            yield fields
            fields = {}
        if name:
            fields[name] = value.strip()
    if first in fields:
        yield fields


def _limit(value: str, parse: Callable[[str], float]) -> float:
    """Return the limit of a queue, the largest where groups of hosts have their own: ``1:0:0,[@fast=0:10:0]``."""
    parts = [part.rpartition("=")[2].strip("[] ") for part in value.split(",")]
    return max(math.inf if part.upper() in {"INFINITY", "NONE", ""} else parse(part) for part in parts)


def _size(text: str) -> float:
    size = parse_bytes(text)
    return size if size or text.strip("0. ") == "" else math.inf


def questions(ask: Callable[..., ProgramCall], memory: str, *, is_per_slot: bool) -> InventoryQuestions:
    """Return the questions; `ask` makes the call of a program with its words, `memory` is the resource for it."""
    return InventoryQuestions(
        nodes=Question(ask("qhost", "-q", "-F", "mem_total,slots", "-xml"), parse_hosts),
        offers=Question(offers_call(ask, memory), parse_offers) if memory else None,
        limits=Question(ask("qconf", "-sq", "*"), lambda text: parse_limits(text, memory, is_per_slot=is_per_slot)),
        names={
            "resource": Question(ask("qconf", "-sc"), resource_names),
            PER_JOB: Question(ask("qconf", "-sc"), lambda text: counted_names(text, "JOB")),
            PER_SLOT: Question(ask("qconf", "-sc"), lambda text: counted_names(text, "YES")),
            "parallel environment": Question(ask("qconf", "-spl"), listed_names),
            "project": Question(ask("qconf", "-sprjl"), listed_names),
        },
    )


_HOST: Final = re.compile(r"<host name=['\"]([^'\"]*)['\"]>(.*?)</host>", re.DOTALL)
_QUEUE: Final = re.compile(r"<queue name=['\"]([^'\"]*)['\"]>(.*?)</queue>", re.DOTALL)
_VALUE: Final = re.compile(r"<(?:host|resource|queue)value\b[^>]*?\bname=['\"]([^'\"]*)['\"][^>]*>([^<]*)<")


def parse_hosts(text: str) -> tuple[NodeGroup, ...]:
    """Return the hosts of each queue in ``qhost -q -F mem_total,slots -xml``, by their slots; equal ones are one group.

    The slots of a host, where it has some of its own, bound those of all of its queues. Queues without jobs of qsub
    are left out.
    """
    found: dict[tuple[str, int, int | None], list[str]] = {}
    for host, body in _HOST.findall(text):
        values = dict(_VALUE.findall(_QUEUE.sub("", body)))
        queues = {name: dict(_VALUE.findall(part)) for name, part in _QUEUE.findall(body)}
        memory = parse_bytes(values.get("mem_total", "")) or None
        # Those of the host are what is left of them.
        used = sum(parse_number(queue.get("slots_used", "")) or 0 for queue in queues.values())
        left = re.match(r"\d{1,9}", values.get("slots", ""))
        for name, queue in queues.items():
            slots = parse_number(queue.get("slots", "")) or 0
            slots = min(slots, int(left[0]) + used) if left else slots
            if slots and "B" in queue.get("qtype_string", "B"):
                found.setdefault((name, slots, memory), []).append(host)
    return tuple(
        NodeGroup(partition=queue, count=len(names), names=tuple(names), cpus=slots, memory_b=memory)
        for (queue, slots, memory), names in found.items()
    )


TRIAL: Final = ("-w", "v")
"""Options of qsub to judge a job in the empty cluster, as ``-w e`` does, and to submit nothing (qsub(1))."""
_BEYOND_ALL: Final = "1000000G"
"""More memory than any host has."""
_OFFER: Final = re.compile(
    r'\(-l (?:[^()]*,)?([\w.]+)=1000000G[^()]*\) cannot run at host "([^"]*)" because it offers only h\w:\1=(\S+)'
)


def offers_call(ask: Callable[..., ProgramCall], memory: str) -> ProgramCall:
    """Return a call that asks for more memory than there is: qsub tells what each host of the empty cluster offers.

    qhost would tell what running jobs leave of it.
    """
    return msgspec.structs.replace(ask("qsub", *TRIAL, "-l", f"{memory}={_BEYOND_ALL}"), stdin=":\n")


def parse_offers(text: str) -> dict[str, HostOffer]:
    """Return the memory that each host offers, by the answer to `offers_call`; hosts without a limit are left out."""
    return {host: HostOffer(memory_b=_upper_size(amount)) for _, host, amount in _OFFER.findall(text)}


def _upper_size(text: str) -> int:
    """Return the whole mebibytes that a rounded amount, such as ``7.812G``, can stand for at most."""
    rest = re.sub(r"^[\d.]*", "", text)
    digits = text.removesuffix(rest).partition(".")[2]
    half = f"0.{'0' * len(digits)}5{rest}" if digits else "0"
    return (parse_bytes(text) + parse_bytes(half)) // MIB * MIB


def parse_queues(text: str) -> dict[str, PartitionState]:
    """Parse ``qstat -g c``: the queues by name, up while an instance takes jobs."""
    head, *lines = text.splitlines() or [""]
    # The first column has a name of two words.
    names = head.replace("CLUSTER QUEUE", "NAME").split()
    rows = [dict(zip(names, line.split(), strict=False)) for line in lines if line.strip("- ")]
    return {row["NAME"]: _queue(row) for row in rows if "NAME" in row and len(row) == len(names)}


def _queue(row: dict[str, str]) -> PartitionState:
    total, closed = row.get("TOTAL", ""), row.get(_CLOSED, "0")
    return PartitionState(
        name=row["NAME"],
        state="DOWN" if closed == total else "UP",
        slots=parse_number(total),
        default=False,
        accounts=frozenset(),
        qos=frozenset(),
    )


def cluster_facts(config: str, complexes: str) -> ClusterFacts:
    """Parse ``qconf -sconf``, and ``qconf -sc`` for the resources that are amounts of memory."""
    joined = config.replace("\\\n", " ")
    values = {name: value.strip() for name, _, value in lines_at(joined, " ")}
    tasks, jobs, own_jobs = (values.get(name, "") for name in ("max_aj_tasks", "max_jobs", "max_u_jobs"))
    rows = [line.split() for line in complexes.splitlines() if not line.startswith("#")]
    return ClusterFacts(
        max_array=parse_number(tasks) or None,
        # Without a limit, each is 0.
        max_jobs=parse_number(jobs) or None,
        max_user_jobs=parse_number(own_jobs) or None,
        accounting="accounting=false" not in values.get("reporting_params", ""),
        byte_resources=tuple(name for row in rows if len(row) > 2 and row[2] == "MEMORY" for name in row[:2]),
    )


def parse_load(text: str) -> dict[str, float]:
    """Return slots in all and free, from ``qstat -g c``, whose columns have names."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("-")]
    if not lines:
        return {}
    # The name of the first column has a blank.
    names = lines[0].replace("CLUSTER QUEUE", "QUEUE").split()
    if not {"AVAIL", "TOTAL"} <= set(names):
        return {}
    rows = [line.split() for line in lines[1:]]
    whole = [dict(zip(names, row, strict=True)) for row in rows if len(row) == len(names)]
    free, total = (sum(int(row[name]) for row in whole if row[name].isdecimal()) for name in ("AVAIL", "TOTAL"))
    return {"cpus_free": float(free), "cpus_total": float(total)} if total else {}
