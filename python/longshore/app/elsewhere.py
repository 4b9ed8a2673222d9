"""Finds runs that a workload manager knows, wherever they were handed over from, beside those that are known here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from longshore.app.layers import SERVICE_VARIABLE
from longshore.app.runs import OpenRun, is_managers_id, open_run
from longshore.app.services import find_service
from longshore.app.status import status_run
from longshore.contract.context import RunPaths
from longshore.contract.search import Search, Sighted
from longshore.errors import LongshoreError, RunNotFoundError, ServiceError
from longshore.model.report import RunReport
from longshore.world.rundir import read_card

_USUAL: Final = "htcondor"
"""The service that is asked where none is named, as BPS has it."""
LEAST_DAYS: Final = 2.0
"""How far back a run is looked for that is named, as BPS does."""


def asked_service(name: str | None, *, asked: bool) -> str | None:
    """The service whose manager is to be asked for runs; ``None`` for none.

    Parameters
    ----------
    name
        The service that is named.
    asked
        Whether something was said that only a manager can answer.
    """
    return name or os.environ.get(SERVICE_VARIABLE) or (_USUAL if asked else None)


def runs_elsewhere(service: str, search: Search) -> Sighted:
    """What a manager tells of runs; of those whose directory is here, what that tells.

    One that cannot be asked is a note: runs that are known here are shown all the same.

    Raises
    ------
    UnknownServiceError
        There is no such service.
    """
    kind = find_service(service)
    try:
        found = kind.sight(search)
    except ServiceError as error:
        return Sighted(notes=(error.message,))
    reports: dict[tuple[str, str], RunReport] = {}
    for report in sorted(found.reports, key=lambda report: report.submitted_at or 0.0):
        here = _here(report)
        # A run that was restarted has several jobs of DAGMan's; the newest tells how it stands.
        reports[here.path if here else report.path, here.id if here else report.name] = here or report
    return Sighted(reports=tuple(reports.values()), notes=found.notes)


def merged(known: Iterable[RunReport], found: Iterable[RunReport]) -> list[RunReport]:
    """Runs that are known here, and those a manager told of, each once, in the order of their submission."""
    there = {(report.path, report.name): report for report in found}
    there |= {(report.path, report.name): report for report in known}
    return sorted(there.values(), key=lambda report: report.submitted_at or 0.0)


def open_or_sight(
    reference: str, *, service: str | None, everywhere: bool = False, days: float = 0.0, ours: bool = True
) -> OpenRun | RunReport:
    """Open a run, or, where its directory is not here, say what its workload manager tells of it.

    Parameters
    ----------
    reference, service
        As for `open_run`.
    everywhere
        Whether all queues of the manager are searched.
    days
        How far back.
    ours
        Whether a run is meant, and nothing else that has this id.

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
        search = Search(reference=reference, days=max(days, LEAST_DAYS), everywhere=everywhere, ours=ours)
        try:
            found = find_service(asked_service(service, asked=True) or _USUAL).sight(search)
        except ServiceError:
            raise error from None
        if not found.reports:
            raise _not_found(reference, search, found.notes) from None
        return _only_one(reference, found.reports)


def _only_one(reference: str, reports: tuple[RunReport, ...]) -> RunReport:
    if len({report.global_id for report in reports}) > 1:
        raise RunNotFoundError(
            f"'{reference}' is the id of several runs: {', '.join(report.global_id for report in reports)}",
            hint="Give one of these global ids.",
        )
    return reports[0]


def _not_found(reference: str, search: Search, notes: tuple[str, ...]) -> RunNotFoundError:
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
