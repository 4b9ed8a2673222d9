"""Services by class path that the user's own configuration named: a file per service in the state folder.

A run directory may name any class. Only classes that the user chose before are imported for it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from longshore.world.files.atomic import create_file
from longshore.world.files.folder import make_folders
from longshore.world.runs.registry import state_folder

_CLASS_PATH: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


def remember_service(name: str) -> None:
    """Record a class that the configuration of this user names as a service, if the state folder can be written."""
    if not _CLASS_PATH.fullmatch(name):
        return
    path = _record_path(name)
    with suppress(OSError):
        make_folders(path.parent)
        create_file(path, ())


def is_remembered_service(name: str) -> bool:
    """Whether this user's configuration named a class as a service."""
    if not _CLASS_PATH.fullmatch(name):
        return False
    try:
        return _record_path(name).lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _record_path(name: str) -> Path:
    return state_folder() / "services" / name
