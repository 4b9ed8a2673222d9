"""Matching of sites: requests, resource graphs, backends that search graphs, and algorithms of requirements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import msgspec

from longshore.model.values import YamlValue
from longshore.origin import Origin

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
