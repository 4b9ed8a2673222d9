"""Writes the edges and barriers of a workflow as lines of a DAG, and ranks jobs for priorities."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from longshore.model.workflow import Barrier, find_barriers, number_jobs
from longshore.services.htcondor.codes import JOIN_NODE

if TYPE_CHECKING:
    from longshore.model.workflow import Workflow

NOOP_DESCRIPTION: Final = "d_none"
"""Submit description of nodes without a job."""
BARRIER_SCRIPT: Final = "gate"
"""The PRE script that waits until a group is over, successful or not."""
_MOST: Final = 500
"""Maximum of names in a line; a larger set of edges goes through a join node."""
_NOOP: Final = f"SUBMIT-DESCRIPTION {NOOP_DESCRIPTION} {{\n  executable = /bin/true\n}}\n"


class DagEdges(msgspec.Struct, frozen=True):
    """The order among jobs, by their numbers, without the final job."""

    parents: Sequence[tuple[int, ...]]
    """Parents per job."""
    barriers: Sequence[Barrier]
    """Barriers between groups of jobs that run one after another."""
    ordering_starts: Collection[int]
    """Indices of the barriers that follow the first group of an ordering."""
    ranks: Sequence[int]
    """Per job, the length of the longest chain below it; among ready jobs, the higher rank goes first."""

    @property
    def levels(self) -> int:
        """Number of ranks; a user's priority is multiplied by it, so that it outweighs ranks."""
        return max(self.ranks, default=0) + 1


def find_edges(workflow: Workflow) -> DagEdges:
    """The order among the jobs of a workflow."""
    parents = list(workflow.links())
    if workflow.final:
        parents.pop()
    index = {job.name: number for number, job in enumerate(workflow)} if workflow.orderings else {}
    barriers: list[Barrier] = []
    ordering_starts: set[int] = set()
    for each in workflow.orderings:
        ordering_starts.add(len(barriers))
        barriers += find_barriers([number_jobs(each, index)], parents)
    return DagEdges(parents, barriers, ordering_starts, _ranks(parents, barriers))


def has_barrier_scripts(workflow: Workflow) -> bool:
    """Whether a group starts when the one before is over, even if that failed."""
    return any(each.waits_for_ends for each in workflow.orderings)


def _ranks(parents: Sequence[Sequence[int]], barriers: Sequence[Barrier]) -> list[int]:
    ranks = [0] * len(parents)
    barriers_after: dict[int, list[Barrier]] = {}
    for barrier in barriers:
        for job in barrier.after:
            barriers_after.setdefault(job, []).append(barrier)
    # Jobs are sorted by barriers as well, so that the jobs behind one have their ranks already.
    barrier_ranks: dict[str, int] = {}
    for job in range(len(parents) - 1, -1, -1):
        for barrier in barriers_after.get(job, ()):
            if barrier.name not in barrier_ranks:
                barrier_ranks[barrier.name] = max([ranks[following] for following in barrier.before], default=-1) + 1
            ranks[job] = max(ranks[job], barrier_ranks[barrier.name])
        parent_rank = ranks[job] + 1
        for parent in parents[job]:
            if ranks[parent] < parent_rank:  # noqa: PLR1730 - max() takes three times as long, for every edge there is
                ranks[parent] = parent_rank
    return ranks


def edge_lines(dag_edges: DagEdges) -> Iterator[str]:
    """Lines ``PARENT ... CHILD ...``; jobs with equal parents share one, so that the text grows with the edges."""
    children: dict[tuple[int, ...], list[int]] = {}
    for job, before in enumerate(dag_edges.parents):
        if before:
            children.setdefault(before, []).append(job)
    yield "\n"
    joined = [
        (before, after)
        for before, after in children.items()
        if len(before) > 1 and len(after) > 1 and len(before) + len(after) > _MOST
    ]
    if joined or dag_edges.barriers:
        yield _NOOP
    for number, (before, after) in enumerate(joined):
        del children[before]
        yield from _join_lines(f"{JOIN_NODE}{number}", before, after)
    for position, barrier in enumerate(dag_edges.barriers):
        node = f"{JOIN_NODE}{position + len(joined)}"
        yield f"# {_comment(barrier.title)}\n"
        if barrier.blocking:
            yield from _join_lines(node, barrier.after, barrier.before)
        else:
            previous = "" if position in dag_edges.ordering_starts else f"{JOIN_NODE}{position - 1 + len(joined)}"
            yield from _barrier_lines(node, barrier.after, barrier.before, previous)
    for before, after in children.items():
        # One side is a single job, or both are short.
        for parents in _chunks(before):
            for some in _chunks(after):
                yield f"PARENT {parents} CHILD {some}\n"


def _join_lines(node: str, before: Sequence[int], after: Sequence[int]) -> Iterator[str]:
    """A join node without a job: two short lists of edges instead of their product."""
    yield f"JOB {node} {NOOP_DESCRIPTION} NOOP\n"
    yield from (f"PARENT {some} CHILD {node}\n" for some in _chunks(before))
    yield from (f"PARENT {node} CHILD {some}\n" for some in _chunks(after))


def _barrier_lines(node: str, before: Sequence[int], after: Sequence[int], previous: str) -> Iterator[str]:
    """A node whose PRE script waits until all jobs before it are over, even if one failed.

    An edge would prune it then. Each gate of an ordering is a child of the one before, so that at most one script per
    ordering waits: DAGMan limits their number.
    """
    yield f"JOB {node} {NOOP_DESCRIPTION} NOOP\n"
    yield from (f'VARS {node} after{number}="{some}"\n' for number, some in enumerate(_chunks(before)))
    yield f"SCRIPT PRE {node} {BARRIER_SCRIPT} {node}\n"
    if previous:
        yield f"PARENT {previous} CHILD {node}\n"
    yield from (f"PARENT {node} CHILD {some}\n" for some in _chunks(after))


def _comment(text: str) -> str:
    return "".join(sign if sign.isprintable() else "_" for sign in text)


def _chunks(jobs: Sequence[int]) -> list[str]:
    if len(jobs) == 1:
        return [f"j{jobs[0]}"]
    if len(jobs) <= _MOST:
        return [" ".join([f"j{job}" for job in jobs])]
    return [" ".join([f"j{job}" for job in jobs[start : start + _MOST]]) for start in range(0, len(jobs), _MOST)]
