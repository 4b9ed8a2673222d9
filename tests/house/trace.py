"""Records the calls of a process within the package, for `tests.house.measure`; lies as ``sitecustomize`` on its path.

A line for each call: when, module, function, and the records of the package among its arguments. Processes here end
without Python's farewell, so lines are written often, and before ``os._exit``.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

_PREFIX = "longshore"
_AT_ONCE = 200
_lines: list[str] = []


def _flush() -> None:
    if _lines:
        text, _lines[:] = "".join(_lines), []
        with Path(os.environ["LONGSHORE_TRACE_CALLS"], str(os.getpid())).open("a", encoding="utf-8") as file:
            file.write(text)


def _record_names(values: Iterable[object]) -> set[str]:
    kinds = (type(value) for value in values)
    return {
        kind.__qualname__
        for kind in kinds
        if kind.__module__.startswith(_PREFIX)
        and (hasattr(kind, "__struct_fields__") or hasattr(kind, "__dataclass_fields__") or hasattr(kind, "_fields"))
    }


def _note(frame: FrameType, event: str, argument: Any) -> None:
    if event == "call":
        code = frame.f_code
        values: list[object] = [
            frame.f_locals.get(name) for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        ]
    elif event == "return":
        values = [argument]
    else:
        return
    module = frame.f_globals.get("__name__") or ""
    if not module.startswith(_PREFIX) or frame.f_code.co_qualname == "<module>":
        return
    names = _record_names(values)
    if event == "call" or names:
        _lines.append("\t".join([repr(time.time()), module, frame.f_code.co_qualname, *sorted(names)]) + "\n")
        if len(_lines) >= _AT_ONCE:
            _flush()


def _exit(status: int, really: Callable[[int], None] = os._exit) -> None:
    sys.setprofile(None)
    _flush()
    really(status)


if os.environ.get("LONGSHORE_TRACE_CALLS"):
    import atexit

    os._exit = _exit  # type: ignore[assignment]
    atexit.register(_flush)
    threading.setprofile(_note)
    sys.setprofile(_note)
