"""What a Slurm cluster has and allows, as sinfo, scontrol and sacctmgr print it, and how much of it is free."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from longshore.contract.service import Association, NodeGroup, PartitionState, Qos
from longshore.model.workflow import MIB
from longshore.services.batch.answers import parse_duration, parse_number, parse_size
from longshore.services.batch.dialect import HostOffer, InventoryQuestions, ProgramCall, Question
from longshore.services.batch.jobs import ClusterFacts

_NONE: Final = frozenset({"(null)", "N/A", ""})
RESERVATION: Final = "reservation"
"""Kind of a name in `Inventory.names` and `Allocation.names`."""
NODE_FORMAT: Final = "%R|%c|%m|%d|%G|%f|%D|%N|%Z"
"""Format of ``sinfo``: a line per partition and kind of nodes, with their number and names."""


def parse_nodes(text: str) -> tuple[NodeGroup, ...]:
    """Parse ``sinfo --exact`` with `NODE_FORMAT`."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        if len(fields) not in (8, 9):
            continue
        cpus, memory, disk = (parse_number(field) for field in fields[1:4])
        if not cpus or not memory:
            continue
        found.append(
            NodeGroup(
                partition=fields[0],
                count=parse_number(fields[6]) or 1,
                names=(fields[7],),
                cpus=cpus,
                threads=parse_number(fields[8]) if fields[8:] else None,
                memory_b=memory * MIB,
                disk_b=None if disk is None else disk * MIB,
                resources=_parse_gres(fields[4]),
                features=frozenset() if fields[5] in _NONE else frozenset(fields[5].split(",")),
            )
        )
    return tuple(found)


def _parse_gres(text: str) -> dict[str, int]:
    """Return the number of each generic resource: of ``gpu:a100:4(S:0-1)`` four gpus."""
    found: dict[str, int] = {}
    plain = re.sub(r"\([^()]*\)", "", "" if text in _NONE else text)
    for item in filter(None, plain.split(",")):
        name, *rest = item.split(":")
        name = "gpus" if name == "gpu" else name
        found[name] = found.get(name, 0) + ((parse_number(rest[-1]) if rest else None) or 1)
    return found


def parse_licences(text: str) -> dict[str, int]:
    """Parse ``scontrol --oneliner show licenses``."""
    rows = (dict(word.partition("=")[::2] for word in line.split()) for line in text.splitlines())
    return {row["LicenseName"]: parse_number(row.get("Total", "")) or 0 for row in rows if row.get("LicenseName")}


def parse_time_limit(text: str | None) -> float | None:
    """Parse a time limit (sbatch(1): --time) to seconds; ``None`` for none."""
    days, dash, rest = (text or "").strip().rpartition("-")
    parts = rest.split(":")
    if not all(part.isdecimal() and len(part) < 10 for part in ([days] if dash else []) + parts) or len(parts) > 3:
        return None
    if not dash:
        return float(parts[0]) * 60 if len(parts) == 1 else parse_duration(rest)
    hours, minutes, seconds = (float(part) for part in (*parts, "0", "0")[:3])
    return ((float(days) * 24 + hours) * 60 + minutes) * 60 + seconds


def questions(ask: Callable[..., ProgramCall]) -> InventoryQuestions:
    """Return the questions; `ask` makes the call of a program with its words."""
    words = ("--noheader", "--all", "--exact", f"--format={NODE_FORMAT}")
    licences = ask("scontrol", "--oneliner", "show", "licenses")
    return InventoryQuestions(
        nodes=Question(ask("sinfo", *words), parse_nodes),
        offers=Question(ask("scontrol", "--oneliner", "show", "node"), parse_offers),
        licences=Question(licences, parse_licences),
        names={RESERVATION: Question(ask("scontrol", "--oneliner", "show", "reservation"), parse_reservations)},
        knows_resources=True,
        needs_partition=True,
        ignores_case=frozenset({"account", "QOS"}),
    )


def parse_reservations(text: str) -> tuple[str, ...]:
    """Parse ``scontrol --oneliner show reservation``, which says in words that there is none."""
    return tuple(re.findall(r"^ReservationName=(\S+)", text, re.MULTILINE))


def parse_offers(text: str) -> dict[str, HostOffer]:
    """Parse ``scontrol --oneliner show node``: nodes that keep processors or memory for themselves, as jobs see them.

    These are the nodes with ``CoreSpecCount`` or ``MemSpecLimit`` (slurm.conf(5)), which sinfo shows whole.
    """
    found: dict[str, HostOffer] = {}
    for line in text.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split())
        cpus, there, memory, kept = (
            parse_number(fields.get(name, "")) for name in ("CPUEfctv", "CPUTot", "RealMemory", "MemSpecLimit")
        )
        offer = HostOffer(
            cpus=cpus if cpus and cpus != there else None,
            memory_b=(memory - kept) * MIB if memory and kept and kept < memory else None,
        )
        if fields.get("NodeName") and offer != HostOffer():
            found[fields["NodeName"]] = offer
    return found


_LICENCE: Final = re.compile(r"LicenseName=([^\s@]+)")


