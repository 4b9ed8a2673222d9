"""What a kind of cases is: how its files are made, and which steps read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TypeAlias

ROOT = Path(__file__).resolve().parents[2]
LABELS = ("isr", "calibrate", "coadd", "a", "b")

Files: TypeAlias = dict[str, bytes]
"""Files of a case by name; the first is the one that is shrunk."""
Step: TypeAlias = Callable[[], object]
"""A call that reads a case; no error but Longshore's own may come out."""


class NotReadError(Exception):
    """The parser left nothing of a case."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of cases.

    `make` makes the files of a case by chance; the path is the folder of the run directories that cases of some kinds
    damage. `steps` are called in the folder of the case, which has its files. The first step is the parser: a
    case gets past it if no error comes out.
    """

    make: Callable[[Random, Path], Files]
    steps: Callable[[Files], Iterator[Step]]
    has_runs: bool = False
