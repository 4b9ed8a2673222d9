"""What turns a user's payload into tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from longshore.model.task import TaskGraph
from longshore.origin import Origin


class Source(Protocol):
    """A kind of payload, chosen by the one configuration key that names it."""

    def __call__(self, text: bytes, settings: Mapping[str, Any], origin: Origin) -> TaskGraph:
        """Read a payload.

        Parameters
        ----------
        text
            Content of the file that the key names.
        settings
            The source's own map of the configuration.
        origin
            Where the file was named; its ``file`` is the payload's path.

        Raises
        ------
        GraphError
            The payload is not one of this kind, or its graph is wrong.
        """
