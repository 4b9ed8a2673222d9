"""What an engine needs to know of a run beside its workflow: written when the run is prepared, read by every life."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from longshore.contract.context import Context, RenderedFile, RunPaths
from longshore.errors import RunUnreadableError

PATH: Final = PurePosixPath("wms", "engine.json")


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of the engine of one run.

    Attributes
    ----------
    retries_on_lost
        Attempts after one that was lost.
    grace_s
        Seconds between asking a job to end and killing it.
    umask
        Permissions that files of the run lack; ``None`` leaves that to whoever starts an engine.
    executor
        The executor's own settings.
    """

    retries_on_lost: int = 1
    grace_s: float = 10.0
    umask: int | None = None
    executor: Mapping[str, Any] = msgspec.field(default_factory=dict)


def rendered(ctx: Context) -> RenderedFile:
    """The file of the settings."""
    settings = msgspec.convert(ctx.settings, EngineSettings)
    text = msgspec.json.format(msgspec.json.encode(settings, order="sorted"), indent=2).decode() + "\n"

    def chunks() -> Iterator[str]:
        yield text

    return RenderedFile(path=PATH, chunks=chunks)


def read(run: RunPaths) -> EngineSettings:
    """Read the settings of a run.

    Raises
    ------
    RunUnreadableError
        The file is missing or damaged.
    """
    path = run.root / PATH
    try:
        return msgspec.json.decode(path.read_bytes(), type=EngineSettings)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RunUnreadableError(f"'{path}' cannot be read: {error}") from error
