"""Settings of a run's engine, as a file beside its workflow; apart because pure decisions name them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from longshore.contract.service import Context, RenderedFile

SETTINGS_PATH: Final = PurePosixPath("wms", "engine.json")


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of the engine of one run.

    Attributes
    ----------
    retries_on_lost
        Attempts after one that was lost.
    grace_s
        Seconds between asking a job to end and killing it.
    max_fast_failures, fast_failure_s
        Number of different jobs that may fail in a row on one host, each within so many seconds, before the run is
        paused; 0 is any number.
    umask
        Permissions that files of the run lack; ``None`` keeps the umask of the process that starts an engine.
    share_machine
        Whether the run's jobs share this machine with those of the user's other runs.
    concurrency_limits
        Most jobs of all of the user's runs at the site that may run at once, by the names of limits that jobs have.
    max_jobs
        Most jobs of the run that may run at once, by category.
    history
        Identity of the runtime history that estimates run times; empty where none is kept.
    executor
        The executor's own settings.
    """

    retries_on_lost: int = 1
    grace_s: float = 10.0
    max_fast_failures: int = 100
    fast_failure_s: float = 10.0
    umask: int | None = None
    share_machine: bool = False
    concurrency_limits: Mapping[str, int] = msgspec.field(default_factory=dict)
    max_jobs: Mapping[str, int] = msgspec.field(default_factory=dict)
    history: str = ""
    executor: Mapping[str, Any] = msgspec.field(default_factory=dict)


def render_settings(ctx: Context) -> RenderedFile:
    """Render the settings as a file of the run."""
    settings = msgspec.convert(ctx.settings, EngineSettings)
    text = msgspec.json.format(msgspec.json.encode(settings, order="sorted"), indent=2).decode() + "\n"
    return RenderedFile.from_text(SETTINGS_PATH, text)
