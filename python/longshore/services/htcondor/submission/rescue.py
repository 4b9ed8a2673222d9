"""Writes a rescue file, with which DAGMan skips the nodes that succeeded, and reads nodes from a DAG."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from longshore.services.htcondor.node_names import FINAL_NODE
from longshore.services.htcondor.render.removal_status import NO_RETRY

_NOOP: Final = re.compile(r"^JOB\s+(\S+)\s.*\bNOOP\b", re.IGNORECASE)
_AFTER: Final = re.compile(r'^VARS\s+(\S+)\s+after\d+="([^"]*)"')
_RETRY: Final = re.compile(r"^RETRY\s+(\S+)\s+(\d{1,9})\b(?:\s+UNLESS-EXIT\s+(\d{1,9}))?", re.IGNORECASE)
_JOB: Final = re.compile(r"^j(\d{1,9})$")


def parse_retries(lines: Iterable[str], size: int) -> tuple[dict[int, int], dict[int, int]]:
    """Number of retries by DAGMan itself, for the jobs that have any: after all failures, and after removals alone.

    `size` is the number of jobs.
    """
    failures: dict[int, int] = {}
    removals: dict[int, int] = {}
    for line in lines:
        if retry := _RETRY.match(line):
            job = _JOB.match(retry[1])
            if job or retry[1] == FINAL_NODE:
                number = int(job[1]) if job else size - 1
                (removals if retry[3] == str(NO_RETRY) else failures)[number] = int(retry[2])
                # The later of two lines counts.
                (failures if retry[3] == str(NO_RETRY) else removals).pop(number, None)
    return failures, removals


def done_nodes(lines: Iterable[str], done: Collection[int]) -> Iterator[str]:
    """Names of the nodes to skip: jobs that are done, and joins behind only such nodes."""
    joins: dict[str, list[str]] = {}
    edges: list[tuple[list[str], list[str]]] = []
    for line in lines:
        if found := _NOOP.match(line):
            joins[found[1]] = []
        elif (found := _AFTER.match(line)) and found[1] in joins:
            # A gate lists in variables what it waits for; it has no edges to that.
            joins[found[1]] += found[2].split()
        elif line.startswith("PARENT"):
            before, _, behind = line.removeprefix("PARENT").partition(" CHILD ")
            edges.append((before.split(), behind.split()))
    for parents, children in edges:
        for child in children:
            if child in joins:
                joins[child] += parents
    yield from (f"j{job}" for job in sorted(done))
    yield from _done_joins(joins, done)


def _done_joins(joins: dict[str, list[str]], done: Collection[int]) -> Iterator[str]:
    is_join_done: dict[str, bool] = {}
    for first in joins:
        stack = [first]
        while stack:
            join = stack[-1]
            open_joins = [node for node in joins[join] if node in joins and node not in is_join_done]
            if open_joins:
                stack += open_joins
                continue
            stack.pop()
            is_join_done[join] = all(
                is_join_done[node] if node in joins else _is_done(node, done) for node in joins[join]
            )
    yield from (join for join, is_done in is_join_done.items() if is_done)


def _is_done(node: str, done: Collection[int]) -> bool:
    job = _JOB.match(node)
    return job is not None and int(job[1]) in done


def rescue_text(done: Iterable[str]) -> Iterator[str]:
    """The text of a rescue file with these nodes done."""
    yield "# Rescue DAG file\n# Rescue DAG version: 2.1.0\n#\n"
    yield from (f"DONE {node}\n" for node in done)
