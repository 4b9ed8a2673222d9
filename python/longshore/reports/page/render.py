"""How the page of a run looks as HTML; the same data gives the same text."""

from __future__ import annotations

import base64
import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from longshore.config.plugins import shipped_path
from longshore.model.report import (
    Failure,
    RunReport,
    count_failed_jobs,
    failure_text,
    format_core_time,
    format_duration,
    format_size,
)
from longshore.model.states import JobState
from longshore.model.tasks import collection_paused
from longshore.model.wording import count_noun, format_moment, signal_name
from longshore.reports.page.content import LabelRow, RunPage, collect_page, count_failed_attempts, page_of_report
from longshore.reports.page.figures import (
    Palette,
    choose_colours,
    clean,
    count_ticks,
    describe_counts,
    draw_memory,
    draw_run_times,
    draw_share,
    draw_state_bar,
    run_time_limits,
    run_time_ticks,
    shown_states,
    tick_duration,
    time_ticks,
)
from longshore.reports.page.label_graph import MAX_NODES, draw_label_graph, fits_in_columns
from longshore.reports.page.timeline import draw_labels, draw_slots, time_range
from longshore.reports.statistics import AttemptStatistics
from longshore.reports.suggested_requests import LEAST_RUN_S
from longshore.runstate.open_run import OpenRun
from longshore.system.output_file import write_file
from longshore.system.reading import read_file

if TYPE_CHECKING:
    import jinja2


MAX_GROUPS: Final = 40
"""Groups of failures that are shown with the end of a log."""
MAX_LABELS: Final = 400
"""Labels whose histograms are drawn."""
MAX_LABEL_ROWS: Final = 1000
"""Labels in the table of labels."""
_COLUMNS_WIDTH: Final = 1230.0
"""Width of the widest graph whose layers are columns."""


def render_run_page(page: RunPage, *, home: str = "", poll_s: int = 0, is_cell: bool = False) -> str:
    """Return the page of a run as one HTML document that needs nothing else.

    With `is_cell` it has what a cell of a notebook shows: state, failures, labels and timeline. `home` is the address
    of the list of runs, and `poll_s` the seconds between two looks at its own address: both are for the dashboard, and
    a file has neither.
    """
    report = page.report
    return _render(
        "cell.html.j2" if is_cell else "run.html.j2",
        page=page,
        report=report,
        summary=report.summary,
        figures=_figures(page),
        groups=list(_failure_groups(page)),
        title=f"{report.name}: {report.state_word}",
        home=home,
        max_groups=MAX_GROUPS,
        max_labels=MAX_LABELS,
        poll_s=poll_s,
    )


def render_list_page(reports: Sequence[RunReport], notes: Sequence[str], *, poll_s: int) -> str:
    """Return the list of runs as one HTML document, in the order of the reports.

    `poll_s` are the seconds between two looks of the page at its own address.
    """
    return _render(
        "runs.html.j2",
        title="Runs",
        reports=reports,
        rows=[(report, draw_state_bar(f"bar-{number}", report.counts)) for number, report in enumerate(reports)],
        states=sorted(Counter(report.state_word for report in reports).items()),
        notes=notes,
        poll_s=poll_s,
    )


def shown_cpu_use(statistics: AttemptStatistics) -> float | None:
    """Return the median share of the requested processors that was used; ``None`` if it is unknown.

    More than was requested is shown of attempts of a second or more: clocks are too coarse for shorter ones.
    """
    use, run_s = statistics.cpu_efficiency.p50, statistics.run_s.p50
    return None if use is not None and use > 1.0 and (run_s is None or run_s < LEAST_RUN_S) else use


