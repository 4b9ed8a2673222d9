"""Finds the mirror of a directory that another tool made, such as BPS, and brings it up to date."""

from __future__ import annotations

from pathlib import Path

from longshore.app.configure.service_lookup import find_service, service_names
from longshore.contract.capabilities import RunMirroring
from longshore.contract.context import RunPaths
from longshore.errors import FilesError, RunNotFoundError, UnknownServiceError
from longshore.world.runs.mirrors import mirror_of, read_mirror


def current_run(run: RunPaths) -> RunPaths:
    """Return the run directory of a path: itself, or the mirror of another tool's directory, up to date.

    A path that is neither is returned as it is.

    Raises
    ------
    RunNotFoundError
        The run is a mirror, and the mirrored directory is gone.
    RunUnreadableError
        The mirrored directory cannot be read.
    """
    if run.card.exists():
        mirror = read_mirror(run)
        return run if mirror is None else _refreshed(run, Path(mirror.directory))
    return mirror_directory(run.root) or run


def mirror_directory(folder: Path) -> RunPaths | None:
    """Return the mirror of a directory; ``None`` if no service knows the tool that made it."""
    if not folder.is_dir():
        return None
    for name in service_names():
        try:
            service = find_service(name)
        except UnknownServiceError:
            continue
        if isinstance(service, RunMirroring) and (found := service.mirror_run(folder)) is not None:
            return found
    return None


def _refreshed(run: RunPaths, folder: Path) -> RunPaths:
    try:
        found = mirror_directory(folder)
    except FilesError:
        # A full disk: what is known already can still be read.
        return run
    if found is None:
        raise RunNotFoundError(
            f"'{folder}' is no submit directory any more",
            hint="If it was moved, name it by its new path; if it was removed, no record of it is left.",
        )
    return mirror_of(folder)
