"""Lists runs: reports of registered runs and, on request, of runs that workload managers know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from longshore.app.inspect.fields import parse_filters
from longshore.app.inspect.remote_runs import merge_runs, query_runs
from longshore.app.report.brief_report import status_run
from longshore.app.report.from_snapshot import END_STATES
from longshore.app.runs.open_run import READ_ERRORS, OpenRun, describe_read_error, is_missing
from longshore.contract.context import RunPaths
from longshore.contract.search import RemoteRuns, RunSearch
from longshore.model.run.report import RunReport
from longshore.model.run.states import JobState
from longshore.world.archives.archive_names import archive_suffix
from longshore.world.runs.manifests import with_newest_counts
from longshore.world.runs.registry import RegistryEntry, file_stamp, journal_stamp, read_registry, store_report
from longshore.world.runs.run_directory import read_card

_MAX_MISSING_NAMES: Final = 8
_FORGET: Final = "longshore forget --missing"
_RECENT_RUNS: Final = 5
"""Number of runs shown if none is live."""
_DAY_S: Final = 86_400.0


class RunList(msgspec.Struct, frozen=True, kw_only=True):
    """Selected runs, oldest first, and notes about the others."""

    reports: tuple[RunReport, ...]
    notes: tuple[str, ...]


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Selection of runs; by default unfinished runs, or the last few if all are finished.

    `days` adds runs that ended that recently. Runs must belong to `user` and meet all `filters`, finished or not; see
    `parse_filters`. Runs of other hosts are queried only with `service`, `everywhere` (all queues) or `pass_thru` (a
    constraint in the workload manager's language).
    """

    days: float | None = None
    user: str | None = None
    filters: Sequence[str] = ()
    service: str | None = None
    everywhere: bool = False
    pass_thru: str = ""


def list_runs(query: RunQuery, *, now: float) -> RunList:
    """List registered runs and those that workload managers know."""
    run_filter = parse_filters(query.filters) if query.filters else None
    remote = _remote_runs(query)
    only_remote = bool(query.pass_thru)
    days = None if only_remote else query.days
    reports, notes = ([], []) if only_remote else _registered_reports()
    if remote is not None:
        reports, notes = merge_runs(reports, remote.reports), [*notes, *remote.notes]
    if query.user:
        reports = [report for report in reports if query.user in (report.user, report.operator)]
    if run_filter:
        reports = [report for report in reports if run_filter(report)]
    live = [report for report in reports if report.state not in END_STATES]
    if days is not None:
        since = now - days * _DAY_S
        shown = [report for report in reports if report.state not in END_STATES or (report.finished_at or 0.0) >= since]
    else:
        shown = reports if run_filter or only_remote else live or reports[-_RECENT_RUNS:]
    shown_ids = {id(report) for report in shown}
    ended = (report for report in reports if id(report) not in shown_ids)
    recent = sum(1 for report in ended if (report.finished_at or 0.0) >= now - _DAY_S)
    if recent:
        notes.append(f"{recent} more ended in the last day: longshore report --hist 1")
    return RunList(reports=tuple(shown), notes=tuple(notes))


def _remote_runs(query: RunQuery) -> RemoteRuns | None:
    """Query workload managers if a service is named or only they can answer."""
    search = RunSearch(
        user=query.user or "", days=query.days or 0.0, everywhere=query.everywhere, pass_thru=query.pass_thru
    )
    return query_runs(query.service, search, required=bool(query.everywhere or query.pass_thru))


def _registered_reports() -> tuple[list[RunReport], list[str]]:
    """Return the reports of all registered runs, and a line per unreadable run."""
    reports = []
    broken = []
    gone = []
    known = read_registry()
    for entry in known.entries:
        try:
            report = registered_report(entry)
        except READ_ERRORS as error:
            if not is_missing(entry.path):
                broken.append(f"run '{entry.id}' cannot be shown: {describe_read_error(error)}")
            else:
                gone.append(entry.id)
            continue
        if report is None:
            gone.append(entry.id)
        else:
            reports.append(report)
    broken += [
        f"run '{run}' cannot be shown: its entry is torn; to mend it: longshore adopt PATH" for run in known.unreadable
    ]
    if known.problem:
        broken.append(known.problem)
    if gone:
        # Users remove runs by removing directories, so missing ones are not reported.
        more = f" and {len(gone) - _MAX_MISSING_NAMES} more" if gone[_MAX_MISSING_NAMES:] else ""
        broken.append(f"removed or moved: {', '.join(gone[-_MAX_MISSING_NAMES:])}{more}; to forget them: {_FORGET}")
    return reports, broken


def registered_report(entry: RegistryEntry) -> RunReport | None:
    """Return the state of a registered run; a finished run's state is read from the registry.

    A run that was resumed or restarted since is read anew. Returns ``None`` if another run replaced it; raises
    `LongshoreError` if it cannot be read.
    """
    stamp = _stamp(entry.path)
    if entry.report is not None and stamp and stamp == entry.stamp:
        return replace(entry.report, path=entry.path)
    run = RunPaths(Path(entry.path))
    card = read_card(run)
    if card.id != entry.id:
        return None
    report = status_run(OpenRun(run=run, card=with_newest_counts(run, card)))
    if stamp and report.state in END_STATES and report.finished_at is not None:
        kept = replace(
            report,
            counts=_without_zeros(report.counts),
            labels={label: _without_zeros(counts) for label, counts in report.labels.items()},
            specifics=(),
            summary=None,
        )
        store_report(replace(entry, report=kept, stamp=stamp))
    return report


def _without_zeros(counts: Mapping[JobState, int]) -> dict[JobState, int]:
    return {state: count for state, count in counts.items() if count}


def _stamp(path: str) -> int:
    try:
        return file_stamp(path) if archive_suffix(path) else journal_stamp(path)
    except OSError:
        return 0
