"""Imports modules that are not Longshore's.

Such code may leave work for the end of the interpreter, such as an open file with text in memory. So the program ends
as Python does if this module was imported, see `longshore.cli.start`.
"""

from __future__ import annotations

import importlib
from types import ModuleType


def import_foreign(name: str) -> ModuleType:
    """Import a module of a user or of a plug-in; raises what the import raises."""
    return importlib.import_module(name)
