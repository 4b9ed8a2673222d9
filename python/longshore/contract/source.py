"""Sources of tasks: turn a user's payload into a graph of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from longshore.model.tasks.task import TaskGraph
from longshore.origin import Origin


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
