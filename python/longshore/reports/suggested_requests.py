"""Requests that fit what the jobs of runs used: per label, and as YAML for the section that they go to."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from longshore.config.merge import DEFAULT_LAYERS
from longshore.config.search import PART_SECTIONS
from longshore.errors import FilesError, Origin
from longshore.model.event import Attempt
from longshore.model.measurements import DEFAULT_MARGIN, quantile
from longshore.model.report import FINAL_LABEL
from longshore.model.states import Cause, JobState
from longshore.model.tasks import collection_paused
from longshore.model.wording import count_noun
from longshore.model.workflow import MIB, Request, round_up
from longshore.reports.statistics import RunAttempts, read_attempts
from longshore.runstate.open_run import OpenRun
from longshore.system.atomic import create_atomically
from longshore.system.output_file import require_parent, write_error
from longshore.system.reading import read_record

MIN_PERCENTILE: Final = 20
"""Values from which on their 95th percentile differs from their maximum; fewer give the maximum."""
MIN_SUCCESSES: Final = 3
"""Successes below which a suggestion is called a guess."""
_LEAST_MARGIN_B: Final = 16 * MIB
"""Memory above what was measured: small programs differ by this between hosts."""
_BOUND_FACTOR: Final = 2.0
"""Factor on a lower bound, as the engine has for a retry."""
_WALLTIME_FACTOR: Final = 1.5
"""Least factor on run times, which vary with the host; a job beyond its time is killed."""
_SAME: Final = 0.1
"""Part of a request by which a lower one must differ to be worth a change."""
LEAST_RUN_S: Final = 1.0
"""Shortest run time that says how many processors a job uses: the start of a process has a share of a shorter one."""
_IDLE_CPUS: Final = 0.1
"""Use of one more processor that does not need it."""


class Basis(StrEnum):
    """What a suggestion rests on."""

    P95 = "p95"
    MAX = "max"
    BOUND = "bound"
    """A lower bound: attempts ran out of it, and no attempt of their job succeeded."""


class Usage(NamedTuple):
    """An attempt with what it requested; `run` is the number of its run among several."""

    run: int
    attempt: Attempt
    request: Request


class SuggestedValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A suggested value, and where it comes from.

    Attributes
    ----------
    key
        Key of the configuration.
    requested, suggested
        Value now and from here on: bytes, processors or seconds; ``None`` where nothing is requested.
    basis, measured
        What the suggestion rests on.
    samples
        Number of measured values.
    exceeding
        Those of them that are above the suggestion: jobs that would be retried.
    bounds
        Jobs that ran out of it in all their attempts.
    """

    key: str
    requested: float | None
    suggested: float
    basis: Basis
    measured: float
    samples: int
    exceeding: int = 0
    bounds: int = 0

    @property
    def is_change(self) -> bool:
        """Whether the suggestion differs from the request by enough."""
        if self.requested is None or self.suggested > self.requested:
            return True
        return self.suggested <= self.requested * (1 - _SAME)


class LabelSuggestion(msgspec.Struct, frozen=True, kw_only=True):
    """Suggested requests of a label, and what they save of the measured runs.

    Attributes
    ----------
    attempts, successes
        Attempts that ended, and those that succeeded.
    values
        Values for memory, processors and run time, as far as something was measured.
    expected_retries
        Jobs that would be retried, and `avoided_retries` the attempts that would not have failed.
    core_s, memory_b_s
        Core seconds and byte seconds that the runs would not have taken; negative if they would have taken more.
    why_none
        Why there is no suggestion; empty if there is one.
    """

    label: str
    attempts: int
    successes: int
    values: tuple[SuggestedValue, ...] = ()
    expected_retries: int = 0
    avoided_retries: int = 0
    core_s: float = 0.0
    memory_b_s: float = 0.0
    why_none: str = ""

    @property
    def is_guess(self) -> bool:
        """Whether too few attempts succeeded to rely on."""
        return self.successes < MIN_SUCCESSES

    @property
    def why_unchanged(self) -> str:
        """Why the requests stay as they are; empty if some change."""
        if self.why_none or self.changes:
            return self.why_none
        has_memory = any(value.key == "requestMemory" for value in self.values)
        return "its requests fit" if has_memory else "its peak memory is unknown"

    @property
    def changes(self) -> tuple[SuggestedValue, ...]:
        """Values that are worth a change."""
        return tuple(value for value in self.values if value.is_change)


