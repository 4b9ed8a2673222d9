"""Finds out which kind of payload a configuration names, and reads it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from longshore.app.configuration import Configuration
from longshore.app.payload import payload_path, read_file
from longshore.app.pipelines import inline_pipeline, pipeline_file
from longshore.config.merge import Node
from longshore.errors import ConfigError, PreparationError
from longshore.graph.wfformat import read_wfformat
from longshore.model.task import TaskGraph
from longshore.origin import Origin
from longshore.world.etc import shipped

_REPLAY: Final = "programs/replay.py"


@dataclass(frozen=True, kw_only=True)
class Acquired:
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
    """

    graph: TaskGraph
    files: tuple[Path, ...]
    commands: Mapping[str, Node] = field(default_factory=dict)


def acquire(configuration: Configuration) -> Acquired:
    """Read the configuration's payload.

    Raises
    ------
    ConfigError
        There is no payload, or more than one.
    GraphError, FilesError
        The payload is wrong or cannot be read.
    """
    named = sorted((key for key in PAYLOAD_KEYS if configuration.search(key)), key=partial(_place, configuration))
    if not named:
        raise ConfigError(
            "no payload is named",
            origin=Origin(str(configuration.path)),
            hint=f"Say what to run with one of the keys {', '.join(SOURCES)}, for example: pipelineYaml: FILE",
        )
    if named[1:]:
        raise ConfigError(
            "more than one payload is named: " + " and ".join(f"'{key}'" for key in named),
            origin=configuration.origin(named[1]),
            hint="A run has one payload; take the others out.",
        )
    if named[0] not in SOURCES:
        raise PreparationError(
            f"'{named[0]}' names a quantum graph of LSST's, and this version reads none",
            origin=configuration.origin(named[0]),
            hint=f"It reads {', '.join(SOURCES)}.",
        )
    return SOURCES[named[0]](configuration)


def _place(configuration: Configuration, key: str) -> tuple[str, int, int]:
    """What orders keys as a reader meets them."""
    origin = configuration.origin(key)
    return (origin.file, origin.line, origin.column) if origin else ("", 0, 0)


def _pipeline(configuration: Configuration) -> Acquired:
    pipeline, files = inline_pipeline(configuration)
    return Acquired(graph=pipeline.graph, files=files, commands=pipeline.commands)


def _pipeline_file(configuration: Configuration) -> Acquired:
    pipeline, files = pipeline_file(configuration)
    return Acquired(graph=pipeline.graph, files=files, commands=pipeline.commands)


def _wfformat(configuration: Configuration) -> Acquired:
    path = payload_path(configuration, "wfformat")
    settings = {
        **(configuration.search("replay") or {}),
        "python": sys.executable,
        # Filled in when a job starts, so that the run directory can be moved.
        "program": f"<ENV:LONGSHORE_JOB_RUN_DIR>/{_REPLAY}",
    }
    text = read_file(path, configuration.origin("wfformat"))
    try:
        graph = read_wfformat(text, settings, Origin(str(path)))
    except ConfigError as error:
        error.origin = error.origin or configuration.origin("replay")
        raise
    programs = {**graph.programs, _REPLAY: shipped("bin", "replay.py").read_text("utf-8")}
    return Acquired(graph=msgspec.structs.replace(graph, programs=programs), files=(path,))


SOURCES: Final[dict[str, Callable[[Configuration], Acquired]]] = {
    "pipeline": _pipeline,
    "pipelineYaml": _pipeline_file,
    "wfformat": _wfformat,
}
"""Reader per configuration key that names a payload."""
PAYLOAD_KEYS: Final = (*SOURCES, "qgraphFile")
"""Every key that can name a payload."""
