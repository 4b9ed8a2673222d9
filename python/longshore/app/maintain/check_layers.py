"""Checks of the configuration of this machine and user, which every run reads, and of site profiles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from longshore.app.configure.layers import FILE_NAME, read_base_layers
from longshore.app.configure.site_list import list_sites
from longshore.app.maintain.diagnosis import Diagnosis, DiagnosisState
from longshore.errors import ConfigError
from longshore.world.host import system_folders, user_folder
from longshore.world.read.yaml_includes import load_layers

_AREA: Final = "configuration"


def check_layers() -> Iterator[Diagnosis]:
    """Check each file of the configuration, the environment, and the profiles of all sites."""
    read, is_broken = [], False
    for path in _configuration_files():
        try:
            os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield _warning(f"'{path}' cannot be reached: {error.strerror}", "It is not read.")
            continue
        try:
            load_layers(path, env=os.environ)
        except ConfigError as error:
            is_broken = True
            place = f"{error.origin}: " if error.origin else ""
            message = f"{place}{error.message}"
            yield Diagnosis(area=_AREA, state=DiagnosisState.ERROR, message=message, hint=error.hint or "Correct it.")
            continue
        read.append(f"'{path}'")
    files = f"read after the defaults: {', '.join(read)}" if read else "no file of this machine or user is there"
    yield Diagnosis(area=_AREA, state=DiagnosisState.OK, message=files)
    if is_broken:
        return
    for finding in read_base_layers(os.environ)[2]:
        yield _warning(finding.message, finding.hint)
    yield from _check_sites()


def _configuration_files() -> list[Path]:
    folders = [*reversed(system_folders(os.environ)), user_folder(os.environ)]
    return [folder / FILE_NAME for folder in folders]


def _check_sites() -> Iterator[Diagnosis]:
    sites = list_sites(())
    broken = [site for site in sites if site.error]
    for site in broken:
        message = f"{site.origin}: the site '{site.name}' cannot be used: {site.error}"
        yield _warning(message, f"To see it: longshore site show {site.name}")
    yield Diagnosis(
        area=_AREA, state=DiagnosisState.OK, message=f"{len(sites) - len(broken)} of {len(sites)} sites can be used"
    )


def _warning(message: str, hint: str) -> Diagnosis:
    return Diagnosis(area=_AREA, state=DiagnosisState.WARNING, message=message, hint=hint)
