"""Statistics as rows of a table: one per run, label and host."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Final, TextIO

from longshore.app.statistics.attempt_statistics import AttemptStatistics
from longshore.app.statistics.run_statistics import RunStatistics
from longshore.model.workflow.request import Request

_COUNTS: Final = ("jobs", "attempts", "succeeded", "unfinished", "retries")
_MEASURES: Final = ("wait_s", "run_s", "cpu_efficiency", "peak_memory_b", "memory_share")
_QUANTILES: Final = {"min": "least", "p50": "p50", "p95": "p95", "max": "most"}
COLUMNS: Final = (
    *("run", "name", "group", "key", *_COUNTS, "badput_attempts", "badput_s", "badput_core_s", "core_s", "cpu_s"),
    *("requested_cpus", "requested_memory_b", "requested_walltime_s"),
    *(f"{measure}_{part}" for measure in _MEASURES for part in ("known", "unknown", *_QUANTILES)),
    "unknown_run",
)
"""Names of the columns; `group` is run, label or host, and `key` the name of the label or host. Unknown is ``None``."""


def statistics_rows(run: RunStatistics) -> Iterator[tuple[object, ...]]:
    """Yield the rows of a run: its total, its labels, its hosts."""
    card, grouped = run.opened.card, run.grouped
    yield (card.id, card.name, "run", "", *_values(grouped.total))
    for label, statistics in grouped.labels.items():
        yield (card.id, card.name, "label", label, *_values(statistics, run.requests.get(label)))
    for host, statistics in grouped.hosts.items():
        yield (card.id, card.name, "host", host, *_values(statistics))


def write_csv(runs: Iterable[RunStatistics], file: TextIO) -> None:
    """Write the statistics of runs as comma-separated values with a header; unknown is empty."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for run in runs:
        writer.writerows(statistics_rows(run))


def _values(statistics: AttemptStatistics, request: Request | None = None) -> Iterator[object]:
    for name in _COUNTS:
        yield getattr(statistics, name)
    badput = statistics.badput
    yield from (badput.attempts, badput.known_run_s, badput.known_core_s)
    yield from (statistics.known_core_s, statistics.known_cpu_s)
    yield from (request.cpus, request.memory_b, request.walltime_s) if request else (None, None, None)
    for measure in _MEASURES:
        found = getattr(statistics, measure)
        yield from (found.known, found.unknown, *(getattr(found, field) for field in _QUANTILES.values()))
    yield statistics.unknown_run
