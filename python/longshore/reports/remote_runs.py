"""Queries workload managers for runs, also of other hosts, and merges them with locally known runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from longshore.config.service_lookup import environment_service, queryable_services
from longshore.contract.service import RemoteRuns, RunPaths, RunSearch
from longshore.errors import LongshoreError, RunNotFoundError, RunUnreadableError, ServiceError
from longshore.model.report import RunReport
from longshore.reports.status import status_run
from longshore.rundir.run_directory import read_card
from longshore.rundir.submissions import with_newest_counts
from longshore.runstate.open_run import OpenRun, is_manager_id, open_run

LEAST_DAYS: Final = 2.0
"""Days to look back for a named run, as in BPS."""


def query_runs(service: str | None, search: RunSearch, *, required: bool) -> RemoteRuns | None:
    """Query workload managers for runs; a run whose directory is here is reported from that.

    Without `service` the environment's choice is queried, else every queryable service. Unless `required`, only a
    named service is queried, else the result is ``None``. A workload manager that does not answer becomes a note.
    Raises `UnknownServiceError` if the service does not exist.
    """
    named = service or environment_service()
    if not named and not required:
        return None
    found: list[RunReport] = []
    notes: list[str] = []
    for manager in queryable_services(named):
        try:
            answer = manager.query_runs(search)
        except ServiceError as error:
            notes.append(error.message)
        else:
            found += answer.reports
            notes += answer.notes
    reports: dict[tuple[str, str], RunReport] = {}
    for report in sorted(found, key=lambda report: report.submitted_at or 0.0):
        here = _local_report(report)
        # A restarted run may be several jobs of its workload manager; the newest has the state.
        reports[here.path if here else report.path, here.id if here else report.name] = here or report
    return RemoteRuns(reports=tuple(reports.values()), notes=tuple(notes))


def merge_runs(known: Iterable[RunReport], found: Iterable[RunReport]) -> list[RunReport]:
    """Merge local and remote runs, each once, in the order of their submission."""
    there = {(report.path, report.name): report for report in found}
    there |= {(report.path, report.name): report for report in known}
    return sorted(there.values(), key=lambda report: report.submitted_at or 0.0)


def open_or_query(
    reference: str,
    *,
    service: str | None = None,
    everywhere: bool = False,
    days: float = 0.0,
    runs_only: bool = True,
    acts: bool = False,
) -> OpenRun | RunReport:
    """Open a run; if its directory is not here, return its workload manager's report.

    `reference` and `service` are those of `open_run`. `everywhere` searches all queues; `days` limits the history;
    `runs_only` ignores jobs that are no runs; `acts` is that of `open_run`. Raises `RunNotFoundError` if the run is
    unknown to both.
    """
    try:
        return open_run(reference, service=service, everywhere=everywhere, show_host=False, acts=acts)
    except RunNotFoundError as error:
        if isinstance(error, RunUnreadableError) or not is_manager_id(reference):
            raise
        search = RunSearch(reference=reference, days=max(days, LEAST_DAYS), everywhere=everywhere, runs_only=runs_only)
        reports: list[RunReport] = []
        notes: list[str] = []
        for manager in queryable_services(service or environment_service()):
            try:
                found = manager.query_runs(search)
            except ServiceError:
                raise error from None
            reports += found.reports
            notes += found.notes
        if not reports:
            raise _not_found(reference, search, notes) from None
        return _single_report(reference, reports)


def _single_report(reference: str, reports: Sequence[RunReport]) -> RunReport:
    if len({report.global_id for report in reports}) > 1:
        raise RunNotFoundError(
            f"'{reference}' is the id of several runs: {', '.join(report.global_id for report in reports)}",
            hint="Give one of these global ids.",
        )
    return reports[0]


def _not_found(reference: str, search: RunSearch, notes: Sequence[str]) -> RunNotFoundError:
    reasons = f" ({'; '.join(notes)})" if notes else ""
    return RunNotFoundError(
        f"no run '{reference}' is known{reasons}",
        hint=f"Check the id, retry with a larger --hist (now {search.days:g}), or search all queues: --global.",
    )


def _local_report(report: RunReport) -> RunReport | None:
    """Report a run from its directory if that is here, else ``None``."""
    run = RunPaths(Path(report.path))
    try:
        if not report.path or not run.card.is_file():
            return None
        card = read_card(run)
        if report.global_id not in card.other_ids:
            return None
        return status_run(OpenRun(run=run, card=with_newest_counts(run, card)))
    except (LongshoreError, OSError):
        return None
