"""Attributes of a run for reports, and the identity of its payload."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from longshore.app.configure.configuration import Configuration
from longshore.config.merge import PACKAGED_LAYERS
from longshore.system.reading import can_see_file

_PAYLOAD_FILES: Final = ("pipelineYaml", "wfformat", "qgraphFile", "graphFile")
_RUN_ATTRIBUTES: Final = {
    "operator": "bps_operator",
    "project": "bps_project",
    "campaign": "bps_campaign",
    "payloadName": "bps_payload",
}


def run_attributes(configuration: Configuration) -> dict[str, str]:
    """Return BPS's attributes of the run for reports."""
    attributes = {name: configuration.text(key) for key, name in _RUN_ATTRIBUTES.items()}
    return {
        "bps_isjob": "True",
        **attributes,
        "bps_run": configuration.text("uniqProcName"),
        "bps_runsite": configuration.site,
    }


def payload_identity(configuration: Configuration) -> str:
    """Return the identity of a payload, which keys its run-time history.

    Unrelated payloads may have tasks of the same label. A named payload is identified by its name, its project and
    the name of its pipeline file, wherever that is; an unnamed one by the path of that file. A pipeline inside the
    user's file is identified by that file.
    """
    name = next((text for key in _PAYLOAD_FILES if (text := configuration.text(key))), "")
    file, _, labels = name.partition("#")
    path = Path(file) if file else configuration.path
    origin = configuration.origin("payloadName")
    if origin is not None and origin.layer not in PACKAGED_LAYERS:
        words = [configuration.text("project"), configuration.text("payloadName"), path.name]
    else:
        # An unnamed payload would have the name of the user's file, which many share.
        words = [configuration.text("project"), str(_absolute_path(path, configuration))]
    return "/".join([*words, labels] if labels else words)


def _absolute_path(path: Path, configuration: Configuration) -> Path:
    """Return the absolute path of a file, looked up in the current directory, then beside the user's file."""
    return (path if can_see_file(path) else configuration.path.parent / path).resolve()
