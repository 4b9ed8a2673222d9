"""Explains columns in a request that the jobs of a label have no value for."""

from __future__ import annotations

from collections.abc import Collection

from longshore.config.values.templates import column_names
from longshore.errors import ConfigError
from longshore.model.suggestions import did_you_mean
from longshore.origin import Origin


def refuse_unknown_columns(text: str, place: str, free: Collection[str], origin: Origin | None) -> None:
    """Refuse a request whose text still names a column after the interpolation: no job can have such an amount.

    `place` is the key with the section of the label, such as ``pipetask.sort.requestMemory``; `free` are the names
    with a value per job. Raises `ConfigError`, with the missing dimension or column.
    """
    for name in column_names(text):
        label, _, key = place.removeprefix("pipetask.").partition(".")
        base, _, column = name.partition(".")
        lacks = f"'{base}' has no column '{column}'" if base in free else f"the job has no dimension '{base}'"
        raise ConfigError(
            f"'{key}' of '{label}' uses '{{{name}}}', but {lacks}",
            origin=origin,
            hint=did_you_mean(name, [each for each in free if "." in each]) or f"Set '{place}'.",
        )
