"""Location of a file that a configuration names: in the current directory, else in another folder."""

from __future__ import annotations

from pathlib import Path

from longshore.system.reading import can_see_file


def locate_file(name: str, folder: Path) -> Path | None:
    """Return the path of an existing file, looked up in the current directory, then in `folder`."""
    return next((path for path in (Path(name), folder / name) if can_see_file(path)), None) if name else None
