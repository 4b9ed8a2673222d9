"""Works out what a payload is known by from run to run, so that what its jobs took is remembered for it alone."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from longshore.app.configuration import Configuration
from longshore.config.merge import PACKAGED

_FILES: Final = ("pipelineYaml", "wfformat", "qgraphFile", "graphFile")


def payload_identity(configuration: Configuration) -> str:
    """What a payload is known by.

    Two payloads may well have tasks of the same label that have nothing to do with each other. One that has a name is
    known by it, with its project and the name of the file that holds its pipeline, wherever that lies; one that has
    none, by the path of that file. A pipeline that stands in the user's own file is known by that.
    """
    named = next((text for key in _FILES if (text := configuration.text(key))), "")
    file, _, labels = named.partition("#")
    path = Path(file) if file else configuration.path
    origin = configuration.origin("payloadName")
    if origin is not None and origin.layer not in PACKAGED:
        words = [configuration.text("project"), configuration.text("payloadName"), path.name]
    else:
        # Without one it is called like the user's file, as many are.
        words = [configuration.text("project"), str(_found(path, configuration))]
    return "/".join([*words, labels] if labels else words)


def _found(path: Path, configuration: Configuration) -> Path:
    """Where a file lies that is looked for in the current directory first, and then beside the user's."""
    return (path if path.is_file() else configuration.path.parent / path).resolve()
