"""Which runs a list of runs has, and its filters and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from longshore.contract.service import RemoteRuns, RunPaths, RunSearch
from longshore.errors import UsageError
from longshore.model.report import RunReport
from longshore.model.states import JobState
from longshore.model.wording import NAME_LIKENESS, did_you_mean, format_timestamp, name_all, quote_value
from longshore.reports.remote_runs import merge_runs, query_runs
from longshore.reports.state import END_STATES
from longshore.reports.status import status_run
from longshore.rundir.archive_names import archive_suffix
from longshore.rundir.registry import RegistryEntry, file_stamp, journal_stamp, read_registry, store_report
from longshore.rundir.run_directory import read_card
from longshore.rundir.submissions import with_newest_counts
from longshore.runstate.open_run import READ_ERRORS, OpenRun, describe_read_error, is_missing

FieldValue: TypeAlias = str | int | None

_FLAGS: Final = ((JobState.HELD, "H"), (JobState.DELETED, "D"), (JobState.FAILED, "F"))
"""States that may need a person's attention, most urgent first."""


def attention_flag(report: RunReport) -> str:
    """Return BPS's column ``X``: why a running run may need a person's attention."""
    if report.state is JobState.RUNNING:
        for state, sign in _FLAGS:
            if report.counts.get(state):
                return sign
    return " "


def _count(state: JobState) -> Callable[[RunReport], FieldValue]:
    return lambda report: report.counts.get(state, 0)


FIELDS: Final[Mapping[str, Callable[[RunReport], FieldValue]]] = {
    "x": attention_flag,
    "state": lambda report: report.state.value,
    "%s": lambda report: report.percent_succeeded,
    "id": lambda report: report.id,
    "operator": lambda report: report.operator,
    "project": lambda report: report.project,
    "campaign": lambda report: report.campaign,
    "payload": lambda report: report.payload,
    "run": lambda report: report.name,
    "global": lambda report: report.global_id,
    "path": lambda report: report.path,
    "service": lambda report: report.service,
    "site": lambda report: report.site,
    "user": lambda report: report.user,
    "submitted": lambda report: format_timestamp(report.submitted_at),
    "finished": lambda report: format_timestamp(report.finished_at),
    "jobs": lambda report: report.expected,
    **{state.lower(): _count(state) for state in JobState},
}
"""Fields of a run in a list, by user-visible name."""

_LABEL_FIELD: Final = "label"
_STATE_FIELD: Final = "state"
_MATCH_S: Final = 1.0
"""Processor time in which a value must be matched."""
_FILTER: Final = re.compile(r"\s*([^=~<>!\s]+)\s*(!=|=|~|<|>)(.*)", re.DOTALL)

RunFilter: TypeAlias = Callable[[RunReport], bool]


def parse_fields(text: str | None) -> tuple[str, ...]:
    """Parse a comma-separated list of fields, by default the columns of BPS.

    Raises `UsageError` if a field is unknown or none is named.
    """
    if not text:
        return tuple(FIELDS)[:9]
    names = tuple(name.strip().lower() for name in text.split(",") if name.strip())
    if not names:
        raise UsageError("--format names no field", hint=name_all(FIELDS))
    for name in names:
        if name not in FIELDS:
            raise _unknown_field_error("--format", name, FIELDS)
    return names


def field_values(report: RunReport, names: Iterable[str]) -> list[FieldValue]:
    """Return the values of a run's fields; `names` are from `parse_fields`."""
    return [FIELDS[name](report) for name in names]


def parse_filters(filters: Sequence[str]) -> RunFilter:
    """Parse filters into one predicate: a run must meet all of them.

    Forms are ``FIELD=VALUE`` (or several values with commas), ``FIELD!=VALUE``, ``FIELD~REGEX`` (found anywhere),
    ``FIELD>NUMBER`` and ``FIELD<NUMBER``. A run may have several values of ``label``. Raises `UsageError` if a filter
    is malformed.
    """
    tests = [_parse_filter(text) for text in filters]
    return lambda report: all(test(report) for test in tests)


def _parse_filter(text: str) -> RunFilter:
    match = _FILTER.fullmatch(text)
    if not match:
        raise UsageError(
            f"'{text}' is no filter", hint="Write FIELD=VALUE, FIELD!=VALUE, FIELD~REGEX, FIELD>NUMBER or FIELD<NUMBER."
        )
    name, sign, value = match[1].lower(), match[2], match[3].strip()
    if name != _LABEL_FIELD and name not in FIELDS:
        raise _unknown_field_error("--filter", name, [*FIELDS, _LABEL_FIELD])
    if name == _STATE_FIELD and sign in {"=", "!="}:
        _check_states(value)
    test = _parse_comparison(sign, value, text)

    def keeps(report: RunReport) -> bool:
        values: Iterable[FieldValue] = report.labels if name == _LABEL_FIELD else _values(report, name)
        # A run has many labels: `label!=isr` selects runs without it.
        return all(map(test, values)) if sign == "!=" else any(map(test, values))

    return keeps


def _values(report: RunReport, name: str) -> set[FieldValue]:
    """Return the values of a field that filters know: a paused run is RUNNING, and PAUSED as lists show it."""
    return {FIELDS[name](report), report.state_word} if name == _STATE_FIELD else {FIELDS[name](report)}


def _check_states(value: str) -> None:
    """Refuse names that no state has: the list would always be empty, or whole."""
    states = [*(state.value for state in JobState), "PAUSED"]
    for name in filter(None, map(str.strip, value.split(","))):
        if name.upper() not in states:
            hint = f"{did_you_mean(name, states, likeness=NAME_LIKENESS)} {name_all(states)}".lstrip()
            raise UsageError(f"--filter: there is no state '{name}'", hint=hint)


def _parse_comparison(sign: str, value: str, text: str) -> Callable[[FieldValue], bool]:
    if sign == "~":
        # Imported late, as below: lists without such a filter need less.
        from longshore.model.values import RegexError, compile_regex

        try:
            pattern = compile_regex(value)
        except RegexError as error:
            raise UsageError(
                f"{quote_value(value)} in {quote_value(text)} is no regular expression: {error}"
            ) from error
        return lambda field: _is_found(pattern, _text(field))
    if sign in {"<", ">"}:
        try:
            limit = float(value)
        except ValueError:
            raise UsageError(f"'{value}' in '{text}' is no number") from None
        above = sign == ">"
        return lambda value: isinstance(value, int) and ((value > limit) if above else (value < limit))
    choices = {choice.strip().casefold() for choice in value.split(",")}
    return lambda value: (_text(value).casefold() in choices) == (sign == "=")


def _is_found(pattern: re.Pattern[str], text: str) -> bool:
    from longshore.system.host import CpuLimitError
    from longshore.system.regex_search import find_match

    try:
        return find_match(pattern, text, seconds=_MATCH_S) is not None
    except CpuLimitError:
        raise UsageError(f"{quote_value(pattern.pattern)} takes too long on {quote_value(text)}") from None


def _text(value: FieldValue) -> str:
    return "" if value is None else str(value).strip()


def _unknown_field_error(option: str, name: str, names: Iterable[str]) -> UsageError:
    listed = list(names)
    hint = f"{did_you_mean(name, listed, likeness=NAME_LIKENESS)} {name_all(listed)}".lstrip()
    return UsageError(f"{option}: there is no field '{name}'", hint=hint)


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
