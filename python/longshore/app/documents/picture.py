"""The document of ``draw``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from longshore.app.documents.document import Count, DatedDocument, DocumentEntry, Ordinal
from longshore.model.run.damage import Damage
from longshore.model.run.picture import Drawing
from longshore.model.run.states import JobState


class BoxEntry(DocumentEntry, frozen=True):
    """A label, a job, or the jobs of a label that are left out."""

    name: str
    """The label, or the name of the one job."""
    label: str
    """The label."""
    jobs: Ordinal
    """Number of jobs in the box."""
    counts: Mapping[JobState, Ordinal]
    """Number of jobs per state; empty if not known."""
    here: bool
    """Whether the box is the job that was asked for."""
    more: bool
    """Whether the box stands for jobs that are left out."""


class ArrowEntry(DocumentEntry, frozen=True):
    """An edge between two boxes."""

    start: Count
    """Index of the box that comes first."""
    end: Count
    """Index of the box that waits for it."""
    jobs: Ordinal
    """Number of pairs of jobs that the edge stands for."""


class DrawDocument(DatedDocument, frozen=True, kw_only=True):
    """A picture of a run or a configuration: `longshore draw --json`."""

    kind: Literal["draw"] = "draw"
    title: str
    """Title of the picture."""
    boxes: Sequence[BoxEntry]
    """The boxes."""
    arrows: Sequence[ArrowEntry]
    """The edges."""
    damage: Sequence[Damage]
    """Files and lines of the run directory that are not as they were written; empty if it is intact."""


def draw_document(picture: Drawing, *, as_of: float) -> DrawDocument:
    """Return a picture as ``draw --json`` prints it."""
    boxes = list(map(BoxEntry.from_record, picture.boxes))
    arrows = list(map(ArrowEntry.from_record, picture.arrows))
    return DrawDocument.from_record(picture, boxes=boxes, arrows=arrows, as_of=as_of)
