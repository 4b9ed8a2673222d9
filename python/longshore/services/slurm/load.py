"""What Slurm knows of its load, for the choice of a site."""

from __future__ import annotations

from longshore.batch.values import parse_number


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
