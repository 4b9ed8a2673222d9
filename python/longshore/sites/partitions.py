"""Chooses a partition or queue of a site's table ``partitions`` for a job (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Required, TypedDict

from longshore.config.values.quantities import format_walltime, parse_memory, parse_walltime
from longshore.errors import ConfigError
from longshore.model.values import YamlValue
from longshore.model.workflow.allocation import WHOLE_NODE_B, Allocation
from longshore.model.workflow.request import MIB


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
