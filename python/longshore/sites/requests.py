"""What a site has of what a job asks: partitions, its inventory, and this machine in place of a cluster (pure)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, Required, TypedDict

import msgspec

from longshore.config.quantities import format_walltime, parse_memory, parse_walltime
from longshore.contract.service import Inventory, NodeGroup, PartitionState, Problem, Qos
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.wording import NAME_LIKENESS, count_noun, did_you_mean
from longshore.model.workflow import MIB, WHOLE_NODE_B, Allocation, JobSettings, NodeSize, Request, Workflow

# Converts what jobs ask of another workload manager to requests of this machine, as well as that goes (pure). What this
# machine does not have is left out, and what exceeds it is lowered. Such jobs run one at a time.


SINGLE: Final = "longshore-single"
"""Concurrency limit of converted jobs that run one at a time; its amount is 1."""
_ALIASES: Final = {"gpu": "gpus"}
"""Names of resources of other workload managers that have another name here."""
_QUEUE: Final = "queue"


def convert_to_local(
    settings: JobSettings, asked: Sequence[Allocation], capacity: Mapping[str, int]
) -> tuple[JobSettings, list[str]]:
    """Return the settings with a request that this machine can grant, and why jobs run one at a time."""
    alone: list[str] = []
    cpus = _within("cpus", sum(each.tasks * each.cpus_per_task for each in asked), capacity, alone)
    memory_b = _within("memory", _sum_over_nodes([each.memory_b for each in asked], asked), capacity, alone)
    disk_b = _within("disk", _sum_over_nodes([each.disk_b for each in asked], asked), capacity, alone)
    wanted: Counter[str] = Counter()
    for each in asked:
        for name, amount in each.resources.items():
            wanted[_ALIASES.get(name, name) if name not in capacity else name] += amount * (each.nodes or 1)
    resources: dict[str, int] = {}
    for name, amount in wanted.items():
        if not amount:
            continue
        if name not in capacity:
            alone.append(f"'{name}' is not a resource here")
        else:
            resources[name] = _within(name, amount, capacity, alone) or 0
    partitions = {name for each in asked for name in each.partitions} | {str(settings.attributes.get(_QUEUE) or "")}
    if named := sorted(partitions - {""}):
        alone.append(f"the partition '{named[0]}' has no counterpart")
    if any(each.features for each in asked):
        alone.append("features of nodes have no counterpart")
    request = Request(
        cpus=cpus or 1,
        memory_b=memory_b,
        disk_b=disk_b,
        walltime_s=settings.request.walltime_s,
        resources=resources,
    )
    attributes = {name: value for name, value in settings.attributes.items() if name != _QUEUE}
    if alone:
        limits = [str(attributes[key]) for key in ("concurrencyLimit",) if attributes.get(key)]
        attributes["concurrencyLimit"] = ",".join([*limits, SINGLE])
    return msgspec.structs.replace(settings, request=request, attributes=attributes, defaulted=()), alone


def _sum_over_nodes(amounts: Sequence[int | None], asked: Sequence[Allocation]) -> int | None:
    """Return an amount on all nodes of all components; ``None`` if none asks for it."""
    given = [amount * (each.nodes or 1) for amount, each in zip(amounts, asked, strict=True) if amount is not None]
    return min(sum(given), WHOLE_NODE_B) if given else None


def _within(name: str, amount: int | None, capacity: Mapping[str, int], alone: list[str]) -> int | None:
    """Return an amount, limited to the capacity where the resource is counted."""
    there = capacity.get(name)
    if amount is None or there is None or amount <= there:
        return None if amount == WHOLE_NODE_B and there is None else amount
    unit, suffix = (MIB, " MiB") if name in {"memory", "disk"} else (1, "")
    asked = "all" if amount == WHOLE_NODE_B else f"{amount // unit}{suffix}"
    alone.append(f"'{name}' is {asked}, and this machine has {there // unit}{suffix}")
    return there


# Chooses a partition or queue of a site's table ``partitions`` for a job (pure).


class PartitionRow(TypedDict, total=False):
    """A row of ``partitions``: the name of a partition, and what one job can have there.

    `cpus`, `memory`, `disk` and `resources` are those of one of its machines, `nodes` is the number of machines.
    """

    name: Required[str]
    nodes: int
    cpus: int
    memory: YamlValue
    disk: YamlValue
    walltime: YamlValue
    resources: Mapping[str, int]
    features: Sequence[str]
    account: str
    qos: str
    exclusive: bool


CPUS: Final = "cpus of a node"
"""Words for processors in `NoPartitionError.lacks`."""


class _Shortfall(NamedTuple):
    """What a partition lacks for a job: by which factor it is exceeded, and texts."""

    excess: float
    key: str
    asked: str
    there: str


class NoPartitionError(ConfigError):
    """No row holds a job; `lacks` names the amounts that the nearest one lacks."""

    lacks: tuple[str, ...] = ()


def choose_partition(rows: Sequence[PartitionRow], asked: Allocation) -> PartitionRow | None:
    """Return the first row that holds a job; ``None`` without a table, or for a partition that it does not have.

    Rows may share a name: a partition has other limits with another QOS.

    A job that names partitions gets a row of one of them. A partition with a resource that the job does not ask for,
    such as gpus, is avoided while another one fits. Resources that no row has are not judged, as they may be licences.

    Raises `NoPartitionError` when no row holds the job: it names the nearest row, and what is missing.
    """
    named = [row for row in rows if not asked.partitions or row["name"] in asked.partitions]
    known = {"gpus"} | {name for row in rows for name in row.get("resources") or {}}
    resources = {name: amount for name, amount in asked.resources.items() if name in known}
    judged = [(row, [*_find_shortfalls(row, asked, resources)]) for row in named]
    fitting = [row for row, missing in judged if not missing]
    plain = [row for row in fitting if not (set(row.get("resources") or {}) - set(asked.resources))]
    if fitting or not named or not set(asked.partitions) <= {row["name"] for row in named}:
        return next(iter(plain or fitting), None)
    nearest, missing = min(judged, key=lambda item: sum(each.excess for each in item[1]))
    lacks = ", ".join(f"{each.key} ({each.asked} asked, {each.there} there)" for each in missing)
    subject = "its partition does not hold it" if asked.partitions else "no partition of the site holds it"
    error = NoPartitionError(
        f"{subject}: the nearest, '{nearest['name']}', lacks {lacks}",
        hint="Ask for less, or choose another site. 'partitions' of the site says what each partition has.",
    )
    error.lacks = tuple(each.key for each in missing)
    raise error


_NOTHING: Final = 1e6
"""Excess over something that a partition does not have at all."""


def _find_shortfalls(row: PartitionRow, asked: Allocation, resources: Mapping[str, int]) -> Iterator[_Shortfall]:
    """Find what a partition lacks for a job with these resources."""
    memory, disk, longest = row.get("memory"), row.get("disk"), row.get("walltime")
    longest_s = None if longest is None else parse_walltime(longest, "partitions.walltime")
    # A job for whole nodes has the memory that there is.
    memory_b = None if asked.memory_b == WHOLE_NODE_B else asked.memory_b
    amounts: list[tuple[str, float | None, float | None, Callable[[float], str]]] = [
        (CPUS, asked.cpus_per_node, row.get("cpus"), _number),
        ("nodes", asked.least_nodes(row.get("cpus")), row.get("nodes"), _number),
        ("memory", memory_b, None if memory is None else parse_memory(memory, "partitions.memory"), _mebibytes),
        ("disk", asked.disk_b, None if disk is None else parse_memory(disk, "partitions.disk"), _mebibytes),
        ("walltime", asked.walltime_s, longest_s, format_walltime),
        *((name, wanted, (row.get("resources") or {}).get(name) or 0, _number) for name, wanted in resources.items()),
    ]
    for key, wanted, there, text in amounts:
        if wanted is not None and there is not None and wanted > there:
            yield _Shortfall(wanted / there if there else _NOTHING, key, text(wanted), text(there))
    if features := row.get("features"):
        for words in asked.features:
            if words.isdisjoint(features):
                yield _Shortfall(_NOTHING, "a feature", " or ".join(sorted(words)), ", ".join(features))


def _number(amount: float) -> str:
    return f"{amount:.0f}"


def _mebibytes(amount: float) -> str:
    return f"{amount / MIB:.0f} MiB"


def at_site(asked: Allocation, settings: Mapping[str, object], row: PartitionRow | None) -> Allocation:
    """Return what a job asks for with what its site gives: a partition, an account and a QOS."""
    queue = row["name"] if row else settings.get("queue")
    account = (row.get("account") if row else "") or settings.get("account")
    qos = (row.get("qos") if row else "") or settings.get("qos")
    return msgspec.structs.replace(
        asked,
        partitions=asked.partitions or ((str(queue),) if queue else ()),
        account=asked.account or str(account or ""),
        qos=asked.qos or ((str(qos),) if qos else ()),
    )


def find_node_size(
    asked: Allocation, rows: Sequence[PartitionRow], inventory: Inventory | None, capacity: Mapping[str, int] | None
) -> NodeSize:
    """Return the size of the largest node that a job may get, by what the cluster answers, else by the site's table.

    `asked` has the partition that its site gives it. `capacity` is that of the largest node of the cluster.
    """
    known = () if inventory is None else inventory.nodes or ()
    if known and inventory is not None:
        names = {each.name for each in _usable_partitions(asked, inventory)}
        groups = [each for each in known if not names or each.partition in ("", *names)] or known
        threads = [each.threads for each in groups if each.threads]
        memory = [each.memory_b for each in groups if each.memory_b]
        return NodeSize(
            cpus=max(each.cpus for each in groups),
            memory_b=max(memory) if len(memory) == len(groups) else None,
            threads=max(threads, default=None),
        )
    named = [row for row in rows if not asked.partitions or row["name"] in asked.partitions]
    written = [row["cpus"] for row in named if row.get("cpus")]
    if written and len(written) == len(named):
        sizes = [parse_memory(row["memory"], "partitions.memory") for row in named if row.get("memory") is not None]
        return NodeSize(cpus=max(written), memory_b=max(sizes) if len(sizes) == len(named) else None)
    return NodeSize(cpus=(capacity or {}).get("cpus"), memory_b=(capacity or {}).get("memory"))


# Finds what a cluster does not have of what a job asks, by the cluster's inventory (pure).


_NAME_PARTITION: Final = "Name one with 'queue', with 'partitions' of the site, or in the service's own map."
_SHOWN: Final = 8
"""Names in a hint."""
_MOST_HOSTS: Final = 10_000
"""Hosts that an expression is expanded to."""
_RANGE: Final = re.compile(r"^(.*?)\[([\d,-]+)\](.*)$", re.DOTALL)
"""Excess over something that a node does not have at all."""


class Unmet(NamedTuple):
    """Part of a request that a cluster cannot meet; one that is not fatal may be met later."""

    message: str
    hint: str = ""
    fatal: bool = True


class _Lack(NamedTuple):
    """What nodes lack for a job: by which factor it is exceeded, and texts."""

    excess: float
    what: str


def find_unmet_requests(asked: Allocation, inventory: Inventory) -> Iterator[Unmet]:
    """Find names that the cluster does not have, and amounts beyond every partition that the job may use.

    What the cluster did not answer is met.
    """
    owned = {name: amount for name, amount in asked.resources.items() if name in (inventory.licences or {})}
    if owned:
        # A requested resource is a licence where the cluster has one of that name.
        others = {name: amount for name, amount in asked.resources.items() if name not in owned}
        asked = msgspec.structs.replace(asked, resources=others, licences={**owned, **asked.licences})
    asked = _as_spelled(asked, inventory)
    unknown = [*_find_unknown_names(asked, inventory)]
    yield from unknown
    if any(each.fatal for each in unknown):
        return
    qos = [each for each in inventory.qos or () if each.name in asked.qos]
    yield from _find_exceeded_accounts(asked, inventory, qos)
    if inventory.needs_partition and inventory.partitions and not asked.partitions:
        # Below, such a job may use any.
        is_refused = not any(each.default for each in inventory.partitions)
        if is_refused:
            yield Unmet("the cluster has no default partition, and the job names none", _NAME_PARTITION)
            return
    partitions = _usable_partitions(asked, inventory)
    if not partitions:
        yield from _find_short_nodes(asked, None, inventory, "no node of the cluster")
        return
    found = [[*_find_in_partition(asked, partition, inventory, qos)] for partition in partitions]
    if all(any(each.fatal for each in unmet) for unmet in found):
        yield from min(found, key=len)
    elif all(found):
        yield found[0][0]


def _as_spelled(asked: Allocation, inventory: Inventory) -> Allocation:
    """Return a request with the account and the QOS as the cluster spells them."""
    accounts = [each.account for each in inventory.accounts or ()]
    qos = [each.name for each in inventory.qos or ()]
    return msgspec.structs.replace(
        asked,
        account=inventory.spelling("account", asked.account, accounts),
        qos=tuple(inventory.spelling("QOS", name, qos) for name in asked.qos),
    )


def unknown_name(kind: str, name: str, known: Iterable[str], *, whose: str = "the cluster") -> Unmet:
    """Return the finding for a name that the cluster does not have, with the nearest one that it has."""
    names = sorted(set(known))
    listed = ", ".join(names[:_SHOWN]) + (", and more" if len(names) > _SHOWN else "")
    hint = did_you_mean(name, names, likeness=NAME_LIKENESS)
    owner = whose[0].upper() + whose[1:]
    return Unmet(f"there is no {kind} '{name}'", f"{hint} {owner} has {listed or 'none at all'}.".strip())


# ----------------------------------------------------------------------------------------------------------- names


def _find_unknown_names(asked: Allocation, inventory: Inventory) -> Iterator[Unmet]:
    kinds: list[tuple[str, Iterable[str], Iterable[str] | None]] = [
        ("partition", asked.partitions, _names(inventory.partitions)),
        ("QOS", asked.qos, _names(inventory.qos)),
        ("licence", asked.licences, inventory.licences),
        # Where a workload manager has projects and no accounts, jobs are charged to them.
        ("project", filter(None, (asked.account,)), None if inventory.accounts else inventory.names.get("project")),
        *((kind, names, inventory.names.get(kind)) for kind, names in asked.names.items()),
    ]
    for kind, names, known in kinds:
        for name in names:
            if known is not None and name not in known:
                yield unknown_name(kind, name, known)
    for name, amount in asked.licences.items():
        there = (inventory.licences or {}).get(name)
        if there is not None and amount > there:
            yield Unmet(f"it asks for {amount} licences '{name}', and the cluster has {there}", "Ask for fewer.")
    yield from _find_unusable_account(asked, inventory)
    yield from _find_unknown_hosts(asked, inventory)
    yield from _find_unknown_features(asked, inventory)


def _names(items: Iterable[PartitionState | Qos] | None) -> frozenset[str] | None:
    return None if items is None else frozenset(each.name for each in items)


def _find_unusable_account(asked: Allocation, inventory: Inventory) -> Iterator[Unmet]:
    if inventory.accounts is None:
        return
    known = {each.account for each in inventory.accounts}
    if asked.account and asked.account not in known:
        other = unknown_name("account", asked.account, known, whose="this user")
        yield Unmet(f"this user may not charge the account '{asked.account}'", other.hint, inventory.is_enforced)
        return
    allowed = {name for each in inventory.accounts if asked.account in ("", each.account) for name in each.qos}
    for name in asked.qos:
        if allowed and name not in allowed and name in (_names(inventory.qos) or {name}):
            listed = ", ".join(sorted(allowed)[:_SHOWN])
            yield Unmet(f"this user may not use the QOS '{name}'", f"Allowed are {listed}.", inventory.is_enforced)


def _find_unknown_hosts(asked: Allocation, inventory: Inventory) -> Iterator[Unmet]:
    written = {name for group in inventory.nodes or () for name in group.names}
    if not written or not asked.hosts:
        return
    known = {host for expression in written for host in expand_hosts(expression)}
    for host in dict.fromkeys(host for expression in asked.hosts for host in expand_hosts(expression)):
        if host not in known:
            yield unknown_name("node", host, known)


def _find_unknown_features(asked: Allocation, inventory: Inventory) -> Iterator[Unmet]:
    if not inventory.nodes:
        return
    known = {feature for group in inventory.nodes for feature in group.features}
    for words in asked.features:
        if known.isdisjoint(words):
            yield unknown_name("feature", min(words), known)
    if inventory.knows_resources:
        counted = {name for group in inventory.nodes for name in group.resources}
        for name in asked.resources:
            if name not in counted:
                yield unknown_name("resource", name, counted)


def expand_hosts(expression: str) -> list[str]:
    """Return the host names of an expression such as ``n[1-3,07],login1``; at most some thousands."""
    return list(islice(_expand_hosts(expression), _MOST_HOSTS))


def _expand_hosts(expression: str) -> Iterator[str]:
    for part in re.split(r",(?![^\[]*\])", expression):
        if not (found := _RANGE.match(part.strip())):
            if part.strip():
                yield part.strip()
            continue
        before, spans, after = found.groups()
        for span in spans.split(","):
            first, dash, last = span.partition("-")
            if not first.isdecimal() or (dash and not last.isdecimal()) or len(last or first) > 9:
                continue
            for number in range(int(first), int(last or first) + 1):
                for rest in _expand_hosts(after) if after else ("",):
                    yield f"{before}{number:0{len(first)}}{rest}"


# --------------------------------------------------------------------------------------------------------- amounts


def _find_exceeded_accounts(asked: Allocation, inventory: Inventory, qos: list[Qos]) -> Iterator[Unmet]:
    """Find a run time beyond those of the QOS, else beyond that of the account: the QOS comes first."""
    limits = {f"the QOS '{each.name}'": each.walltime_s for each in qos if each.walltime_s is not None}
    if not limits and asked.account:
        accounts = [each for each in inventory.accounts or () if each.account == asked.account]
        longest = [each.walltime_s for each in accounts if each.walltime_s is not None]
        if longest and len(longest) == len(accounts):
            limits = {f"the account '{asked.account}'": max(longest)}
    for subject, limit in limits.items():
        if asked.walltime_s is not None and asked.walltime_s > limit:
            yield Unmet(
                _too_long(subject, asked.walltime_s, limit),
                "Lower 'requestWalltime', or choose another one.",
            )


def _usable_partitions(asked: Allocation, inventory: Inventory) -> list[PartitionState]:
    """Return the partitions that a job names, else the default one, else all."""
    every = list(inventory.partitions or ())
    if asked.partitions:
        return [each for each in every if each.name in asked.partitions]
    return [each for each in every if each.default] or every


def _find_in_partition(
    asked: Allocation, partition: PartitionState, inventory: Inventory, qos: list[Qos]
) -> Iterator[Unmet]:
    """Find what one partition does not give a job."""
    subject = f"the partition '{partition.name}'"
    if partition.state != "UP":
        state = partition.state.lower()
        yield Unmet(f"{subject} is {state}: jobs wait until that changes", "Choose another partition.", fatal=False)
    yield from find_untaken(asked, partition, inventory)
    freed = frozenset(name for each in qos for name in each.overrides)
    limit = partition.walltime_s
    if asked.walltime_s is not None and limit is not None and asked.walltime_s > limit and "walltime" not in freed:
        yield Unmet(
            _too_long(subject, asked.walltime_s, limit),
            "Lower 'requestWalltime', or choose another partition.",
        )
    memory = None if asked.memory_b == WHOLE_NODE_B else asked.memory_b
    for what, wanted, most in (
        ("nodes", asked.nodes, None if "nodes" in freed else partition.max_nodes),
        ("processors of a node", asked.cpus_per_node, partition.max_cpus),
    ):
        if wanted is not None and most is not None and wanted > most:
            yield Unmet(f"{subject} gives a job at most {most} {what}, and it asks for {wanted}", "Ask for less.")
    if memory is not None and partition.max_memory_b is not None and memory > partition.max_memory_b:
        limit_text = f"{partition.max_memory_b // MIB} MiB"
        yield Unmet(f"{subject} gives a job at most {limit_text}, and it asks for {memory // MIB} MiB", "Ask for less.")
    yield from _find_short_nodes(asked, partition, inventory, f"no node of {subject}")


def find_untaken(asked: Allocation, partition: PartitionState, inventory: Inventory) -> Iterator[Unmet]:
    """Find an account and QOS that a partition does not take."""
    subject = f"the partition '{partition.name}'"
    account = inventory.spelling("account", asked.account, partition.accounts)
    if account and partition.accounts and account not in partition.accounts:
        yield Unmet(f"{subject} does not take the account '{asked.account}'", _takes(partition.accounts))
    for name in asked.qos:
        if partition.qos and inventory.spelling("QOS", name, partition.qos) not in partition.qos:
            yield Unmet(f"{subject} does not take the QOS '{name}'", _takes(partition.qos))


def _takes(names: Iterable[str]) -> str:
    return f"It takes {', '.join(sorted(names)[:_SHOWN])}."


def _find_short_nodes(
    asked: Allocation, partition: PartitionState | None, inventory: Inventory, subject: str
) -> Iterator[Unmet]:
    """Find what nodes lack, by the group of nodes that lacks least; then whether there are enough of the others."""
    groups = [each for each in inventory.nodes or () if partition is None or each.partition in ("", partition.name)]
    if not groups:
        return
    lacks = [(group, [*_find_lacks(asked, group, knows_resources=inventory.knows_resources)]) for group in groups]
    fitting = [group for group, missing in lacks if not missing]
    if not fitting:
        _, missing = min(lacks, key=lambda pair: sum(each.excess for each in pair[1]))
        parts = "; ".join(each.what for each in missing)
        yield Unmet(f"{subject} holds it: {parts} in the nearest", "Ask for less, or choose another partition.")
        return
    wanted = asked.least_nodes(max(group.cpus for group in fitting))
    there = sum(group.count for group in fitting)
    if partition is not None and wanted > there:
        place = subject.removeprefix("no node of ")
        yield Unmet(
            f"it asks for {count_noun(wanted, 'node')}, and of {place} {count_noun(there, 'node')} would do",
            "Ask for fewer nodes, or choose another partition.",
        )


def _find_lacks(asked: Allocation, group: NodeGroup, *, knows_resources: bool) -> Iterator[_Lack]:
    memory = None if asked.memory_b == WHOLE_NODE_B else asked.memory_b
    amounts: list[tuple[str, int | None, int | None, bool]] = [
        ("processors", asked.cpus_per_node if asked.nodes else asked.cpus_per_task, group.cpus, False),
        ("memory", memory, group.memory_b, True),
        ("disk", asked.disk_b, group.disk_b, True),
        *(
            (f"'{name}'", amount, group.resources.get(name, 0 if knows_resources else None), False)
            for name, amount in asked.resources.items()
        ),
    ]
    for what, wanted, there, is_size in amounts:
        if wanted is not None and there is not None and wanted > there:
            yield _Lack(
                wanted / there if there else _NOTHING,
                f"{what} ({_amount(wanted, is_size=is_size)} asked, {_amount(there, is_size=is_size)} there)",
            )
    for words in asked.features:
        if group.features.isdisjoint(words):
            yield _Lack(_NOTHING, f"the feature {' or '.join(sorted(words))} (asked, not there)")


def _amount(value: int, *, is_size: bool) -> str:
    return f"{value // MIB} MiB" if is_size else str(value)


def _too_long(subject: str, asked_s: float, limit_s: float) -> str:
    return f"{subject} lets jobs run for {format_walltime(limit_s)}, and it asks for {format_walltime(asked_s)}"


# Notes priorities that have no effect.


def ignored_priorities(workflow: Workflow, service: str) -> Iterator[Problem]:
    """Note priorities that are no numbers, in one note for all jobs: the order of jobs goes by numbers only."""
    for settings in (job.settings for job in workflow.samples):
        if not settings.priority and settings.attributes.get("priority") not in {None, 0, "0"}:
            yield Problem(
                message=f"{service} ignores a 'priority' that is no number: {settings.attributes['priority']!r}",
                key="priority",
                fatal=False,
            )
            return
