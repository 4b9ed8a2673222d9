"""The command line, run with some arguments, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """What became of a command."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Its output, read as one JSON value."""
        return json.loads(self.stdout)

    @property
    def said(self) -> list[str]:
        """The lines of its errors, without those that tell what takes long: on a busy machine anything may."""
        return [line for line in self.stderr.splitlines() if not line.endswith(" ...")]


class Cli(Protocol):
    """Runs ``longshore`` with some arguments; what it prints and its exit status are the caller's to judge."""

    def __call__(
        self,
        *args: str | Path,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
        timeout: float = 120,
    ) -> CommandResult: ...
