"""Changes of requests by users (``requestMemory=8G``); apart because most readers of a state know no units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from longshore.config.quantities import parse_count, parse_memory, parse_walltime
from longshore.errors import UsageError
from longshore.model.wording import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.workflow import Request


def _cpus(text: str, key: str) -> int:
    return parse_count(text, key, least=1)


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str, str], int | float]]]] = {
    "requestCpus": ("cpus", _cpus),
    "requestMemory": ("memory_b", parse_memory),
    "requestDisk": ("disk_b", parse_memory),
    "requestWalltime": ("walltime_s", parse_walltime),
}
_RETRIES: Final = "numberOfRetries"
_OTHERS: Final = "requestResources."
SETTABLE_KEYS: Final = (*_FIELDS, f"{_OTHERS}NAME", _RETRIES)
"""Keys that can be changed for jobs that have not started."""


def is_settable(key: str) -> bool:
    """Return whether a key can be changed for jobs that have not started."""
    return key in _FIELDS or key == _RETRIES or key.startswith(_OTHERS)


def change_request(request: Request, changes: Mapping[str, str]) -> Request:
    """Return a request with a user's changes: text per key, where 0 removes a limit, as in a configuration.

    Raises
    ------
    ConfigError
        A value is invalid for its key.
    UsageError
        A key cannot be changed.
    """
    fields: dict[str, int | float | None] = {}
    resources = dict(request.resources)
    for key, text in changes.items():
        if key in _FIELDS:
            field, read = _FIELDS[key]
            fields[field] = read(text, key) or None
        elif key.startswith(_OTHERS) and key != _OTHERS:
            resources[key.removeprefix(_OTHERS)] = parse_count(text, key)
        elif key == _RETRIES:
            parse_count(text, key)
        else:
            raise _unknown(key)
    asked = {name: amount for name, amount in resources.items() if amount}
    return msgspec.structs.replace(request, **fields, resources=asked)


def _unknown(key: str) -> UsageError:
    hint = f"{did_you_mean(key, SETTABLE_KEYS, likeness=NAME_LIKENESS)} {name_all(SETTABLE_KEYS)}".lstrip()
    return UsageError(f"'{key}' cannot be changed after a run was submitted", hint=hint)
