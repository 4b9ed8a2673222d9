"""Queries workload managers for runs, wherever they were submitted, and merges them with those that are known here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from longshore.app.configure.layers import SERVICE_VARIABLE
from longshore.app.configure.service_lookup import queryable_services
from longshore.app.report.status import status_run
from longshore.app.runs.open_run import OpenRun, is_managers_id, open_run
from longshore.contract.context import RunPaths
from longshore.contract.search import RemoteRuns, RunSearch
from longshore.errors import LongshoreError, RunNotFoundError, ServiceError
from longshore.model.run.report import RunReport
from longshore.world.runs.run_directory import read_card

LEAST_DAYS: Final = 2.0
"""How far back a run is looked for that is named, as BPS does."""


def query_runs(service: str | None, search: RunSearch, *, required: bool) -> RemoteRuns | None:
    """The runs that workload managers know; of those whose directory is here, what that says.

    A workload manager that cannot be asked is a note.

    Parameters
    ----------
    service
        The service to ask; without it the environment's choice, else all that can be asked.
    search
        Which runs.
    required
        Whether only a workload manager can answer. Otherwise none is asked unless it is named: ``None``.

    Raises
    ------
    UnknownServiceError
        There is no such service.
    """
    named = service or os.environ.get(SERVICE_VARIABLE)
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
        here = _here(report)
        # A run that was restarted may be several jobs of its workload manager; the newest tells how it stands.
        reports[here.path if here else report.path, here.id if here else report.name] = here or report
    return RemoteRuns(reports=tuple(reports.values()), notes=tuple(notes))


def merged(known: Iterable[RunReport], found: Iterable[RunReport]) -> list[RunReport]:
    """Runs that are known here, and those a manager told of, each once, in the order of their submission."""
    there = {(report.path, report.name): report for report in found}
    there |= {(report.path, report.name): report for report in known}
    return sorted(there.values(), key=lambda report: report.submitted_at or 0.0)


def open_or_query(
    reference: str, *, service: str | None, everywhere: bool = False, days: float = 0.0, runs_only: bool = True
) -> OpenRun | RunReport:
    """Open a run, or, where its directory is not here, return what its workload manager knows of it.

    Parameters
    ----------
    reference, service
        As for `open_run`.
    everywhere
        Whether all queues of the manager are searched.
    days
        How far back.
    runs_only
        Whether a job with this id that is no run is left out.

    Raises
    ------
    RunNotFoundError
        Neither knows it.
    """
    try:
        return open_run(reference, service=service, everywhere=everywhere, tell=False)
    except RunNotFoundError as error:
        if type(error) is not RunNotFoundError or not is_managers_id(reference):
            raise
        search = RunSearch(reference=reference, days=max(days, LEAST_DAYS), everywhere=everywhere, runs_only=runs_only)
        reports: list[RunReport] = []
        notes: list[str] = []
        for manager in queryable_services(service or os.environ.get(SERVICE_VARIABLE)):
            try:
                found = manager.query_runs(search)
            except ServiceError:
                raise error from None
            reports += found.reports
            notes += found.notes
        if not reports:
            raise _not_found(reference, search, notes) from None
        return _only_one(reference, reports)


def _only_one(reference: str, reports: Sequence[RunReport]) -> RunReport:
    if len({report.global_id for report in reports}) > 1:
        raise RunNotFoundError(
            f"'{reference}' is the id of several runs: {', '.join(report.global_id for report in reports)}",
            hint="Give one of these global ids.",
        )
    return reports[0]


def _not_found(reference: str, search: RunSearch, notes: Sequence[str]) -> RunNotFoundError:
    silent = f" ({'; '.join(notes)})" if notes else ""
    return RunNotFoundError(
        f"no run '{reference}' is known{silent}",
        hint=f"Double check the id, retry with a larger --hist (now {search.days:g}), or search all queues: --global.",
    )


def _here(report: RunReport) -> RunReport | None:
    """The run as its own directory tells, where that is here."""
    run = RunPaths(Path(report.path))
    try:
        if not report.path or not run.card.is_file():
            return None
        card = read_card(run)
        if report.global_id not in card.other_ids:
            return None
        return status_run(OpenRun(run=run, card=card))
    except (LongshoreError, OSError):
        return None
