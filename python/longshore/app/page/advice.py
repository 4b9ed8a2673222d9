"""Advice: which changes of the configuration or payload would help a run, with the figures that say so.

Requests are those of ``suggest-resources``; the rest follows from failures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from longshore.app.inspect.find_jobs import first_of
from longshore.app.page.page_data import LabelRow, PageAdvice, RunPage
from longshore.app.statistics.attempt_statistics import AttemptStatistics
from longshore.app.statistics.request_advice import GIB, RequestAdvice, describe_over_time
from longshore.app.statistics.requests_yaml import describe_value, suggestion_yaml
from longshore.app.statistics.suggest_requests import LabelSuggestion, SuggestedValue
from longshore.model.run.report import Failure, count_failed_jobs
from longshore.model.run.states import Cause
from longshore.model.text_format import failure_text
from longshore.model.wording import count_noun

_LEAST_HOST_FAILURES: Final = 3
_MAX_LABELS: Final = 8
"""Labels with failures that a line names."""
_LEAST_SHARE: Final = 0.5
"""Part of a request by which a lower one must differ to be worth a line, and a higher one where nothing failed."""
_LEAST_SAVING_B_S: Final = 0.01 * GIB * 3600
"""Requested memory over time whose saving is worth a line beside other advice."""
_MAX_TINY: Final = 1
"""Smaller requests that save less than that, beside other advice."""
_PAYLOAD_CAUSES: Final = (Cause.EXIT, Cause.SIGNAL, Cause.OUTPUT_MISSING, Cause.PREDICATE, Cause.OUTPUT, None)
_NOUNS: Final = {"requestMemory": "memory", "requestWalltime": "run time", "requestCpus": "processors"}
_LIMITS: Final = {"requestMemory": Cause.OOM, "requestWalltime": Cause.WALLTIME}


def find_advice(page: RunPage, requests: RequestAdvice | None = None) -> tuple[PageAdvice, ...]:
    """Return advice for a run: what would have kept attempts from failing, repairs, hosts, then smaller requests.

    `requests` are suggestions for its labels, where its attempts are known. Of less memory that saves next to nothing,
    only the largest saving is advised beside other advice.
    """
    failures = page.report.summary.failures if page.report.summary else ()
    suggestions = {each.label: each for each in requests.suggestions} if requests else {}
    larger: list[PageAdvice] = []
    smaller: list[PageAdvice] = []
    tiny: list[PageAdvice] = []
    for row in page.labels:
        suggestion = suggestions.get(row.name)
        if requests is None or suggestion is None:
            continue
        fitting = [value for value in suggestion.changes if _is_worth_a_line(value, row)]
        changes = [value for value in fitting if not _saves_little(value, row, suggestion)]
        if changes:
            advice = _advise_on_requests(requests, suggestion, changes)
            (larger if any(_failed_by(value, row) for value in changes) else smaller).append(advice)
        elif fitting:
            saving = f"This would have saved {describe_over_time(suggestion.memory_b_s / GIB, 'GiB')}."
            advice = _advise_on_requests(requests, suggestion, fitting)
            tiny.append(structs.replace(advice, why=f"{advice.why} {saving}"))
    smaller.sort(key=lambda advice: -suggestions[advice.label].memory_b_s)
    others = (*_advise_on_failures(page, failures), *_advise_on_refusals(page), *_advise_on_hosts(page))
    tiny.sort(key=lambda advice: -suggestions[advice.label].memory_b_s)
    found = (*larger, *others, *smaller)
    return (*found, *tiny[: _MAX_TINY if found else None])


def _is_worth_a_line(value: SuggestedValue, row: LabelRow) -> bool:
    """Tell whether a change belongs on the first screen: something failed, or most of the request is unused."""
    if value.requested is None or _failed_by(value, row):
        return _failed_by(value, row)
    return value.suggested <= value.requested * (1 - _LEAST_SHARE)


def _saves_little(value: SuggestedValue, row: LabelRow, suggestion: LabelSuggestion) -> bool:
    """Tell whether a value is less memory that hardly anything would have been saved by."""
    is_memory = value.key == "requestMemory" and not _failed_by(value, row)
    return is_memory and suggestion.memory_b_s < _LEAST_SAVING_B_S


def _failed_by(value: SuggestedValue, row: LabelRow) -> bool:
    """Tell whether attempts ran out of what a value requests."""
    cause = _LIMITS.get(value.key)
    return cause is not None and cause in row.statistics.badput_causes


def _advise_on_requests(
    requests: RequestAdvice, suggestion: LabelSuggestion, changes: list[SuggestedValue]
) -> PageAdvice:
    words = [
        f"{'less' if value.requested is not None and value.suggested < value.requested else 'more'} {_NOUNS[value.key]}"
        for value in changes
    ]
    figures = "; ".join(f"{_NOUNS[value.key]}: {describe_value(value)}" for value in changes)
    guess = ", which is a guess from few attempts" if suggestion.is_guess else ""
    return PageAdvice(
        label=suggestion.label,
        text=f"Request {' and '.join(words)} for {suggestion.label}{guess}",
        why=f"{figures[:1].upper()}{figures[1:]}.",
        yaml=suggestion_yaml(requests, suggestion, changes),
    )


def _advise_on_failures(page: RunPage, failures: tuple[Failure, ...]) -> Iterator[PageAdvice]:
    """Yield advice on what made jobs fail beside their requests: one for all labels, as each failure is beside it."""
    groups: dict[str, list[Failure]] = {row.name: [] for row in page.labels}
    for failure in failures:
        if failure.label in groups and failure.cause in _PAYLOAD_CAUSES:
            groups[failure.label].append(failure)
    failed = {label: found for label, found in groups.items() if found}
    if len(failed) == 1:
        ((label, (first, *_)),) = failed.items()
        how = failure_text(first.cause, first.exit_code, first.signal)
        yield PageAdvice(
            label=label,
            text=f"Repair the command or the data of {label}",
            why=f"{_failed_jobs(failed[label])} failed, such as {first.job} ({how})"
            + (f": {first.message}" if first.message else "."),
        )
    elif failed:
        numbers = [f"{label}: {_failed_jobs(found)}" for label, found in failed.items()]
        yield PageAdvice(
            label="",
            text=f"Repair the commands or the data of {count_noun(len(failed), 'label')}",
            why=f"Jobs that failed: {first_of(numbers, _MAX_LABELS)}.",
        )


def _failed_jobs(groups: list[Failure]) -> str:
    return count_noun(count_failed_jobs(groups), "job")


def _advise_on_refusals(page: RunPage) -> Iterator[PageAdvice]:
    """Yield advice on labels whose jobs the workload manager refused."""
    for row in page.labels:
        if badput := row.statistics.badput_causes.get(Cause.SUBMIT):
            yield PageAdvice(
                label=row.name,
                text=f"Change what {row.name} requests: it was refused",
                why=f"{count_noun(badput.attempts, 'attempt')} could not be submitted or started.",
            )


def _advise_on_hosts(page: RunPage) -> Iterator[PageAdvice]:
    """Yield advice on hosts where most attempts fail, while most succeed elsewhere."""
    total_failed, total_ended = _count_ended(page.total)
    for host, statistics in page.hosts.items():
        failed, ended = _count_ended(statistics)
        elsewhere = total_ended - ended
        failed_elsewhere = total_failed - failed
        if host is None or failed < max(_LEAST_HOST_FAILURES, ended / 2) or elsewhere < ended:
            continue
        if failed / ended > 4 * failed_elsewhere / elsewhere:
            yield PageAdvice(
                label="",
                text=f"Avoid the host {host}, or have it repaired",
                why=(
                    f"Attempts that failed: {failed:,} of {ended:,} there, and {failed_elsewhere:,} of {elsewhere:,} "
                    "elsewhere."
                ),
            )


def count_failed_attempts(statistics: AttemptStatistics) -> int:
    """Return how many attempts failed: those of `AttemptStatistics.badput` that no person cancelled."""
    cancelled = statistics.badput_causes.get(Cause.CANCELLED)
    return statistics.badput.attempts - (cancelled.attempts if cancelled else 0)


def _count_ended(statistics: AttemptStatistics) -> tuple[int, int]:
    """Return how many attempts failed, and how many failed or succeeded."""
    failed = count_failed_attempts(statistics)
    cancelled = statistics.badput.attempts - failed
    return failed, statistics.attempts - statistics.unfinished - cancelled
