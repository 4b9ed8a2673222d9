"""Turns the events of a run into lines of JSON with the names of its jobs; see ``etc/schema/event.json``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from longshore.cli.show_json import SCHEMA_VERSION
from longshore.model.event import Event
from longshore.model.moment import timestamp
from longshore.model.request import Request

_NAMES: Final[Mapping[str, str]] = {
    "a": "attempt",
    "b": "batch",
    "exit": "exit_code",
    "rss_b": "peak_memory_b",
    "start": "started_at",
    "end": "ended_at",
    "why": "reason",
    "v": "journal_format",
    "id": "wms_id",
}
"""What a field of the journal is called in a document; others keep their names."""
_MOMENTS: Final = frozenset({"start", "end", "not_before"})
_OURS: Final = frozenset({"e", "n", "t", "j", "jobs", "at"})
_UNSAFE: Final = re.compile("[\x7f-\x9f\u2028\u2029]")

Namer = Callable[[int], tuple[str, str]]
"""Name and label of a job, by its index."""


def event_document(event: Event, mark: str, *, run: str, name_of: Namer) -> dict[str, Any]:
    """Return an event as ``events`` gives it.

    Parameters
    ----------
    event
        The event.
    mark
        What to go on from.
    run
        Id of the run.
    name_of
        Name and label of a job.
    """
    fields: dict[str, Any] = msgspec.to_builtins(event)
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "kind": "event",
        "run": run,
        "mark": mark,
        "at": timestamp(fields.get("t"), exact=True),
        "event": fields["e"],
    }
    if "j" in fields:
        document |= _named(fields["j"], name_of)
    if "jobs" in fields:
        document["jobs"] = None if fields["jobs"] is None else [_member(each, name_of) for each in fields["jobs"]]
    if fields.get("request") is not None:
        fields["request"] = request_document(msgspec.convert(fields["request"], Request))
    if fields.get("at") is not None:
        document["started_at"] = timestamp(fields["at"], exact=True)
    for key, value in fields.items():
        if key not in _OURS:
            document[_NAMES.get(key, key)] = timestamp(value, exact=True) if key in _MOMENTS else value
    return document


def request_document(request: Request) -> dict[str, Any]:
    """Return a request with all its members, those that ask for nothing as null."""
    return {
        "cpus": request.cpus,
        "memory_b": request.memory_b,
        "disk_b": request.disk_b,
        "walltime_s": request.walltime_s,
        "resources": dict(request.resources),
    }


def event_line(document: Mapping[str, Any]) -> str:
    """Return a document as one line that any terminal and any reader of lines can bear."""
    text = msgspec.json.encode(document).decode()
    return text if text.isascii() else _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _member(member: Any, name_of: Namer) -> dict[str, Any]:
    if isinstance(member, list | tuple):
        return {**_named(member[0], name_of), "attempt": member[1]}
    return _named(member, name_of)


def _named(job: int, name_of: Namer) -> dict[str, Any]:
    name, label = name_of(job)
    return {"job": name, "index": job, "label": label}