def content_policy(*, is_live: bool) -> str:
    """Return the content security policy of a page: its own style and script, and nothing from elsewhere."""
    script = base64.b64encode(hashlib.sha256(_asset("page.js").encode()).digest()).decode()
    connect = "'self'" if is_live else "'none'"
    return (
        f"default-src 'none'; script-src 'sha256-{script}'; style-src 'unsafe-inline'; connect-src {connect}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _render(template: str, *, poll_s: int = 0, **values: Any) -> str:
    text = (
        _environment()
        .get_template(template)
        .render(
            style=Markup(_asset("page.css")),  # noqa: S704 - shipped with the package
            script=Markup(_asset("page.js")),  # noqa: S704 - shipped with the package
            policy=content_policy(is_live=bool(poll_s)),
            poll_s=poll_s,
            **values,
        )
    )
    return f"{text.rstrip()}\n"


def _figures(page: RunPage) -> dict[str, Any]:
    """Return the figures of a page by name."""
    rows = page.labels[:MAX_LABELS]
    limits = run_time_limits([row.run_s for row in rows])
    return {
        "states": draw_state_bar("states", page.report.counts, "Jobs"),
        "label_states": _label_states(page.report.counts),
        "label_rows": [
            (row, draw_state_bar(f"bar-{number}", row.counts, row.name))
            for number, row in enumerate(_label_rows(page.labels))
        ],
        "graph": _graph(page),
        "run_times": [draw_run_times(f"time-{number}", row.name, row.run_s, limits) for number, row in enumerate(rows)],
        "time_ticks": run_time_ticks(limits),
        "memory": [
            draw_memory(f"memory-{number}", row.name, row.memory_b, row.requested_memory_b)
            for number, row in enumerate(rows)
        ],
        "badput": list(_badput_rows(page.labels)),
        **_timeline(page),
    }


def _badput_rows(rows: Iterable[LabelRow]) -> Iterator[tuple[LabelRow, float | None, Markup]]:
    """Yield the labels with failed attempts, the most badput first, with the share of their run time and its bar."""
    for number, row in enumerate(_waste(rows)):
        badput = row.statistics.badput.run_s
        whole = badput + (row.statistics.run_s.total or 0.0)
        bar = draw_share(f"badput-{number}", f"Badput of {row.name}", badput, whole)
        yield row, badput / whole if whole else None, bar


def _label_rows(rows: Sequence[LabelRow]) -> Sequence[LabelRow]:
    """Return the rows of labels that have room, in the order of the workflow; those with trouble first if not all."""
    if len(rows) <= MAX_LABEL_ROWS:
        return rows
    return sorted(rows, key=lambda row: not _has_trouble(row.counts))[:MAX_LABEL_ROWS]


def _graph(page: RunPage) -> Mapping[str, Markup] | None:
    """Return the graph of labels for wide and for narrow screens."""
    if page.drawing is None or not page.drawing.boxes or len(page.drawing.boxes) > MAX_NODES:
        return None
    has_columns = fits_in_columns(page.drawing, _COLUMNS_WIDTH)
    return {
        "wide": draw_label_graph("graph-wide", page.drawing, has_columns=has_columns),
        "narrow": draw_label_graph("graph-narrow", page.drawing, has_columns=False) if has_columns else Markup(""),
    }


def _timeline(page: RunPage) -> dict[str, Any]:
    spans = page.spans
    if spans is None or not len(spans):
        return {"slots": None, "area": None, "legend": ()}
    labels = [row.name for row in page.labels]
    busy = [0.0] * len(labels)
    for label, start, end in zip(spans.label_of, spans.started, spans.ended, strict=True):
        busy[label] += end - start
    palette = choose_colours(busy)
    area = draw_labels(spans, palette, labels)
    begin, seconds = time_range(spans)
    return {
        "slots": draw_slots(spans, palette, page.names, labels),
        "area": area.svg,
        "area_ticks": count_ticks(area.most),
        "time_axis": time_ticks(seconds),
        "begin": begin,
        "legend": _legend(palette, labels),
    }


def _legend(palette: Palette, labels: list[str]) -> list[tuple[str, str]]:
    shown = [(palette.class_of[label], labels[label]) for label in palette.shown]
    return [*shown, ("lx", "other labels")] if palette.has_others else shown


def _duration(seconds: float | None) -> str:
    """Return a duration, empty if unknown; many jobs take less than the tenth of a second that is shown elsewhere."""
    if seconds is not None and 0.0 < seconds < 0.995:
        return f"{seconds:.2f} s"
    return "" if seconds is None else format_duration(seconds)


def _failure_groups(page: RunPage) -> Iterator[tuple[Failure, str]]:
    """Yield each group of failures with how its jobs ended."""
    for failure in page.report.summary.failures if page.report.summary else ():
        yield failure, failure_text(failure.cause, failure.exit_code, failure.signal)


@cache
def _asset(name: str) -> str:
    return read_file(shipped_path("etc", "page", name)).decode()


@cache
def _environment() -> jinja2.Environment:
    # Imported late: it takes as long as all other modules of a command.
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        loader=jinja2.FunctionLoader(_asset),
    )
    environment.filters |= {
        "duration": _duration,
        "short": tick_duration,
        "size": lambda amount: "" if amount is None else format_size(round(amount)),
        "moment": format_moment,
        "noun": count_noun,
        "counts": describe_counts,
        "states": shown_states,
        "sum_states": lambda counts, states: sum(counts.get(state, 0) for state in states),
        "rule": lambda text, reason: text.removesuffix(f": {reason}"),
        "outcome": lambda failure: failure_text(failure.cause, failure.exit_code, failure.signal),
        "signal": signal_name,
        "core_time": format_core_time,
        "cpu_use": shown_cpu_use,
        "sort_key": _sort_key,
        "failed_jobs": lambda groups: count_failed_jobs(failure for failure, _ in groups),
        "failed_attempts": count_failed_attempts,
        "trouble": _has_trouble,
    }
    environment.globals["JobState"] = JobState
    return environment


