"""Collects figures for the table that `tests.bench.all` prints last.

A benchmark notes each figure of interest beside what it prints. Alone it only prints.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

VARIABLE: Final = "LONGSHORE_BENCH_FIGURES"
"""Environment variable that names the file to which figures are added."""
_HEAD: Final = ("work", "Longshore", "beside it")


def note_figure(work: str, here: str, beside: str = "") -> None:
    """Note a row of the table, if one is made.

    Parameters
    ----------
    work
        What was done, with its size.
    here
        What it took here, with units.
    beside
        What another program took in the same run, or what the machine allows.
    """
    if path := os.environ.get(VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps([work, here, beside]) + "\n")


def read_figures(path: Path) -> list[list[str]]:
    """Return the noted rows."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def table_lines(rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return [f"| {' | '.join(row)} |" for row in (_HEAD, ("---",) * len(_HEAD), *rows)]
