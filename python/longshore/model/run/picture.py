"""A graph small enough to look at: what `longshore draw` draws."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from longshore.model.run.state import JobState


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a picture.

    Attributes
    ----------
    name
        The label, or the name of the one job.
    label
        The label.
    jobs
        Number of jobs it stands for.
    counts
        Number of them per state; empty where that is not known.
    here
        Whether it is what the picture is about.
    more
        Whether it stands for those that are left out.
    """

    name: str
    label: str
    jobs: int = 1
    counts: Mapping[JobState, int] = msgspec.field(default_factory=dict)
    here: bool = False
    more: bool = False


class Arrow(msgspec.Struct, frozen=True, kw_only=True):
    """An edge of a picture.

    Attributes
    ----------
    start, end
        Indices of the nodes; the end waits for the start.
    jobs
        Number of pairs of jobs it stands for.
    """

    start: int
    end: int
    jobs: int = 1


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn."""

    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
