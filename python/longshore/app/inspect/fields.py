"""Filters and columns of run lists: parses ``--filter`` and ``--format``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from longshore.errors import UsageError
from longshore.model.run.moment import format_timestamp
from longshore.model.run.report import RunReport
from longshore.model.run.states import JobState
from longshore.model.suggestions import NAME_LIKENESS, did_you_mean, name_all
from longshore.model.wording import quote_value

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
        from longshore.model.user_regex import RegexError, compile_regex

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
    from longshore.world.cpu_limit import CpuLimitError
    from longshore.world.regex_search import find_match

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
