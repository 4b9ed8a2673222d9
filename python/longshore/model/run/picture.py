"""A graph small enough to look at, as ``longshore draw`` draws it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.model.run.damage import Damage
from longshore.model.run.states import JobState


class DrawingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a picture.

    Attributes
    ----------
    name
        The label, or the name of the one job.
    label
        The label.
    jobs
        Number of jobs it represents.
    counts
        Number of them per state; empty if unknown.
    here
        Whether it is the subject of the picture.
    more
        Whether it represents the nodes that are left out.
    """

    name: str
    label: str
    jobs: int = 1
    counts: Mapping[JobState, int] = msgspec.field(default_factory=dict)
    here: bool = False
    more: bool = False


class DrawingEdge(msgspec.Struct, frozen=True, kw_only=True):
    """An edge of a picture.

    Attributes
    ----------
    start, end
        Indices of the nodes; the end waits for the start.
    jobs
        Number of pairs of jobs it represents.
    """

    start: int
    end: int
    jobs: int = 1


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of a graph: boxes and arrows."""

    title: str
    boxes: tuple[DrawingNode, ...]
    arrows: tuple[DrawingEdge, ...]
    damage: tuple[Damage, ...] = ()
    """Damages of the run directory that were met."""
