"""Finds and reads the files that a configuration names."""

from __future__ import annotations

from pathlib import Path

from longshore.app.configure.configuration import Configuration
from longshore.errors import FilesError
from longshore.origin import Origin


def payload_path(configuration: Configuration, key: str) -> Path:
    """Path of the file that a key names; see `find_file`."""
    return find_file(configuration, configuration.text(key), f"'{key}'", configuration.origin(key))


def find_file(
    configuration: Configuration, name: str, what: str, origin: Origin | None, *, beside: Path | None = None
) -> Path:
    """Path of a file that is named somewhere: seen from the current directory first, then from the user's file.

    Parameters
    ----------
    configuration
        Tells where the user's file is.
    name
        The name as it is written, its variables filled in.
    what, origin
        What names the file, and where.
    beside
        The folder that is looked into in place of that of the user's file.

    Raises
    ------
    FilesError
        It is in neither place.
    """
    places = (Path(name), (beside or configuration.path.parent) / name)
    for path in places:
        if path.is_file():
            return path
    looked = dict.fromkeys(path.absolute() for path in places)
    odd = next((path for path in looked if path.exists()), None)
    raise FilesError(
        f"{what} names the file '{name}', which is " + ("no file" if odd else "not there"),
        origin=origin,
        hint=f"'{odd}' is something else."
        if odd
        else "Looked for " + " and ".join(f"'{path}'" for path in looked) + ".",
    )


def read_file(path: Path, origin: Origin | None) -> bytes:
    """Content of a file.

    Raises
    ------
    FilesError
        It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise FilesError(f"'{path}' cannot be read: {error.strerror}", origin=origin) from error
