"""Location of the files Longshore ships: inside the package in a wheel, beside it in a source tree."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
_IN_WHEEL = _PACKAGE / "_shipped"
_SHIPPED = _IN_WHEEL if _IN_WHEEL.is_dir() else _PACKAGE.parent.parent


def shipped_path(*parts: str) -> Path:
    """Return the path of a shipped file or folder, such as ``shipped("etc", "defaults.yaml")``."""
    return _SHIPPED.joinpath(*parts)
