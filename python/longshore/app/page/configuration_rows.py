"""Rows of the recorded configuration of a run, with the place of each value and without secrets."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final

from longshore.app.page.page_data import ConfigurationRow
from longshore.app.runs.open_run import OpenRun
from longshore.app.submit.fingerprint import read_recorded_values
from longshore.config.merge import PACKAGED_LAYERS
from longshore.config.secrets import mask_secrets
from longshore.errors import RunUnreadableError
from longshore.model.values import YamlValue
from longshore.origin import Origin

_MAX_VALUE: Final = 2000
"""Characters of a value; longer ones are cut."""


def read_configuration_rows(opened: OpenRun) -> tuple[ConfigurationRow, ...]:
    """Read the configuration that the run was prepared with: values of users first, then those of packages.

    A run of another tool has none. Raises `RunUnreadableError` if it cannot be read.
    """
    import yaml

    path = opened.run.merged_config(opened.card.name)
    if not path.exists():
        return ()
    try:
        values = read_recorded_values(path, opened.run.origins)
    except yaml.YAMLError as error:
        raise RunUnreadableError(f"'{path}' is no YAML: {error}") from error
    rows = [_row(key, value, origin, opened.secrets) for key, (value, origin) in values.items()]
    return tuple(sorted(rows, key=lambda row: not row.is_own))


def _row(key: str, value: YamlValue, origin: Origin | None, secrets: Collection[str]) -> ConfigurationRow:
    layer = origin.layer if origin else ""
    return ConfigurationRow(
        key=key,
        value=_value_text(mask_secrets(key.rpartition(".")[2], value, secrets)),
        place=str(origin) if origin else "",
        layer=layer,
        is_own=layer not in PACKAGED_LAYERS,
    )


def _value_text(value: YamlValue) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 1]}…"
