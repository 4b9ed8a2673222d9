"""Finds out which kind of payload a configuration names, and reads it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from longshore.app.configuration import Configuration
from longshore.errors import ConfigError, FilesError, PreparationError
from longshore.graph.wfformat import read_wfformat
from longshore.model.task import TaskGraph
from longshore.origin import Origin
from longshore.world.etc import shipped

_LSST: Final = ("pipelineYaml", "qgraphFile")
PAYLOAD_KEYS: Final = ("pipeline", "wfformat", *_LSST)
"""Every key that can name a payload."""
_REPLAY: Final = "programs/replay.py"


def acquire(configuration: Configuration) -> tuple[TaskGraph, tuple[Path, ...]]:
    """Make the task graph of the configuration's payload.

    Returns
    -------
    tuple
        The graph, and the files of the payload.

    Raises
    ------
    ConfigError
        There is no payload, or more than one.
    GraphError, FilesError
        The payload is wrong or cannot be read.
    """
    named = [key for key in (*SOURCES, *_LSST) if configuration.search(key)]
    if not named:
        raise ConfigError(
            "no payload is named",
            origin=Origin(str(configuration.path)),
            hint=f"Say what to run, for example: {next(iter(SOURCES))}: FILE",
        )
    if named[1:]:
        raise ConfigError(
            "more than one payload is named: " + " and ".join(f"'{key}'" for key in named),
            origin=configuration.origin(named[1]),
            hint="A run has one payload; take the others out.",
        )
    if named[0] in _LSST:
        raise PreparationError(
            f"'{named[0]}' names a payload of LSST's, and this version reads none",
            origin=configuration.origin(named[0]),
            hint=f"It reads {', '.join(SOURCES)}.",
        )
    return SOURCES[named[0]](configuration, named[0])


def payload_path(configuration: Configuration, key: str) -> Path:
    """Path of a file that a key names: seen from the current directory first, then from the user's file.

    Raises
    ------
    FilesError
        It is in neither place.
    """
    name = configuration.text(key)
    places = (Path(name), configuration.path.parent / name)
    for path in places:
        if path.is_file():
            return path
    looked = dict.fromkeys(path.absolute() for path in places)
    odd = next((path for path in looked if path.exists()), None)
    raise FilesError(
        f"'{key}' names the file '{name}', which is " + ("no file" if odd else "not there"),
        origin=configuration.origin(key),
        hint=f"'{odd}' is something else."
        if odd
        else "Looked for " + " and ".join(f"'{path}'" for path in looked) + ".",
    )


def _wfformat(configuration: Configuration, key: str) -> tuple[TaskGraph, tuple[Path, ...]]:
    path = payload_path(configuration, key)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise FilesError(f"'{path}' cannot be read: {error.strerror}", origin=configuration.origin(key)) from error
    settings = {
        **(configuration.search("replay") or {}),
        "python": sys.executable,
        # Filled in when a job starts, so that the run directory can be moved.
        "program": f"<ENV:LONGSHORE_JOB_RUN_DIR>/{_REPLAY}",
    }
    try:
        graph = read_wfformat(text, settings, Origin(str(path)))
    except ConfigError as error:
        error.origin = error.origin or configuration.origin("replay")
        raise
    programs = {**graph.programs, _REPLAY: shipped("bin", "replay.py").read_text("utf-8")}
    return msgspec.structs.replace(graph, programs=programs), (path,)


SOURCES: Final[dict[str, Callable[[Configuration, str], tuple[TaskGraph, tuple[Path, ...]]]]] = {"wfformat": _wfformat}
"""Reader per configuration key that names a payload."""
