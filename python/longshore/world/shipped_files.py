"""Finds the files Longshore ships: in a wheel they lie inside the package, in a source tree beside it."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_IN_WHEEL = _PACKAGE / "_shipped"
_SHIPPED = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent.parent


def shipped(*parts: str) -> Path:
    """Path of a shipped file or folder, such as ``shipped("etc", "defaults.yaml")``."""
    return _SHIPPED.joinpath(*parts)
