"""What reading a payload comes to: the stage `acquire`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from longshore.app.progress import Teller
from longshore.config.values.merge import Node
from longshore.model.tasks.task import TaskGraph


@dataclass(frozen=True, kw_only=True)
class AcquiredPayload:
    """What a payload comes to.

    Attributes
    ----------
    graph
        Its tasks.
    files
        The files it was read from.
    commands
        What its tasks run where the configuration does not say, per label; for sources that do not tell it with each
        task.
    made
        Names of files in the run directory that were made there before anything else of it, and are to stay.
    values
        What names stand for in commands of jobs, whatever the configuration says.
    """

    graph: TaskGraph
    files: tuple[Path, ...] = ()
    commands: Mapping[str, Node] = field(default_factory=dict)
    made: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


def tell_of_graph(path: Path, tell: Teller) -> None:
    """Say how to go on with a quantum graph that stays when something failed: it may have taken hours."""
    tell.note(f"the quantum graph stays, and '--qgraph {path}' takes it without making it again")