def _finalize(value: object) -> object:
    """Clean every text before it is escaped."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _sort_key(value: float | None) -> Markup:
    """Return the attribute of a cell by which a table is sorted, with a blank before it; none if unknown."""
    return Markup("") if value is None else Markup(f' data-v="{value:.4g}"')  # noqa: S704 - a number


def _label_states(counts: Mapping[JobState, int]) -> list[tuple[str, list[JobState]]]:
    """Return the columns of states in the table of labels: usual ones, and others that occur, so that all add up."""
    usual = (JobState.SUCCEEDED, JobState.RUNNING, JobState.FAILED, JobState.PRUNED)
    waiting = [state for state in (JobState.UNREADY, JobState.READY, JobState.PENDING) if counts.get(state)]
    others = [state for state, _ in shown_states(counts) if state not in {*usual, *waiting}]
    columns = [(state.value.capitalize(), [state]) for state in (*usual, *others)]
    return [*columns, *([("Waiting", waiting)] if waiting else [])]


def _has_trouble(counts: Mapping[JobState, int]) -> bool:
    return any(counts.get(state) for state in (JobState.FAILED, JobState.HELD, JobState.UNKNOWN, JobState.DELETED))


def _waste(rows: Iterable[LabelRow]) -> list[LabelRow]:
    """Return the labels with failed attempts, the most badput first."""
    bad = [row for row in rows if row.statistics.badput.attempts]
    return sorted(bad, key=lambda row: -row.statistics.badput.run_s)


def make_run_page(
    run: OpenRun | RunReport, *, now: float | None = None, home: str = "", poll_s: int = 0, is_cell: bool = False
) -> str:
    """Return the page of a run, or of a report of a run on another host, as HTML.

    `now` is the time of the report, by default that of the clock; `render_run_page` has the other parameters.
    """
    as_of = time.time() if now is None else now
    with collection_paused():
        page = page_of_report(run, now=as_of) if isinstance(run, RunReport) else collect_page(run, now=as_of)
        return render_run_page(page, home=home, poll_s=poll_s, is_cell=is_cell)


def write_page(path: Path, text: str) -> None:
    """Write a page; a file that is there is replaced, and stays as it is if that fails.

    Raises
    ------
    FilesError
        The file cannot be written: its folder is missing, its file system is full, or something else is in the way.
    """
    write_file(path, (text.encode(),), example="report.html", to_stdout="--html -")
