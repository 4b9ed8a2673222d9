"""Lookup and reading of files that a configuration names."""

from __future__ import annotations

from pathlib import Path

from longshore.app.configure.configuration import Configuration
from longshore.app.payload.locate_file import locate_file
from longshore.errors import FilesError, Origin
from longshore.system.reading import can_see


def find_payload_file(configuration: Configuration, key: str) -> Path:
    """Return the path of the file that a key names; see `find_file`."""
    return find_file(configuration, configuration.text(key), f"'{key}'", configuration.origin(key))


def find_file(
    configuration: Configuration, name: str, what: str, origin: Origin | None, *, folder: Path | None = None
) -> Path:
    """Return the path of a named file, looked up in the current directory, then beside the user's file.

    `name` has its variables replaced; `what` and `origin` name the file and its place in errors. `folder` replaces
    the folder of the user's file. Raises `FilesError` if the file is in neither folder.
    """
    folder = folder or configuration.path.parent
    if path := locate_file(name, folder):
        return path
    absolute_paths = dict.fromkeys(path.absolute() for path in (Path(name), folder / name))
    other = next((path for path in absolute_paths if can_see(path)), None)
    raise FilesError(
        f"{what} names the file '{name}', which " + ("is no regular file" if other else "does not exist"),
        origin=origin,
        hint=f"'{other}' is a directory or a device."
        if other
        else "Looked for " + " and ".join(f"'{path}'" for path in absolute_paths) + ".",
    )


def read_file(path: Path, origin: Origin | None) -> bytes:
    """Return the content of a file; raises `FilesError` if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise FilesError(f"'{path}' cannot be read: {error.strerror}", origin=origin) from error