def suggest_requests(
    label: str, usages: Sequence[Usage], requests: Sequence[Request], *, margin: float = DEFAULT_MARGIN
) -> LabelSuggestion:
    """Suggest requests for the jobs of a label.

    Parameters
    ----------
    usages
        Its attempts, of one run or several.
    requests
        The different requests that its first attempts have; the first one is what is compared.
    margin
        Factor on what was measured.
    """
    ended = [usage for usage in usages if usage.attempt.ended_at is not None]
    good = [usage for usage in ended if usage.attempt.state is JobState.SUCCEEDED]
    known = LabelSuggestion(label=label, attempts=len(ended), successes=len(good))
    if len(set(map(Request.key, requests))) > 1:
        return msgspec.structs.replace(
            known, why_none="its jobs request different amounts, which one value would replace"
        )
    values = tuple(
        value
        for value in (
            _suggest_memory(ended, good, requests[0], margin),
            _suggest_cpus(good, requests[0]),
            _suggest_walltime(ended, good, requests[0], margin),
        )
        if value is not None
    )
    if not values:
        why = (
            "nothing was measured of its attempts" if good else "no attempt succeeded" if ended else "no attempt ended"
        )
        return msgspec.structs.replace(known, why_none=why)
    return _with_savings(msgspec.structs.replace(known, values=values), ended, good)


def _suggest_memory(
    ended: Sequence[Usage], good: Sequence[Usage], request: Request, margin: float
) -> SuggestedValue | None:
    peaks = sorted(usage.attempt.peak_memory_b for usage in good if usage.attempt.peak_memory_b)
    bounds = [
        max(usage.attempt.peak_memory_b or 0, usage.request.memory_b or 0)
        for usage in _never_succeeded(ended, good, Cause.OOM)
    ]
    measured, basis = _measure(peaks, bounds)
    if basis is None:
        return None
    wanted = measured * _BOUND_FACTOR if basis is Basis.BOUND else max(measured * margin, measured + _LEAST_MARGIN_B)
    suggested = round_up(math.ceil(wanted / MIB)) * MIB
    return SuggestedValue(
        key="requestMemory",
        requested=request.memory_b,
        suggested=suggested,
        basis=basis,
        measured=measured,
        samples=len(peaks),
        exceeding=sum(peak > suggested for peak in peaks),
        bounds=len(bounds),
    )


def _suggest_cpus(good: Sequence[Usage], request: Request) -> SuggestedValue | None:
    used = sorted(
        usage.attempt.cpu_s / usage.attempt.run_s
        for usage in good
        if usage.attempt.cpu_s is not None and usage.attempt.run_s and usage.attempt.run_s >= LEAST_RUN_S
    )
    measured, basis = _measure(used, ())
    if basis is None:
        return None
    return SuggestedValue(
        key="requestCpus",
        requested=request.cpus,
        suggested=max(1, math.ceil(measured - _IDLE_CPUS)),
        basis=basis,
        measured=measured,
        samples=len(used),
    )


def _suggest_walltime(
    ended: Sequence[Usage], good: Sequence[Usage], request: Request, margin: float
) -> SuggestedValue | None:
    """Suggest a run time where one is requested: a new limit would only add a way to fail."""
    if request.walltime_s is None:
        return None
    times = sorted(usage.attempt.run_s for usage in good if usage.attempt.run_s is not None)
    bounds = [
        max(usage.attempt.run_s or 0.0, usage.request.walltime_s or 0.0)
        for usage in _never_succeeded(ended, good, Cause.WALLTIME)
    ]
    most, basis = _measure(times[-1:], bounds)
    if basis is None:
        return None
    factor = _BOUND_FACTOR if basis is Basis.BOUND else max(margin, _WALLTIME_FACTOR)
    return SuggestedValue(
        key="requestWalltime",
        requested=request.walltime_s,
        suggested=_round_time(most * factor),
        basis=basis,
        measured=most,
        samples=len(times),
        bounds=len(bounds),
    )


def _measure(ascending: Sequence[float], bounds: Sequence[float]) -> tuple[float, Basis | None]:
    """Return the value that a request must exceed, and what it is."""
    measured, basis = 0.0, None
    if ascending:
        basis = Basis.P95 if len(ascending) >= MIN_PERCENTILE else Basis.MAX
        measured = (quantile(ascending, 0.95) or 0.0) if basis is Basis.P95 else ascending[-1]
    if bounds and max(bounds) >= measured:
        return max(bounds), Basis.BOUND
    return measured, basis


