"""Finds out which kind of payload a configuration names, and reads it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from longshore.app.acquired import Acquired
from longshore.app.begin import Begun
from longshore.app.configuration import Configuration
from longshore.app.lsst import is_lsst_pipeline
from longshore.app.payload import payload_path, read_file
from longshore.app.pipelines import inline_pipeline, pipeline_file
from longshore.app.quantumgraph import given_graph, made_graph
from longshore.app.teller import Teller
from longshore.errors import ConfigError
from longshore.graph.wfformat import read_wfformat
from longshore.origin import Origin
from longshore.world.etc import shipped

_REPLAY: Final = "programs/replay.py"
_PIPELINE: Final = "pipelineYaml"
_GRAPH: Final = "qgraphFile"


def acquire(begun: Begun, tell: Teller) -> Acquired:
    """Read the configuration's payload.

    Parameters
    ----------
    begun
        The run; a quantum graph is put into its directory.
    tell
        Takes notes and progress.

    Raises
    ------
    ConfigError
        There is no payload, or more than one.
    GraphCommandError
        What makes a quantum graph failed.
    GraphError, FilesError
        The payload is wrong or cannot be read.
    """
    configuration = begun.configuration
    named = sorted((key for key in SOURCES if configuration.search(key)), key=partial(_place, configuration))
    if set(named) == {_GRAPH, _PIPELINE}:
        # BPS's users name a graph on the command line, over the pipeline in their file.
        tell.note(f"'{_GRAPH}' is used as it is, and '{_PIPELINE}' not read")
        named = [_GRAPH]
    if not named and configuration.search("createQuantumGraph"):
        return made_graph(begun, tell)
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
    return SOURCES[named[0]](begun, tell)


def _place(configuration: Configuration, key: str) -> tuple[str, int, int]:
    """What orders keys as a reader meets them."""
    origin = configuration.origin(key)
    return (origin.file, origin.line, origin.column) if origin else ("", 0, 0)


def _pipeline(begun: Begun, _tell: Teller) -> Acquired:
    pipeline, files = inline_pipeline(begun.configuration)
    return Acquired(graph=pipeline.graph, files=files, commands=pipeline.commands)


def _pipeline_file(begun: Begun, tell: Teller) -> Acquired:
    configuration = begun.configuration
    if is_lsst_pipeline(configuration.text(_PIPELINE).partition("#")[0], configuration.path.parent):
        return made_graph(begun, tell)
    pipeline, files = pipeline_file(configuration)
    return Acquired(graph=pipeline.graph, files=files, commands=pipeline.commands)


def _wfformat(begun: Begun, _tell: Teller) -> Acquired:
    configuration = begun.configuration
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


SOURCES: Final[dict[str, Callable[[Begun, Teller], Acquired]]] = {
    "pipeline": _pipeline,
    _PIPELINE: _pipeline_file,
    "wfformat": _wfformat,
    _GRAPH: given_graph,
}
"""Reader per configuration key that names a payload."""
