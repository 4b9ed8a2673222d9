"""What a prepared run was made from, so that whoever hands it over later can see whether that is still the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was."""

    path: str
    """Absolute, or relative to the run directory."""
    size: int
    mtime_ns: int
    sha256: str


class MadeFrom(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``made-from.json``."""

    v: int
    """Version of this file's format."""
    root: str
    """Where the run directory was made; paths in it may lead there."""
    folder: str
    """The current directory of whoever prepared it."""
    file: str
    """The user's file, as it was named there."""
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Values of named options of the command line, per key of ``bps_cmdline``."""
    sets: tuple[str, ...] = ()
    """``KEY=VALUE`` of the option ``--set``."""
    site: str = ""
    umask: int | None = None
    limits: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Ceilings of the site, as they were written, by name."""
    payload: tuple[Footprint, ...] = ()
    """Files beside the configuration: what the payload was read from, and templates of the site's own."""
    programs: tuple[Footprint, ...] = ()
    """Programs that jobs start."""
    own: tuple[Footprint, ...] = ()
    """What was written that all else goes by."""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """``submitting.json``: somebody began to hand the run over; it goes when that is done."""

    at: float
    """Seconds since the epoch (UTC)."""
    user: str
    host: str