def _never_succeeded(ended: Sequence[Usage], good: Sequence[Usage], cause: Cause) -> list[Usage]:
    """Return, per job without success, the last attempt that ran out of something."""
    succeeded = {(usage.run, usage.attempt.job) for usage in good}
    last = {
        (usage.run, usage.attempt.job): usage
        for usage in sorted(ended, key=lambda usage: usage.attempt.number)
        if usage.attempt.cause is cause
    }
    return [usage for job, usage in last.items() if job not in succeeded]


def _round_time(seconds: float) -> float:
    minutes = math.ceil(seconds / 60)
    step = 1 if minutes <= 60 else 5 if minutes <= 360 else 30
    return float(-(-minutes // step) * step * 60)


def _with_savings(suggestion: LabelSuggestion, ended: Sequence[Usage], good: Sequence[Usage]) -> LabelSuggestion:
    """Add what the measured runs would have saved with the changes."""
    changes = {value.key: value for value in suggestion.changes}
    memory, cpus = changes.get("requestMemory"), changes.get("requestCpus")
    core_s = memory_b_s = 0.0
    for usage in good:
        run_s = usage.attempt.run_s or 0.0
        is_retried = memory is not None and (usage.attempt.peak_memory_b or 0) > memory.suggested
        if memory is not None and usage.request.memory_b is not None:
            memory_b_s += run_s * (usage.request.memory_b - memory.suggested * (_BOUND_FACTOR if is_retried else 1.0))
        if cpus is not None:
            core_s += run_s * (usage.request.cpus - cpus.suggested)
        if is_retried and memory is not None:
            # The attempt that would fail before it, at most for its run time.
            memory_b_s -= run_s * memory.suggested
            core_s -= run_s * (usage.request.cpus if cpus is None else cpus.suggested)
    avoided = list(_avoided_attempts(ended, good, changes.values()))
    for usage in avoided:
        core_s += (usage.attempt.run_s or 0.0) * usage.request.cpus
        memory_b_s += (usage.attempt.run_s or 0.0) * (usage.request.memory_b or 0)
    return msgspec.structs.replace(
        suggestion,
        expected_retries=0 if memory is None else memory.exceeding,
        avoided_retries=len(avoided),
        core_s=core_s,
        memory_b_s=memory_b_s,
    )


def _avoided_attempts(
    ended: Sequence[Usage], good: Sequence[Usage], changes: Iterable[SuggestedValue]
) -> Iterator[Usage]:
    """Yield the attempts that ran out of something which the suggestion has enough of for their job."""
    suggested = {value.key: value.suggested for value in changes}
    memory_b, walltime_s = suggested.get("requestMemory", 0.0), suggested.get("requestWalltime", 0.0)
    used = {(usage.run, usage.attempt.job): usage.attempt for usage in good}
    for usage in ended:
        success = used.get((usage.run, usage.attempt.job))
        had: float | None
        needs: float | None
        if usage.attempt.cause is Cause.OOM:
            had, has, needs = usage.request.memory_b, memory_b, success.peak_memory_b if success else None
        elif usage.attempt.cause is Cause.WALLTIME:
            had, has, needs = usage.request.walltime_s, walltime_s, success.run_s if success else None
        else:
            continue
        if (had or 0) < has and (needs or 0) <= has:
            yield usage


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
                if origin is not None and origin.layer not in DEFAULT_LAYERS:
                    yield (label, key), origin


_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_YAML_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n"})
_STATISTICS: Final[Mapping[Basis, str]] = {Basis.P95: "95th percentile", Basis.MAX: "maximum"}


def requests_yaml(advice: RequestAdvice, *, over: str = "", output: Path | None = None) -> str:
    """Return the YAML that applies an advice, and write it to a new file `output`, if one is given.

    `over` is a configuration that the YAML includes, so that it wins over the values there. Raises `FilesError` if
    `over` cannot be read, or `output` exists or cannot be written.
    """
    text = advice_yaml(advice, over=included_name(over, output) if over else "")
    if output is not None:
        write_advice(output, text)
    return text


def write_advice(path: Path, text: str) -> None:
    """Write the YAML of an advice to a new file, whole or not at all.

    Raises `FilesError` if the file exists or cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise FilesError(f"'{path}' exists already", hint="Name another file, or remove it.")
    require_parent(path, path)
    try:
        create_atomically(path, text.encode())
    except OSError as error:
        raise write_error(error, path, path) from error


def included_name(over: str, output: Path | None) -> str:
    """Return how YAML in `output` names a file to include; that is looked for in the working directory first.

    Raises `FilesError` if the file cannot be read.
    """
    path = Path(over)
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise FilesError(
            f"'{over}' cannot be included: {error.strerror or error}", hint="Name the YAML file that you submit."
        ) from error
    is_beside = output is None or Path(os.path.realpath(output.parent)) == Path.cwd()
    return over if is_beside else str(path.absolute())


def advice_yaml(advice: RequestAdvice, *, over: str = "") -> str:
    """Return the YAML that applies an advice, with a comment that tells where each value comes from.

    `over` is a configuration that the text includes, so that it wins over values that this one sets itself.
    """
    return "\n".join(_advice_lines(advice, over)) + "\n"


def suggestion_yaml(advice: RequestAdvice, suggestion: LabelSuggestion, changes: Sequence[SuggestedValue]) -> str:
    """Return the YAML of some changes of one label, in few lines and without comments."""
    values = ", ".join(f"{value.key}: {_value_text(value)}" for value in changes)
    line = f"{_scalar(suggestion.label)}: {{{values}}}"
    section = advice.sections[suggestion.label]
    return f"{section}:\n  {line}" if section else line


def _advice_lines(advice: RequestAdvice, over: str) -> Iterator[str]:
    names = ", ".join(f"{opened.card.id} ({_comment(opened.card.name)})" for opened in advice.runs)
    yield f"# Requests from {count_noun(len(advice.runs), 'run')}: {names}; margin {advice.margin:g}."
    yield f"# They would have saved {advice.savings}." if advice.changed else "# No request is to be changed."
    if over:
        yield "# Submit this file."
        yield f"includeConfigs: {_scalar(over)}"
    else:
        yield "# Include this file: 'includeConfigs: FILE'. Values that the including file sets itself win."
    for section in (*PART_SECTIONS, ""):
        these = [each for each in advice.suggestions if advice.sections[each.label] == section]
        yield from _section_lines(section, these, advice, over=bool(over))


def _section_lines(
    section: str, suggestions: Sequence[LabelSuggestion], advice: RequestAdvice, *, over: bool
) -> Iterator[str]:
    indent = "  " if section else ""
    if section and any(each.changes for each in suggestions):
        yield f"{section}:"
    for each in suggestions:
        if not each.changes:
            yield f"{indent}# {_comment(each.label)}: {each.why_unchanged}"
            continue
        yield f"{indent}{_scalar(each.label)}:" + (f"  # {_guess(each)}" if each.is_guess else "")
        for value in each.changes:
            yield f"{indent}  {value.key}: {_value_text(value)}  # {describe_value(value)}"
            origin = advice.written.get((each.label, value.key))
            if origin is not None and not over:
                yield f"{indent}  # {_comment(str(origin))} sets {value.key} itself, and wins over an included file"


def _guess(suggestion: LabelSuggestion) -> str:
    return f"a guess: {count_noun(suggestion.successes, 'attempt')} succeeded so far"


def describe_value(value: SuggestedValue) -> str:
    """Describe where a suggested value comes from, in a line."""
    before = "nothing" if value.requested is None else _amount(value.key, value.requested)
    measured = _amount(value.key, value.measured)
    if value.basis is Basis.BOUND:
        origin = f"{count_noun(value.bounds, 'job')} ran out of {measured} and never succeeded; twice that lower bound"
    else:
        origin = f"{_STATISTICS[value.basis]} of {count_noun(value.samples, 'attempt')} {measured}"
    if value.exceeding:
        origin += f"; {count_noun(value.exceeding, 'job')} used more and would be retried"
    return f"{before} before; {origin}"


def _amount(key: str, value: float) -> str:
    if key == "requestMemory":
        return f"{value / MIB:.4g} MiB"
    if key == "requestWalltime":
        return _clock(value)
    return f"{value:.3g} processors" if value != 1 else "1 processor"


def _value_text(value: SuggestedValue) -> str:
    if value.key == "requestMemory":
        return str(round(value.suggested / MIB))
    if value.key == "requestWalltime":
        return f'"{_clock(value.suggested)}"'
    return str(round(value.suggested))


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"


def _scalar(text: str) -> str:
    """Return a YAML scalar that is this very text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    # JSON's escapes of characters beyond the basic plane are two surrogates, which YAML refuses.
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)


def _comment(text: str) -> str:
    """Return text for a comment, in one line."""
    return text if text.isprintable() else json.dumps(text)
