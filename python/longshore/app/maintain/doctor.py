"""``longshore doctor``: looks at the installation, the configuration, workload managers, runs and this machine.

Nothing is changed. To compare clocks, a file is made and removed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from longshore.app.maintain.check_installation import check_installation, check_plugins
from longshore.app.maintain.check_layers import check_layers
from longshore.app.maintain.check_machine import check_clocks, check_disks, check_folders, check_umask
from longshore.app.maintain.check_processes import check_processes, check_scratch
from longshore.app.maintain.check_runs import (
    check_engines,
    check_registry,
    unfinished_services,
    uses_service,
)
from longshore.app.maintain.check_services import service_checks
from longshore.app.maintain.diagnosis import Check, Diagnosis, run_checks
from longshore.world.host import working_directory
from longshore.world.runs.registry import RegistryContent, read_registry, state_folder

LIMIT_S: Final = 5.0
"""Seconds after which a check that has not ended is reported as such."""
_MOST_FOLDERS: Final = 100
"""Folders of runs whose file systems are looked at, those of the newest runs."""


def diagnose(*, limit_s: float = LIMIT_S) -> Iterator[Diagnosis]:
    """Look at everything that runs of this user need; yields results in the order of areas."""
    known = read_registry()
    folders = _folders(known)
    return run_checks(
        {
            "installation": check_installation,
            "installation:entry points": check_plugins,
            "configuration": check_layers,
            **_service_checks(known),
            "registry": partial(check_registry, known),
            "runs": partial(check_engines, known.entries),
            "processes": check_processes,
            "processes:temporary files": lambda: check_scratch(Path(gettempdir()), now=time.time()),
            "folders": partial(check_folders, os.environ),
            "disk": partial(check_disks, folders),
            "clock": partial(check_clocks, folders),
            "umask": check_umask,
        },
        limit_s=limit_s,
    )


def _service_checks(known: RegistryContent) -> dict[str, Check]:
    """Return a check per service; none if the current directory was removed, which another check tells."""
    if not working_directory():
        return {}
    return service_checks(unfinished_services(known.entries), partial(uses_service, known.entries))


def _folders(known: RegistryContent) -> list[Path]:
    newest = islice(reversed(known.entries), _MOST_FOLDERS)
    here = working_directory()
    # Another check tells of a current directory that was removed.
    places = [state_folder(), *([Path(here)] if here else ()), *(Path(entry.path).parent for entry in newest)]
    return list(dict.fromkeys(places))
