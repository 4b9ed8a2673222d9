"""What other plug-ins compute: tasks of a payload, clusters, matches of sites, and the selection of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from longshore.errors import Origin
from longshore.model.tasks import ClusteredGraph, Task, TaskGraph
from longshore.model.values import YamlValue

# Sources of tasks: turn a user's payload into a graph of tasks.


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """Payload that a source reads.

    Attributes
    ----------
    name
        Name of the payload and of its graph.
    path
        The file that ``graphFile`` names, which is there; ``None`` where it names none.
    directory
        Absolute path of the directory that the run is submitted in.
    values
        The whole configuration, for sources with keys of their own.
    origin
        Where the source was named.
    """

    name: str
    path: Path | None = None
    directory: str
    values: Mapping[str, Any] = msgspec.field(default_factory=dict)
    origin: Origin | None = None


class Source(Protocol):
    """A kind of payload, chosen by ``graphSource``."""

    def __call__(self, payload: Payload, /) -> TaskGraph:
        """Return the tasks of a payload, their order and their files.

        Raises
        ------
        GraphError
            The payload is not one of this kind, or its graph is wrong.
        """


# Clustering algorithms: pack tasks into jobs.


class Start(StrEnum):
    """Tasks that determine the dimensions of a cluster; the others follow along the edges."""

    SOURCE = "source"
    SINK = "sink"


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    """Partition of the clusters of a rule.

    Attributes
    ----------
    dimensions
        Dimensions whose values are shared out among the parts.
    most_clusters
        Most clusters in all; ``None`` where `most_values` is given.
    most_values
        Most values of a part; ``None`` where `most_clusters` is given.
    """

    dimensions: tuple[str, ...]
    most_clusters: int | None = None
    most_values: int | None = None


class ClusterRule(msgspec.Struct, frozen=True, kw_only=True):
    """Rule of one section of ``cluster``: which tasks run together.

    Attributes
    ----------
    label
        Its name, which is the label of its clusters.
    tasks
        Labels of its tasks.
    dimensions
        Dimensions whose values the tasks of a cluster share; without any, there is one cluster.
    equal
        Dimensions that stand for another where a task does not have it, in the order of preference.
    template
        Name of a cluster, with dimensions in braces; empty where it is made of the label and the values.
    start
        Which of its tasks say where the others belong; ``None`` where each says so itself.
    partition
        How clusters are cut into parts, if they are.
    origin
        Where it was written.
    """

    label: str
    tasks: tuple[str, ...]
    dimensions: tuple[str, ...] = ()
    equal: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    template: str = ""
    start: Start | None = None
    partition: Partition | None = None
    origin: Origin | None = None


class ClusteringSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of clustering.

    Attributes
    ----------
    rules
        The sections of ``cluster`` that name tasks.
    name_template
        Name of a job of one task after its label, with dimensions in braces; empty where tasks keep their names.
    node_ids
        Whether names begin with the id that the source gave a task.
    target_s
        Wall time that jobs of many tasks should come to, in seconds.
    run_s
        Expected run time of a task in seconds; ``None`` where it is unknown.
    values
        The whole configuration, for algorithms with keys of their own.
    """

    rules: tuple[ClusterRule, ...] = ()
    name_template: str = ""
    node_ids: bool = True
    target_s: float = 600.0
    run_s: Callable[[Task], float | None] = lambda _task: None
    values: Mapping[str, Any] = msgspec.field(default_factory=dict)


class ClusteringAlgorithm(Protocol):
    """Clustering algorithm, chosen by ``clusterAlgorithm``."""

    def __call__(self, graph: TaskGraph, settings: ClusteringSettings, /) -> ClusteredGraph:
        """Return every task in exactly one cluster, with the order between clusters that follows.

        Raises
        ------
        GraphError
            The clusters would wait for each other, or a task lacks what it is to be grouped by.
        """


# Matching of sites: requests, resource graphs, backends that search graphs, and algorithms of requirements.


