"""Calls on files of which one kills the engine that makes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.engine.simulation import Crash


class DyingFiles:
    """Calls on files, of which the given one kills the engine, before or after it."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.calls = 0
        self._at = at
        self._after = after
        self.write = partial(self._call, os.write)
        self.fdatasync = partial(self._call, os.fdatasync)
        self.unlink = partial(self._call, os.unlink)

    def _call(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == self._at and not self._after:
            raise Crash
        result = call(*arguments, **named)
        if self.calls == self._at:
            raise Crash
        return result
