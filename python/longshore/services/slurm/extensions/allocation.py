"""What a job asks of Slurm, by its options and by raw lines, which come later and win."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import msgspec

from longshore.batch.scripts.job_spec import JobSpec
from longshore.batch.values import parse_size as parse_amount
from longshore.model.workflow.allocation import WHOLE_NODE_B, Allocation
from longshore.model.workflow.request import MIB, Request
from longshore.services.slurm.extensions.components import components
from longshore.services.slurm.inventory import parse_time_limit
from longshore.services.slurm.render.sbatch_options import SbatchOptions

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