Metadata: TypeAlias = Mapping[str, Any]
"""Fields of a member of a subsystem, such as ``name`` and ``version`` of a package."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """Member that a subsystem must have, such as a package with a version in a range.

    Attributes
    ----------
    subsystem
        Name of the subsystem, such as ``software``.
    algorithm
        Name of the algorithm that checks it, such as ``range``.
    options
        Options of the algorithm.
    name
        Name of the member; empty for any.
    origin
        Where it was written.
    """

    subsystem: str
    algorithm: str
    options: Mapping[str, YamlValue]
    name: str = ""
    origin: Origin | None = None

    def describe(self) -> str:
        """Return the requirement as a phrase, such as ``software stack: version in 0.5.1..``."""
        subject = f"{self.subsystem} {self.name}".rstrip()
        options = ", ".join(f"{key} {value}" for key, value in self.options.items())
        return f"{subject} ({self.algorithm}{': ' if options else ''}{options})"


class ResourceNeed(msgspec.Struct, frozen=True, kw_only=True):
    """Amount of a type of resource, and what each of its members must have.

    Attributes
    ----------
    type
        Type of the vertices, such as ``node``; a ``slot`` is no vertex, but all that is below it, so many times.
    count
        Number of members.
    requires
        Requirements of each member.
    children
        What each member must contain.
    label
        Name of a slot, by which tasks refer to it.
    origin
        Where it was written.
    """

    type: str
    count: int = 1
    requires: tuple[Requirement, ...] = ()
    children: tuple[ResourceNeed, ...] = ()
    label: str = ""
    origin: Origin | None = None


class JobSpecification(msgspec.Struct, frozen=True, kw_only=True):
    """Request for resources of a site: a job specification, version 1.

    Attributes
    ----------
    groups
        What is needed at once.
    parameters
        Values for expressions of the selection (``attributes.parameter``).
    """

    groups: tuple[ResourceNeed, ...] = ()
    parameters: Mapping[str, float | str] = msgspec.field(default_factory=dict)


class Vertex(msgspec.Struct, frozen=True, kw_only=True):
    """One or more equal vertices of a resource graph.

    Attributes
    ----------
    type
        Type, such as ``cluster``, ``node`` or ``core``.
    count
        Number of equal vertices, each with a copy of all below it.
    size
        Amount of the resource that each of them stands for.
    subsystems
        Members of each subsystem that are attached to each of them.
    children
        The vertices that each of them contains.
    """

    type: str
    count: int = 1
    size: int = 1
    subsystems: Mapping[str, tuple[Metadata, ...]] = msgspec.field(default_factory=dict)
    children: tuple[Vertex, ...] = ()


class ResourceGraph(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of a site.

    Attributes
    ----------
    root
        The vertex that contains all others.
    totals
        Amount of each type in the whole graph.
    subsystems
        Names of all subsystems.
    """

    root: Vertex
    totals: Mapping[str, int]
    subsystems: frozenset[str] = frozenset()


class UnmetNeed(msgspec.Struct, frozen=True, kw_only=True):
    """Requirement that a site does not meet.

    Attributes
    ----------
    what
        The requirement, as a phrase.
    asked, nearest
        What is asked, and the nearest that the site has.
    """

    what: str
    asked: str
    nearest: str


class MatchAlgorithm(Protocol):
    """Algorithm of requirements, registered under ``longshore.site_match``."""

    def __call__(self, options: Mapping[str, YamlValue], metadata: Metadata | None, /) -> str | None:
        """Check a member of a subsystem.

        Parameters
        ----------
        options
            Options of the requirement.
        metadata
            The member's fields; ``None`` to check the options alone.

        Returns
        -------
        str or None
            ``None`` if the member meets the requirement, else the value that it has; empty for none.

        Raises
        ------
        ConfigError
            The options are wrong.
        """


class GraphBackend(Protocol):
    """Search of resource graphs, registered under ``longshore.site_graphs``."""

    def __call__(
        self, graph: ResourceGraph, request: JobSpecification, algorithms: Mapping[str, MatchAlgorithm], /
    ) -> tuple[UnmetNeed, ...]:
        """Return the needs of a request that a graph does not meet; none if it matches. Pure."""


# Selection of a site among those that match: candidates with their state, settings, and algorithms.


class SiteCandidate(msgspec.Struct, frozen=True, kw_only=True):
    """Site that matches.

    Attributes
    ----------
    name
        Name of the site.
    state
        Values of the site by name, such as ``nodes_free``; ``None`` if nothing is known of it.
    waits_s
        Times in seconds that the user's earlier jobs waited there.
    """

    name: str
    state: Mapping[str, float | str] | None = None
    waits_s: Sequence[float] = ()


class SelectionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a selection.

    Attributes
    ----------
    options
        All keys of ``siteSelection.select``.
    seed
        Seed of all chance.
    parameters
        Values of the request; the state of a site wins over them.
    """

    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    seed: int = 0
    parameters: Mapping[str, float | str] = msgspec.field(default_factory=dict)


class SiteSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a selection.

    Attributes
    ----------
    site
        The chosen site; ``None`` if none passed.
    steps
        What each step did, in order.
    warnings
        What may not be meant, such as a value that no site has.
    """

    site: str | None
    steps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class SelectionAlgorithm(Protocol):
    """Algorithm of selection, registered under ``longshore.site_selection``."""

    def __call__(self, candidates: Sequence[SiteCandidate], settings: SelectionSettings, /) -> SiteSelection:
        """Choose one of the candidates, which come in the order in which they were written. Pure.

        Raises
        ------
        ConfigError
            The options are wrong; an algorithm checks them also without candidates.
        """
