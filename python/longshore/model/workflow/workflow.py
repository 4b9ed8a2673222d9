"""The workflow of a run: jobs, their dependencies and files, an optional final job, and a networkx graph of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from longshore.errors import CycleError, GraphError
from longshore.model.tasks.dag import Dag, find_cycle, topological_order
from longshore.model.tasks.file import File
from longshore.model.tasks.task import Command
from longshore.model.workflow.collection_pause import collection_paused
from longshore.model.workflow.job import Job
from longshore.model.workflow.job_groups import Ordering, find_barriers, number_jobs

if TYPE_CHECKING:
    import networkx as nx


class Workflow:
    """Jobs in an order in which they may run, ready for any service.

    Parameters
    ----------
    name
        The run's name (BPS: ``uniqProcName``).
    dag
        The graph of the jobs, without the final one.
    final
        A job that runs after all others, whatever their outcome.
    files
        File per name, for every name in a job's inputs and outputs.
    attributes
        Attributes of the run as a whole, such as ``bps_operator``.
    orderings
        Groups of jobs that run one after another. They add no edges: the order of jobs respects them, and the code that
        renders or runs the workflow enforces them.
    log_folders
        Folder of a job's logs below the run's log folder, with dimensions in braces; empty for the default.

    Raises
    ------
    GraphError
        Two jobs share a name, an edge has an unknown end, or (as `CycleError`) there is a cycle; a cycle through an
        ordering names barriers among the jobs.
    """

    def __init__(
        self,
        name: str,
        dag: Dag[Job],
        *,
        final: Job | None = None,
        files: Mapping[str, File] | None = None,
        attributes: Mapping[str, str] | None = None,
        orderings: Sequence[Ordering] = (),
        log_folders: str = "",
    ) -> None:
        self._dag = dag
        if final and final.name in dag.index:
            raise GraphError(f"the final job and another are both named '{final.name}'")
        self.name = name
        self.final = final
        self.files: Mapping[str, File] = MappingProxyType(dict(files or {}))
        self.attributes: Mapping[str, str] = MappingProxyType(dict(attributes or {}))
        self.orderings = tuple(orderings)
        self.log_folders = log_folders
        self._order = _order_with_barriers(dag, self.orderings) if self.orderings else dag.order

    @cached_property
    def graph(self) -> nx.DiGraph[str]:
        """Frozen networkx graph of job names, made on first use; node attribute ``job`` is the job's record."""
        return _networkx_graph(self._dag, self._order)

    @cached_property
    def samples(self) -> tuple[Job, ...]:
        """The first job of each settings object: jobs of one profile share it, and checks of settings need no other."""
        found: dict[int, Job] = {}
        for job in self:
            found.setdefault(id(job.settings), job)
        return tuple(found.values())

    def __len__(self) -> int:
        return len(self._dag) + (self.final is not None)

    def __contains__(self, name: str) -> bool:
        """Whether the workflow has a job of that name."""
        return name in self._dag.index or (self.final is not None and name == self.final.name)

    def __iter__(self) -> Iterator[Job]:
        """Iterate over the jobs, parents first, the final job last."""
        return iter(self._jobs)

    @cached_property
    def _jobs(self) -> tuple[Job, ...]:
        # Kept, because a run with a million jobs is walked through many times before it is written.
        nodes = self._dag.nodes
        return (*[nodes[number] for number in self._order], *filter(None, [self.final]))

    def __getitem__(self, name: str) -> Job:
        """Return the job of that name, or raise `KeyError`."""
        if self.final and name == self.final.name:
            return self.final
        return self._dag[name]

    def get(self, name: str) -> Job | None:
        """Return the job of that name, or ``None``."""
        try:
            return self[name]
        except KeyError:
            return None

    def with_commands(self, change: Callable[[Command], Command]) -> Workflow:
        """Return the workflow with changed commands."""
        final = self.final and msgspec.structs.replace(self.final, command=change(self.final.command))
        return Workflow(
            self.name,
            self._dag.alike(msgspec.structs.replace(job, command=change(job.command)) for job in self._dag.nodes),
            final=final,
            files=self.files,
            attributes=self.attributes,
            orderings=self.orderings,
            log_folders=self.log_folders,
        )

    def with_files(self, files: Mapping[str, File]) -> Workflow:
        """Return the workflow with other files of the same names."""
        return Workflow(
            self.name,
            self._dag,
            final=self.final,
            files=files,
            attributes=self.attributes,
            orderings=self.orderings,
            log_folders=self.log_folders,
        )

    def parents(self, name: str) -> list[str]:
        """Names of a job's parents (none for the final job, which waits for all)."""
        dag = self._dag
        place = dag.index.get(name)
        return [] if place is None else [dag.nodes[parent].name for parent in dag.parents[place]]

    def links(self) -> Iterator[tuple[int, ...]]:
        """For each job in order, the numbers of its parents (none for the final job)."""
        rank = [0] * len(self._dag)
        for position, number in enumerate(self._order):
            rank[number] = position
        neighbours, starts = self._dag.parents.neighbours, self._dag.parents.starts
        for number in self._order:
            # As `parents[number]`, without a call.
            yield tuple([rank[parent] for parent in neighbours[starts[number] : starts[number + 1]]])
        if self.final:
            yield ()

    def quanta_counts(self) -> dict[str, int]:
        """Number of tasks per label, labels in the order their first task may run."""
        counts: dict[str, int] = {}
        for job in self:
            # Most jobs run tasks of one label, their own.
            for label, count in ((job.label, job.tasks),) if job.quanta == () else job.quanta or ():
                counts[label] = counts.get(label, 0) + count
        return counts

    def counts(self) -> dict[str, int]:
        """Number of jobs per label, labels in the order their first job may run."""
        return dict(Counter(job.label for job in self))


def _networkx_graph(dag: Dag[Job], order: Iterable[int]) -> nx.DiGraph[str]:
    """Frozen networkx graph of a dag, nodes in topological order."""
    import networkx as nx  # slow to import, and few commands need it

    graph: nx.DiGraph[str] = nx.DiGraph()
    # Building millions of small dictionaries with the collector on takes more than twice as long (measured: 14.8 s, not
    # 5.8 s, for a million jobs), and nothing in there is garbage.
    with collection_paused():
        nodes = dag.nodes
        graph.add_nodes_from((nodes[number].name, {"job": nodes[number]}) for number in order)
        graph.add_edges_from((nodes[parent].name, nodes[child].name) for parent, child in dag.edges())
    frozen: nx.DiGraph[str] = nx.freeze(graph)
    return frozen


def _order_with_barriers(dag: Dag[Job], orderings: Sequence[Ordering]) -> list[int]:
    """Topological order in which jobs of a group come before those of the next."""
    found = list(find_barriers([number_jobs(each, dag.index) for each in orderings], dag.parents))
    # Adjacency lists without barriers are shared with the graph.
    size = len(dag)
    parents: list[Sequence[int]] = [*dag.parents, *(barrier.after for barrier in found)]
    children: list[Sequence[int]] = [*dag.children, *(barrier.before for barrier in found)]
    for number, barrier in enumerate(found, size):
        for job in barrier.before:
            parents[job] = [*parents[job], number]
        for job in barrier.after:
            children[job] = [*children[job], number]
    order = topological_order(map(len, parents), children)
    if len(order) < len(parents):
        names = [*(job.name for job in dag.nodes), *(barrier.name for barrier in found)]
        raise CycleError([names[node] for node in find_cycle(parents, done=order)])
    return [node for node in order if node < size]
