"""Counts compared values by kind: equal, documented, unexplained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tests.bps.compare import Value
from tests.bps.documented import Files, find_row

PROPERTY: Final = "beside_bps"
"""Name of the counts among the properties that a test reports."""

_COLUMNS: Final = ("equal", "documented", "unexplained")


class Tally:
    """Numbers of values per kind and verdict."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def take(self, values: Iterable[Value], files: Files) -> list[Value]:
        """Count values, and return those that differ without a row of the page."""
        unexplained = []
        for value in values:
            row = None if value.is_equal else find_row(value, files)
            verdict = "equal" if value.is_equal else "documented" if row else "unexplained"
            self._counts[f"{value.kind}|{verdict}"] += 1
            if verdict == "unexplained":
                unexplained.append(value)
        return unexplained

    def counts(self) -> dict[str, int]:
        """The numbers, as one process hands them to another."""
        return dict(self._counts)


def table(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """Return the lines of a table of the sums; none if nothing was compared."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    kinds = sorted({key.partition("|")[0] for key in total})
    if not kinds:
        return []
    head = f"{'':16}" + "".join(f"{column:>13}" for column in _COLUMNS)
    return [
        head,
        *(f"{kind:16}" + "".join(f"{total[f'{kind}|{column}']:>13,}" for column in _COLUMNS) for kind in kinds),
    ]
