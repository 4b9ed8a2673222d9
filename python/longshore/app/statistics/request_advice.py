"""Advice on the requests of runs: suggestions per label, with the section of the configuration that they go to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from longshore.app.runs.open_run import OpenRun
from longshore.app.statistics.run_attempts import RunAttempts, read_attempts
from longshore.app.statistics.suggest_requests import LabelSuggestion, Usage, suggest_requests
from longshore.config.search import PART_SECTIONS
from longshore.model.wording import count_noun
from longshore.model.workflow.collection_pause import collection_paused
from longshore.model.workflow.final_label import FINAL_LABEL
from longshore.model.workflow.request import MIB, Request
from longshore.model.workflow.request_margin import DEFAULT_MARGIN
from longshore.origin import Origin
from longshore.world.files.read_file import read_record

_DEFAULT_LAYERS: Final = frozenset({"defaults", "site"})
GIB: Final = 1024 * MIB
_NOTHING: Final = 0.05
"""Amount times seconds that is shown as 0."""


class RequestAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """Suggestions for the labels of runs, in the order of the workflow.

    `sections` names the section of the configuration per label: ``pipetask``, ``cluster``, or empty for the final job.
    `written` has, per label and key, where the configuration of the newest run sets a value itself: that wins over an
    included file.
    """

    runs: Sequence[OpenRun]
    margin: float
    suggestions: Sequence[LabelSuggestion]
    sections: Mapping[str, str]
    written: Mapping[tuple[str, str], Origin]

    @property
    def changed(self) -> list[LabelSuggestion]:
        """Suggestions with a change."""
        return [each for each in self.suggestions if each.changes]

    @property
    def core_s(self) -> float:
        """Core seconds that the runs would not have taken."""
        return sum(each.core_s for each in self.changed)

    @property
    def memory_b_s(self) -> float:
        """Requested memory, in bytes times seconds, that the runs would not have taken."""
        return sum(each.memory_b_s for each in self.changed)

    @property
    def avoided_retries(self) -> int:
        """Failed attempts that the runs would not have had."""
        return sum(each.avoided_retries for each in self.changed)

    @property
    def expected_retries(self) -> int:
        """Jobs of the runs that would have been retried."""
        return sum(each.expected_retries for each in self.changed)

    @property
    def savings(self) -> str:
        """What the runs would have saved, and taken more than they did, in words."""
        amounts = ((self.core_s, "core", ""), (self.memory_b_s / GIB, "GiB", " of requested memory"))
        saved = [describe_over_time(amount, unit) + what for amount, unit, what in amounts if amount > -_NOTHING]
        taken = [
            f"{describe_over_time(-amount, unit)} more{what}" for amount, unit, what in amounts if amount <= -_NOTHING
        ]
        retries = count_noun(self.avoided_retries, "failed attempt")
        expected = count_noun(self.expected_retries, "retried job") if self.expected_retries else "no retry"
        return (
            f"{', '.join(saved)}{' and ' if saved else ''}{retries}"
            f"{', and taken ' if taken else ''}{' and '.join(taken)}, with {expected}"
        )


def describe_over_time(seconds: float, unit: str) -> str:
    """Format an amount times seconds, in hours if these are not very small."""
    seconds = 0.0 if abs(seconds) < _NOTHING else seconds
    hours = seconds / 3600
    return f"{hours:,.1f} {unit} hours" if abs(hours) >= 1.0 else f"{seconds:,.1f} {unit} seconds"


def advise_requests(
    runs: Sequence[OpenRun], *, labels: Collection[str] = (), margin: float = DEFAULT_MARGIN
) -> RequestAdvice:
    """Suggest requests from the attempts of runs, which count together; `labels` restricts the advice to these.

    What is requested now is that of the last of the runs. Raises `UnreachableError` as `read_attempts` does.
    """
    with collection_paused():
        return advise_on_attempts(list(map(read_attempts, runs)), labels=labels, margin=margin)


def advise_on_attempts(
    runs: Sequence[RunAttempts], *, labels: Collection[str] = (), margin: float = DEFAULT_MARGIN
) -> RequestAdvice:
    """Suggest requests as `advise_requests` does, from attempts that were read before."""
    usages: dict[str, list[Usage]] = {}
    requests: dict[str, Sequence[Request]] = {}
    with collection_paused():
        for number, found in enumerate(runs):
            known = found.labels
            # The last run wins, and labels keep the order of the first.
            requests |= found.table.requests_of_labels
            for label in known:
                usages.setdefault(label, [])
            for attempt in found.own_attempts:
                label = known[found.label_of[attempt.job]]
                usages[label].append(Usage(number, attempt, found.request_of(attempt)))
    chosen = [label for label in usages if not labels or label in labels]
    origins = read_record(runs[-1].opened.run.origins, dict[str, Origin]) or {}
    return RequestAdvice(
        runs=[found.opened for found in runs],
        margin=margin,
        suggestions=[
            suggest_requests(label, usages[label], requests[label] or [Request()], margin=margin) for label in chosen
        ],
        sections={label: _section(label, origins) for label in chosen},
        written=dict(_written_values(chosen, origins)),
    )


def _section(label: str, origins: Mapping[str, Origin]) -> str:
    if label == FINAL_LABEL:
        return ""
    return "cluster" if any(key.startswith(f"cluster.{label}.") for key in origins) else "pipetask"


def _written_values(labels: Collection[str], origins: Mapping[str, Origin]) -> Iterator[tuple[tuple[str, str], Origin]]:
    for label in labels:
        for key in ("requestMemory", "requestCpus", "requestWalltime"):
            for place in (*(f"{section}.{label}" for section in PART_SECTIONS), label):
                origin = origins.get(f"{place}.{key}")
                if origin is not None and origin.layer not in _DEFAULT_LAYERS:
                    yield (label, key), origin
