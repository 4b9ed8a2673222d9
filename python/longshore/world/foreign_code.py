"""Imports modules that are not Longshore's.

Such code may leave work for the end of the interpreter, such as an open file with text in memory. So the program ends
as Python does if this module was imported, see `longshore.cli.start`.
"""

from __future__ import annotations

import importlib
import logging
import sys
from importlib.util import find_spec
from types import ModuleType

from longshore.origin import Origin


def import_foreign(name: str) -> ModuleType:
    """Import a module of a user or of a plug-in; raises what the import raises."""
    return importlib.import_module(name)


def import_named(name: str, what: str, origin: Origin | None) -> ModuleType:
    """Import a module that only a configuration names, and tell the user of it before its code runs.

    `what` is the value and `origin` its place; without any, the user was told before. Raises what the import raises.
    """
    if origin and name not in sys.modules and (spec := find_spec(name.partition(".")[0])) is not None:
        logging.getLogger("longshore").info("imports '%s' from '%s' for %s at %s", name, spec.origin, what, origin)
    return import_foreign(name)
