"""Makes the page of a run: collects its data and renders it, for files, notebooks and the dashboard alike."""

from __future__ import annotations

import time

from longshore.app.page.collect import collect_page, page_of_report
from longshore.app.page.render import render_run_page
from longshore.app.runs.open_run import OpenRun
from longshore.model.run.report import RunReport
from longshore.model.workflow.collection_pause import collection_paused


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
