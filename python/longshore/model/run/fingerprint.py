"""The fingerprint of a prepared run's sources, to find changes between ``prepare`` and ``submit``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class FileFingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """Size, modification time and hash of a file, to detect a change."""

    path: str
    """Absolute, or relative to the run directory."""
    size: int
    mtime_ns: int
    sha256: str


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``made-from.json``: the sources of a prepared run."""

    v: int
    """Version of this file's format."""
    root: str
    """Original path of the run directory; paths in it may refer to it."""
    folder: str
    """Current directory of the ``prepare`` command."""
    file: str
    """The user's file, as named there."""
    options: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """Values of named options of the command line, per key of ``bps_cmdline``."""
    sets: tuple[str, ...] = ()
    """``KEY=VALUE`` of the option ``--set``."""
    site: str = ""
    umask: int | None = None
    limits: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Maximums of the site, as written, by name."""
    payload: tuple[FileFingerprint, ...] = ()
    """Files beside the configuration: sources of the payload, and the site's own templates."""
    programs: tuple[FileFingerprint, ...] = ()
    """Programs that jobs start."""
    own: tuple[FileFingerprint, ...] = ()
    """Files of the run directory; newer runs have them in their manifest."""


class SubmissionStart(msgspec.Struct, frozen=True, kw_only=True):
    """``submitting.json``: a submission has begun; removed when it is complete."""

    at: float
    """Seconds since the epoch (UTC)."""
    user: str
    host: str
