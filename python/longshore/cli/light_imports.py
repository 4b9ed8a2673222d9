"""Imports libraries without modules that they seldom need, because imports take most of the time of a short command.

For example, click imports `inspect`, which imports `ast`, `dis` and `tokenize`, to indent the text of a command's help.
This saves 17 % of a short command such as ``longshore status``: 15 of 90 ms of a processor.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Final


def import_libraries() -> None:
    """Import the libraries that every command uses; each sees stand-ins for the modules that it seldom uses."""
    with _stand_ins(), _without_typing_extensions():
        for name in ("logging", "pathlib", "click", "msgspec"):
            import_module(name)


class _StandIn(ModuleType):
    """A module that is imported when one of its names is used. It stays in the libraries that imported it."""

    def __getattr__(self, name: str) -> Any:
        """Return a name of the real module."""
        if name.startswith("__"):
            # The import system itself asks whether this is a package.
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def _clean_text(text: str) -> str:
    """Do what `inspect.cleandoc` does."""
    if "\n" not in text:
        return text.expandtabs().lstrip()
    import inspect

    return inspect.cleandoc(text)


def _choose_number(singular: str, plural: str, number: int) -> str:
    return singular if number == 1 else plural


def _quote_from_bytes(*arguments: Any, **options: Any) -> str:
    from urllib.parse import quote_from_bytes

    return quote_from_bytes(*arguments, **options)


_POSTPONED: Final[Mapping[str, Mapping[str, Callable[..., str]]]] = {
    "gettext": {"gettext": str, "ngettext": _choose_number},
    "inspect": {"cleandoc": _clean_text},
    "ipaddress": {},
    "ntpath": {},
    "platform": {"system": lambda: os.uname().sysname},
    "textwrap": {},
    "traceback": {},
    "urllib.parse": {"quote_from_bytes": _quote_from_bytes},
}
"""Modules that click, logging, msgspec and pathlib import, with what these use at once.

Longshore has no translations, so click's texts are English as well.
"""


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Let `import` find the stand-ins; modules that are loaded already stay."""
    made = {name: _StandIn(name) for name in _POSTPONED if name not in sys.modules}
    for name, module in made.items():
        vars(module).update(_POSTPONED[name])
    sys.modules.update(made)
    try:
        yield
    finally:
        for name, module in made.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


@contextmanager
def _without_typing_extensions() -> Iterator[None]:
    """Let msgspec be without typing_extensions: from Python 3.11 on, `typing` has all names that it uses."""
    name = "typing_extensions"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
