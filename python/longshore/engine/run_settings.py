"""Reads the settings of a run's engine, those of its newest submission; apart because the settings are pure."""

from __future__ import annotations

import msgspec

from longshore.contract.service import RunPaths
from longshore.engine.settings import SETTINGS_PATH, EngineSettings
from longshore.errors import DECODE_ERRORS, RunUnreadableError
from longshore.rundir.submissions import submission_paths


def read_settings(run: RunPaths) -> EngineSettings:
    """Read the settings of a run.

    Raises
    ------
    RunUnreadableError
        The file is missing or damaged.
    """
    path = submission_paths(run).root / SETTINGS_PATH
    if path.exists() and not path.is_file():
        # Opening a pipe would wait for a writer.
        raise RunUnreadableError(f"'{path}' cannot be read: it is not a regular file")
    try:
        return msgspec.json.decode(path.read_bytes(), type=EngineSettings)
    except (OSError, *DECODE_ERRORS) as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error