def cluster_facts(text: str, licences: str = "") -> ClusterFacts:
    """Parse ``scontrol show config``, and ``scontrol --oneliner show licenses``, which also lists remote ones."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            values[name.strip().lower()] = value.strip()
    known = {name: "" if value in {"(null)", "N/A"} else value for name, value in values.items()}
    age = known.get("minjobage", "").split(" ")[0]
    array = known.get("maxarraysize", "")
    jobs = known.get("maxjobcount", "")
    return ClusterFacts(
        version=known.get("slurm_version", ""),
        name=known.get("clustername", ""),
        # The largest index is one less than the size (slurm.conf(5): MaxArraySize).
        max_array=None if (size := parse_number(array)) is None else max(1, size - 1),
        max_jobs=parse_number(jobs),
        min_job_age_s=None if (seconds := parse_number(age)) is None else float(seconds),
        accounting=bool(known.get("accountingstoragetype")) and not known["accountingstoragetype"].endswith("/none"),
        enforced=tuple(filter(None, known.get("accountingstorageenforce", "").removeprefix("none").split(","))),
        priority_parameters=known.get("priorityparameters") or known.get("priorityparams", ""),
        licences=tuple(dict.fromkeys([*_names_in(known.get("licenses", "")), *_LICENCE.findall(licences)])),
        gres=_names_in(known.get("grestypes", "")),
    )


def _names_in(text: str) -> tuple[str, ...]:
    return tuple(word.split(":")[0].split("@")[0].strip() for word in text.split(",") if word.strip())


_ALL_ALLOWED: Final = frozenset({"ALL", "(null)", "N/A", ""})


def parse_partitions(text: str) -> dict[str, PartitionState]:
    """Parse ``scontrol --oneliner show partition``."""
    found = {}
    for line in text.splitlines():
        limits = dict(word.partition("=")[::2] for word in line.split())
        if name := limits.get("PartitionName"):
            found[name] = PartitionState(
                name=name,
                state=limits.get("State", "unknown"),
                limit=limits.get("MaxTime", "unknown"),
                nodes=limits.get("TotalNodes", "unknown"),
                default=limits.get("Default") == "YES",
                accounts=_parse_allowed(limits.get("AllowAccounts", "")),
                qos=_parse_allowed(limits.get("AllowQos", "")),
                walltime_s=parse_time_limit(limits.get("MaxTime")),
                max_nodes=parse_number(limits.get("MaxNodes", "")),
                max_cpus=parse_number(limits.get("MaxCPUsPerNode", "")),
                max_memory_b=parse_size(f"{limits.get('MaxMemPerNode', '')}M"),
            )
    return found


def _parse_allowed(text: str) -> frozenset[str]:
    return frozenset() if text in _ALL_ALLOWED else frozenset(text.split(","))


# Accounts and QOS of slurmdbd.


_SHOW: Final = ("sacctmgr", "--noheader", "--parsable2", "show")
_ASSOCIATION_FIELDS: Final = "account,qos,maxjobs,maxsubmitjobs,maxwall"
_QOS_FIELDS: Final = "name,maxjobsperuser,maxsubmitjobsperuser,maxwall,flags"
_OVERRIDES: Final = {"PartitionTimeLimit": "walltime", "PartitionMaxNodes": "nodes"}
"""Flag of a QOS -> the limit of partitions that it replaces (sacctmgr(1))."""


def accounts_question(user: str, facts: ClusterFacts) -> Question[Sequence[Association]]:
    """Return the question for a user's associations."""
    who = (f"user={user}", *([f"cluster={facts.name}"] if facts.name else []))
    return Question(ProgramCall((*_SHOW, "associations", *who, f"format={_ASSOCIATION_FIELDS}")), parse_associations)


def qos_question() -> Question[Mapping[str, Qos]]:
    """Return the question for the QOS."""
    return Question(ProgramCall((*_SHOW, "qos", f"format={_QOS_FIELDS}")), parse_qos)


def parse_associations(text: str) -> list[Association]:
    """Parse ``sacctmgr show associations`` with `_ASSOCIATION_FIELDS`."""
    rows = (line.split("|") for line in text.splitlines())
    return [
        Association(
            account=row[0],
            qos=frozenset(filter(None, row[1].split(","))),
            max_jobs=row[2],
            max_submitted=row[3],
            max_time=row[4],
            walltime_s=parse_time_limit(row[4]),
        )
        for row in rows
        if len(row) == 5
    ]


def parse_qos(text: str) -> dict[str, Qos]:
    """Parse ``sacctmgr show qos`` with `_QOS_FIELDS`."""
    rows = (line.split("|") for line in text.splitlines())
    return {
        row[0]: Qos(
            name=row[0],
            max_jobs=row[1],
            max_submitted=row[2],
            max_time=row[3],
            walltime_s=parse_time_limit(row[3]),
            overrides=frozenset(_OVERRIDES[flag] for flag in row[4].split(",") if flag in _OVERRIDES),
        )
        for row in rows
        if len(row) == 5
    }


def parse_load(nodes: str, waiting: str) -> dict[str, float]:
    """Return processors and nodes in all, free and waited for.

    `nodes` is the answer of ``sinfo --format=%C|%F``, with numbers that are allocated, idle, other and in all;
    `waiting` that of ``squeue --states=PENDING --format=%C``.
    """
    found: dict[str, float] = {}
    line = next(iter(nodes.split()), "")
    for name, text in zip(("cpus", "nodes"), line.split("|"), strict=False):
        numbers = [parse_number(each) for each in text.split("/")]
        if len(numbers) == 4 and numbers[1] is not None and numbers[3] is not None:
            found |= {f"{name}_free": float(numbers[1]), f"{name}_total": float(numbers[3])}
    cpus = [parse_number(each) for each in waiting.split()]
    return found | {"cpus_waiting": float(sum(each or 0 for each in cpus))} if found else {}
