"""Makes the reference page of the configuration from its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.config.documented_keys import file_of

from longshore.config.schemas import configuration_schema
from longshore.services.batch.pilots.allocations import PilotSettings

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "doc" / "reference" / "configuration.md"
_FILES = {
    "defaults.yaml": "",
    "local/defaults.yaml": " (local service)",
    "htcondor/defaults.yaml": " (HTCondor)",
    "lsf/defaults.yaml": " (LSF)",
    "sge/defaults.yaml": " (Grid Engine)",
    "slurm/defaults.yaml": " (Slurm)",
    "lsst.yaml": " (quantum graphs only)",
}

_PILOT = PilotSettings()
_IMPLIED: dict[tuple[str, ...], str] = {
    ("payload", "wmsServiceClass"): '`"local"`; `"htcondor"` for quantum graphs',
    ("finalJob", "whenRun"): '`"ALWAYS"` (with a command)',
    ("pilot", "cpus"): f"`{_PILOT.cpus}`",
    ("pilot", "walltime"): f"`{_PILOT.walltime_s:.0f}`",
    ("pilot", "count"): f"`{_PILOT.count}`",
    ("pilot", "nodes"): f"`{_PILOT.nodes}`",
    ("pilot", "idle"): f"`{_PILOT.idle_s:.0f}`",
    ("pilot", "shortJob"): f"`{_PILOT.short_job_s:.0f}`",
    ("pilot", "lease"): f"`{_PILOT.lease_s:.0f}`",
}
"""Defaults that depend on another key or on the payload, or that no file of defaults has."""

_READ = {
    "directives": "string or array",
    "container": "string or array",
    "status": "object",
    "sbatch": "string or array",
    "bsub": "string or array",
}
"""Types of keys that are checked where they are read, with an example: the schema leaves them open."""

_HEAD = """# Configuration keys

<!-- Made by `python -m tests.generate` from the schema and the defaults; do not edit. -->

Every key that Longshore reads, with its sections and its default. Any other key is a variable of yours. `{name}` and
`${NAME}` in a value are replaced; see [your own commands](../how-to/run-your-own-commands.md). A key of a job is
searched in this sequence: the command line, `payload`, `cluster.LABEL`, `pipetask.LABEL`, `site.NAME`, `cloud.NAME`,
and the root. For editors, `longshore config schema` prints the same.
"""


OWN_PAGES = frozenset({"lsf", "sge", "slurm"})
"""Services whose keys have pages of their own."""


def page() -> str:
    """The text of the page."""
    schema = configuration_schema()
    defaults = {name: yaml.safe_load(file_of(name).read_text("utf-8")) or {} for name in _FILES}
    return "\n".join([_HEAD, *_sections(schema, defaults)]).rstrip() + "\n"


def _sections(schema: dict[str, Any], defaults: dict[str, Any]) -> Iterator[str]:
    definitions = schema["$defs"]
    titles = {
        "run": "Keys of a run: at the root or under `payload`",
        "payload": "Keys of the payload: under `payload` or at the root",
        "job": "Keys of jobs: in every section",
    }
    for name, title in titles.items():
        yield from _table(title, definitions[name].get("properties", {}), defaults, path=("payload",))
        for key, value in definitions[name].get("properties", {}).items():
            below, words = value.get("properties", {}), value["description"]
            if key in OWN_PAGES:
                continue
            yield from _table(f"Under `{key}`", below, defaults, path=(key,), words=words if below else "")
    for name, section in schema["properties"].items():
        own = dict(section.get("properties", {}))
        below = section.get("additionalProperties", {})
        if isinstance(below, dict) and "$ref" in below:
            # Properties of such a map are names, and their keys are those of any name.
            own = definitions[below["$ref"].rpartition("/")[2]].get("properties", {})
        where = f"{name}.NAME" if "additionalProperties" in section and below else name
        yield from _table(f"Under `{where}`", own, defaults, path=(name,), words=section.get("description", ""))


def _table(
    title: str, properties: dict[str, Any], defaults: dict[str, Any], *, path: tuple[str, ...], words: str = ""
) -> Iterator[str]:
    if not properties and not words:
        return
    yield f"## {title}\n"
    if words:
        yield f"{words}\n"
    if not properties:
        return
    yield "| key | type | default | |"
    yield "|---|---|---|---|"
    for key, value in properties.items():
        cells = (f"`{key}`", _type(value) or _READ[key], _default(key, defaults, path), value.get("description", ""))
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
    yield ""


def _type(value: dict[str, Any]) -> str:
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(filter(None, map(_type, value["anyOf"]))))
    if "enum" in value:
        return ", ".join(f"`{choice}`" for choice in value["enum"] if choice is not None)
    kinds = value.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(kind for kind in kinds if kind != "null")


def _default(key: str, defaults: dict[str, Any], path: tuple[str, ...]) -> str:
    if implied := _IMPLIED.get((*path, key)):
        return implied
    for file, note in _FILES.items():
        for place in (defaults[file], *(defaults[file].get(name) for name in path)):
            if isinstance(place, dict) and place.get(key) is not None and not isinstance(place[key], dict):
                return f"`{json.dumps(place[key])}`{note}"
    return ""
