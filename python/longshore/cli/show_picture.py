"""Writes pictures as JSON."""

from __future__ import annotations

from typing import Any

from longshore.cli.show_json import head
from longshore.model.picture import Picture


def picture_document(picture: Picture, *, as_of: float) -> dict[str, Any]:
    """Return a picture, as ``draw --json`` gives it."""
    return {
        **head("draw", as_of),
        "title": picture.title,
        "boxes": [
            {
                "name": box.name,
                "label": box.label,
                "jobs": box.jobs,
                "counts": {state.value: number for state, number in box.counts.items()},
                "here": box.here,
                "more": box.more,
            }
            for box in picture.boxes
        ],
        "arrows": [{"start": arrow.start, "end": arrow.end, "jobs": arrow.jobs} for arrow in picture.arrows],
    }
