"""Imports modules that are not Longshore's; apart, so that its presence tells that such code may have run.

Such code may leave work for the end of the interpreter, such as an open file with text in memory. So the program ends
as Python does if this module was imported, see `longshore.cli.start`. The reason of its notes is in decision 0065.
"""

from __future__ import annotations

import importlib
import logging
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from longshore.errors import Origin

import_foreign = importlib.import_module
"""Imports a module of a user or of a plug-in."""


def import_named(name: str, what: str, origin: Origin | None) -> ModuleType:
    """Import a module that only a configuration names, and tell the user of it before its code runs.

    `what` is the value and `origin` its place; without any, the user was told before. Raises what the import raises.
    """
    if origin and name not in sys.modules and (place := _locate(name)) is not None:
        logging.getLogger("longshore").info("imports '%s' from '%s' for %s at %s", name, place, what, origin)
    return import_foreign(name)


def _locate(name: str) -> Path | None:
    """Return the file whose code an import runs first, without running any; ``None`` if there is none."""
    top, *parts = name.split(".")
    spec = find_spec(top) if top else None
    if spec is None or spec.has_location:
        return Path(spec.origin) if spec and spec.origin else None
    # A package without a file of its own, such as `lsst`, whose parts lie in several folders.
    for folder in map(Path, spec.submodule_search_locations or ()):
        for end in range(1, len(parts) + 1):
            part = folder.joinpath(*parts[:end])
            for file in (part / "__init__.py", part.with_suffix(".py")):
                if file.is_file():
                    return file
    return None
