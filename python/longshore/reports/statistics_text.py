"""Statistics as text: tables in the width of a terminal, and rows of comma-separated values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple, TextIO

from longshore.model.measurements import Distribution
from longshore.model.report import format_brief_duration, format_core_time, format_size
from longshore.model.wording import count_noun
from longshore.model.workflow import Request
from longshore.reports.statistics import AttemptStatistics, RunStatistics
from longshore.reports.styled import Line, Span, TableColumn, cut_name, table_lines, table_width

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
    import csv

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


MAX_HOSTS: Final = 20
"""Hosts of a run that have a row of their own; programs get all."""
_GAP: Final = 2
_NAME_WIDTH: Final = 28
_USUAL_WIDTH: Final = 80
"""Width of a terminal from which on names take `_NAME_WIDTH` at most, and on narrower ones a share of the width."""
_HIGH_MEMORY: Final = 0.9
"""Share of the requested memory from which on the maximum is worth a look."""


class _Row(NamedTuple):
    name: str
    run: str
    statistics: AttemptStatistics
    memory_b: int | None = None


def statistics_lines(runs: Sequence[RunStatistics], width: int, *, has_unicode: bool = True) -> list[Line]:
    """Return the statistics of runs as lines: totals, then a table of counts, tables of measures, and one of hosts.

    `width` is that of the terminal; without `has_unicode`, a name is cut with three dots.
    """
    ellipsis = "…" if has_unicode else "..."
    lines = [line for run in runs for line in _headline(run)]
    name_width = _NAME_WIDTH if width >= _USUAL_WIDTH else max(width // 4, len("LABEL"))
    cut = partial(cut_name, width=name_width, ellipsis=ellipsis)
    rows = _label_rows(runs)
    names = _names("LABEL", rows, runs, cut)
    tables = [*_fit(names, [[each] for each in _count_columns(rows)], width), *_fit(names, _measures(rows), width)]
    hosts = list(_host_rows(runs))
    if hosts:
        tables += _fit(_names("HOST", hosts, runs, cut), _host_columns(hosts), width)
    lines += [line for columns in tables for line in ((), *table_lines(columns, _GAP))]
    lines += _folded_hosts(runs)
    notes = [note for run in runs for note in _notes(run, len(runs))]
    return [*lines, *([()] if notes else []), *((Span(note, "faint"),) for note in notes)]


def _headline(run: RunStatistics) -> Iterator[Line]:
    total, card = run.grouped.total, run.opened.card
    yield (Span(f"{card.id}  {card.name}", "strong"), Span(f"  on {card.service}"))
    badput = total.badput
    share = f" ({badput.core_s / total.core_s:.1%})" if badput.core_s and total.core_s else ""
    yield (
        Span(
            f"  {count_noun(total.jobs, 'job')}, {count_noun(total.attempts, 'attempt')}, "
            f"{total.retries} of them {'a retry' if total.retries == 1 else 'retries'}; "
            f"{_core_words(total)}{share}"
        ),
    )


def _core_words(total: AttemptStatistics) -> str:
    if total.known_core_s is None:
        return "unknown core time"
    badput_s = total.badput.known_core_s
    badput = "an unknown part" if badput_s is None else _core_time(badput_s)
    return f"{_core_time(total.known_core_s)} of core time, {badput} of it badput"


def _core_time(seconds: float | None) -> str:
    return format_core_time(seconds, is_brief=True)


def _label_rows(runs: Sequence[RunStatistics]) -> list[_Row]:
    labels = dict.fromkeys(label for run in runs for label in run.grouped.labels)
    several = len(labels) > 1
    rows = [_Row("TOTAL", run.opened.card.id, run.grouped.total) for run in runs if several]
    for label in labels:
        for run in runs:
            if (statistics := run.grouped.labels.get(label)) is not None:
                request = run.requests.get(label)
                rows.append(_Row(label, run.opened.card.id, statistics, request.memory_b if request else None))
    return rows


def _host_rows(runs: Sequence[RunStatistics]) -> Iterator[_Row]:
    for run in runs:
        hosts = sorted(run.grouped.hosts.items(), key=lambda item: (-item[1].attempts, item[0] or ""))
        for host, statistics in hosts[:MAX_HOSTS]:
            yield _Row("unknown" if host is None else host, run.opened.card.id, statistics)


def _folded_hosts(runs: Sequence[RunStatistics]) -> Iterator[Line]:
    for run in runs:
        if (more := len(run.grouped.hosts) - MAX_HOSTS) > 0:
            yield (Span(f"... {count_noun(more, 'more host')} of run {run.opened.card.id}: --json has all", "faint"),)


def _names(
    title: str, rows: Sequence[_Row], runs: Sequence[RunStatistics], cut: Callable[[str], str]
) -> list[TableColumn]:
    """Return the columns that name the rows; of several runs, each name is in its first row only."""
    names = ["" if number and rows[number - 1].name == row.name else cut(row.name) for number, row in enumerate(rows)]
    columns = [TableColumn(title, [(Span(name),) for name in names], left=True)]
    if len(runs) > 1:
        columns.append(TableColumn("RUN", [(Span(row.run),) for row in rows], left=True))
    return columns


def _count_columns(rows: Sequence[_Row]) -> list[TableColumn]:
    def column(title: str, cell: Callable[[AttemptStatistics], str], style: str = "") -> TableColumn:
        texts = [cell(row.statistics) for row in rows]
        return TableColumn(
            title, [(Span(text, style if text not in {"0", "0s", "unknown"} else "faint"),) for text in texts]
        )

    return [
        column("JOBS", lambda each: str(each.jobs)),
        column("ATTEMPTS", lambda each: str(each.attempts)),
        column("RETRIES", lambda each: str(each.retries), "warning"),
        column("BADPUT", lambda each: str(each.badput.attempts), "bad"),
        column("BADPUT TIME", lambda each: _core_time(each.badput.known_core_s), "bad"),
        column("CORE TIME", lambda each: _core_time(each.known_core_s)),
        column("CPU TIME", lambda each: _core_time(each.known_cpu_s)),
    ]


def _host_columns(rows: Sequence[_Row]) -> list[list[TableColumn]]:
    def column(title: str, measure: str, quantile: str, form: Callable[[float], str]) -> TableColumn:
        return TableColumn(title, [_cell(getattr(row.statistics, measure), quantile, form) for row in rows])

    run_times = [column(name, "run_s", name[-3:].lower(), format_brief_duration) for name in ("RUN P50", "P95")]
    return [
        *([each] for each in _count_columns(rows)),
        run_times,
        [column("CPU P50", "cpu_efficiency", "p50", _percent)],
    ]


def _measures(rows: Sequence[_Row]) -> list[list[TableColumn]]:
    """Return the columns of each measure: minimum, median, 95th percentile and maximum."""
    return [
        _measure_columns("WAIT", "wait_s", rows, format_brief_duration),
        _measure_columns("RUN", "run_s", rows, format_brief_duration),
        _measure_columns("CPU", "cpu_efficiency", rows, _percent),
        _memory_columns(rows),
    ]


def _fit(
    names: Sequence[TableColumn], groups: Iterable[Sequence[TableColumn]], width: int
) -> Iterator[list[TableColumn]]:
    """Yield tables with as many columns in each as fit; a group is divided only where it does not fit by itself."""
    table = list(names)
    for group in groups:
        is_narrow = table_width([*names, *group], _GAP) <= width
        for number, piece in enumerate([group] if is_narrow else [[column] for column in group]):
            is_full = len(table) > len(names) and table_width([*table, *piece], _GAP) > width
            if is_full:
                yield table
                table = list(names)
            # Behind others of its group, a column is named by its statistic alone.
            table += _with_measure(group, piece) if is_full and number else piece
    yield table


def _with_measure(group: Sequence[TableColumn], piece: Sequence[TableColumn]) -> list[TableColumn]:
    measure = group[0].title.partition(" ")[0]
    return [column._replace(title=f"{measure} {column.title}") for column in piece]


def _measure_columns(title: str, measure: str, rows: Sequence[_Row], form: Callable[[float], str]) -> list[TableColumn]:
    found = [getattr(row.statistics, measure) for row in rows]
    return [
        TableColumn(name, [_cell(each, quantile, form) for each in found])
        for name, quantile in ((f"{title} MIN", "least"), ("P50", "p50"), ("P95", "p95"), ("MAX", "most"))
    ]


def _memory_columns(rows: Sequence[_Row]) -> list[TableColumn]:
    columns = _measure_columns("MEMORY", "peak_memory_b", rows, lambda size: format_size(int(size)))
    styles = ["warning" if (row.statistics.memory_share.most or 0.0) >= _HIGH_MEMORY else "" for row in rows]
    maxima = [
        (Span(cell[0].text, style or cell[0].style),) for cell, style in zip(columns[-1].cells, styles, strict=True)
    ]
    requests = [(Span(format_size(row.memory_b) if row.memory_b else ""),) for row in rows]
    return [*columns[:-1], TableColumn("MAX", maxima), TableColumn("OF REQUEST", requests)]


def _cell(found: Distribution, quantile: str, form: Callable[[float], str]) -> Line:
    value = getattr(found, quantile)
    if value is not None:
        return (Span(form(value)),)
    # Without any attempt there is nothing that could be known.
    return (Span("unknown" if found.unknown else "-", "faint"),)


def _percent(share: float) -> str:
    return f"{share:.0%}"


_MEASURE_TITLES: Final = {
    "wait_s": "wait in the queue",
    "run_s": "run time",
    "cpu_efficiency": "processor time",
    "peak_memory_b": "peak memory",
}


def _notes(run: RunStatistics, runs: int) -> Iterator[str]:
    """Yield notes on what the tables lack: kept results, and values that are unknown of some attempts."""
    total = run.grouped.total
    where = f" of run {run.opened.card.id}" if runs > 1 else ""
    if run.kept:
        results = f"results of {count_noun(run.kept, 'job')} from another run"
        yield f"Kept{where}: {results}, which are not counted as attempts"
    parts = [
        f"{words} ({count_noun(count, 'attempt')})"
        for measure, words in _MEASURE_TITLES.items()
        if (count := getattr(total, measure).unknown) and getattr(total, measure).known
    ]
    if parts:
        yield f"Unknown{where}: {', '.join(parts)}"
    if total.unknown_run and total.known_core_s is not None:
        yield f"Core time{where} lacks {count_noun(total.unknown_run, 'attempt')} of unknown run time"
    if total.badput.unknown and total.badput.known_core_s is not None:
        yield f"Badput{where} lacks {count_noun(total.badput.unknown, 'attempt')} of unknown run time"
    if total.unfinished:
        yield f"Without an end{where}: {count_noun(total.unfinished, 'attempt')}, not counted above as run time"
